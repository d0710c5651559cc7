"""Compensated rounding against one weight after the other, and the windows that it learns from against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from accel.frontend.quantize.input_moments import BLOCK, InputMoments
from accel.frontend.quantize.quantization_targets import find_targets
from accel.frontend.quantize.weight_rounding import compensated
from examples.graph import Graph
from tests.reference.host import Array, run_onnx


def one_by_one(rows: Array, moments: Array) -> Array:
    """Rounded weights [outputs, inputs]: each rounded, and then those left set to the best floats for what is fixed."""
    left, found = rows.astype(np.float64).copy(), np.zeros(rows.shape)
    for at in range(rows.shape[1]):
        found[:, at] = np.clip(np.rint(left[:, at]), -128, 127)
        rest = np.arange(at + 1, rows.shape[1])
        fixed = np.arange(at + 1)
        if rest.size:
            error = rows[:, fixed] - found[:, fixed]
            left[:, rest] = rows[:, rest] + error @ moments[np.ix_(fixed, rest)] @ np.linalg.inv(
                moments[np.ix_(rest, rest)]
            )
    return found


def layer_of(
    kind: str, weight: Array, shape: tuple[int, ...], out: tuple[int, ...], **attributes: Any
) -> tuple[Any, Any]:
    graph = Graph("layer")
    graph.output(graph.node(kind, "layer", [graph.input("x", shape), graph.constant("w", weight)], **attributes), out)
    model = graph.model()
    return model, find_targets(model).layers[0]


@pytest.mark.parametrize("seed", range(4))
def test_each_weight_makes_up_for_those_before_it(seed: int) -> None:
    """The reference solves for the weights that are left; it would catch feedback of another sign or order."""
    random = np.random.default_rng(seed)
    mixed = random.standard_normal((200, 12)) @ random.standard_normal((12, 12)) + 1
    moments, rows = mixed.T @ mixed / 200, random.standard_normal((5, 12)) * 4
    found = compensated(rows[None].astype(np.float32), unit_factor(moments)[None].astype(np.float32))[0]
    backwards = one_by_one(rows.astype(np.float32), moments)
    assert (found == backwards).mean() > 0.95  # of rounded halves


def unit_factor(moments: Array) -> Array:
    lower = np.linalg.cholesky(moments[::-1, ::-1])[::-1, ::-1]
    return np.asarray(lower / np.diag(lower))


@pytest.mark.parametrize(("inputs", "outputs"), [(BLOCK, 3), (BLOCK + 7, 130), (3 * BLOCK, 300), (9, 40)])
def test_sums_are_nearer_than_with_each_weight_rounded_by_itself(inputs: int, outputs: int) -> None:
    random = np.random.default_rng(inputs)
    smooth = np.cumsum(random.standard_normal((400, inputs)), 1).astype(np.float32)
    weight = (random.standard_normal((inputs, outputs)) * 3).astype(np.float32)
    _, layer = layer_of("MatMul", weight, (400, inputs), (400, outputs))
    moments = InputMoments(layer, 1)
    moments.add(smooth)
    feedback = moments.feedback()
    found = compensated(layer.group_rows, feedback.factor)
    assert found.dtype == np.int8
    assert found.shape == (1, outputs, inputs)
    errors = [np.square(smooth @ (one - weight)).sum() for one in (found[0].T, np.rint(weight))]
    assert errors[0] < 0.5 * errors[1]
    assert 0 < feedback.left < 1


@pytest.mark.parametrize(("mean", "spread"), [(0, 1e-22), (3e4, 1e-3), (3e4, 0), (1e25, 1e20)])
def test_inputs_that_rounding_leaves_no_moments(mean: float, spread: float) -> None:
    """It would catch a factor of what is not positive definite: the first model that somebody exports may vanish."""
    random = np.random.default_rng(0)
    graph, weight = Graph("layer"), random.standard_normal((BLOCK, 8)).astype(np.float32)
    inputs = [graph.input("x", (400, BLOCK)), graph.constant("w", weight), graph.constant("b", np.zeros(8, np.float32))]
    graph.output(graph.node("Gemm", "layer", inputs), (400, 8))
    layer = find_targets(graph.model()).layers[0]
    moments = InputMoments(layer, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        varied = random.standard_normal((400, 4)) @ random.standard_normal((4, BLOCK))
        moments.add((mean + spread * varied).astype(np.float32))
        feedback = moments.feedback()
    assert np.isfinite(feedback.factor).all()
    assert np.abs(compensated(layer.group_rows * 40, feedback.factor) - layer.group_rows * 40).max() < 100


def test_weights_beyond_the_range_are_clipped() -> None:
    found = compensated(np.array([[[300.0, -300.0, 1.4]]], np.float32), np.eye(3, dtype=np.float32)[None])
    assert found.tolist() == [[[127, -128, 1]]]


@pytest.mark.parametrize(
    ("groups", "attributes", "size"),
    [
        (1, {}, 5),
        (1, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, 0),
        (2, {"dilations": [2, 2]}, 3),
        (4, {"pads": [1, 1, 1, 1]}, 7),
    ],
)
def test_windows_are_what_a_convolution_reads(groups: int, attributes: dict[str, Any], size: int) -> None:
    """It would catch windows cut at other places, or inputs in another order than the weights."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((8, 4 // groups, 3, 3)).astype(np.float32)
    out = (1, 8, size, size) if size else (1, 8, 4, 6)
    model, layer = layer_of("Conv", weight, (1, 4, 7, 7), out, group=groups, **attributes)
    data = random.standard_normal((1, 4, 7, 7)).astype(np.float32)
    (expected,) = run_onnx(model, {"x": data})
    moments = InputMoments(layer, 2)
    for sample in (data, -data):
        sums = np.einsum("giw,goi->gow", moments.inputs(sample), layer.group_rows).reshape(expected.shape)
        np.testing.assert_allclose(sums, expected if sample is data else -expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("groups", "taps"), [(1, 2), (2, 2), (4, 3)])
def test_each_tap_of_a_transposed_convolution_is_a_sum_of_its_own(groups: int, taps: int) -> None:
    """Strides of the kernel's size: each result comes of one tap. It would catch weights in another order."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((8, 3, taps, taps)).astype(np.float32)
    size = 5 * taps
    model, layer = layer_of(
        "ConvTranspose", weight, (1, 8, 5, 5), (1, 3 * groups, size, size), group=groups, strides=[taps, taps]
    )
    data = random.standard_normal((1, 8, 5, 5)).astype(np.float32)
    (expected,) = run_onnx(model, {"x": data})
    sums = np.einsum("giw,gsi->gsw", InputMoments(layer, 1).inputs(data), layer.group_rows)
    placed = sums.reshape(groups, 3, taps, taps, 5, 5).transpose(0, 1, 4, 2, 5, 3).reshape(expected.shape)
    np.testing.assert_allclose(placed, expected, rtol=1e-4, atol=1e-5)
    assert (layer.of_group_rows(layer.group_rows) == weight).all()


def test_inputs_that_are_always_zero_do_no_harm() -> None:
    _, layer = layer_of("MatMul", np.ones((4, 2), np.float32), (3, 4), (3, 2))
    moments = InputMoments(layer, 1)
    moments.add(np.zeros((3, 4), np.float32))
    assert (compensated(layer.group_rows * 2.4, moments.feedback().factor) == 2).all()
