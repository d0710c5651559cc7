"""Folding changes no result, by onnxruntime on the float model, and leaves no node that a layer can take."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import InvalidModel
from accel.frontend.fold.layer_folding import fold_layers
from accel.frontend.onnx_model.onnx_nodes import name_nodes
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model
from tests.helpers.exported.case import Case
from tests.helpers.exported.folds import FOLDS
from tests.helpers.exported.graph import Exported
from tests.helpers.exported.layers import LAYERS
from tests.helpers.marking import share
from tests.helpers.models.exporter_habits import Habit, layer
from tests.reference.host import draw_inputs, run_onnx

PRODUCTS = ("gemm_of_all_kinds", "gemm_of_columns", "constant_on_the_left", "weight_with_batch_axes")
PRODUCTS += ("vector_times_matrix", "matrix_times_vector", "rows_of_batches", "sums_and_means", "residual_by_sum")
CASES = FOLDS | {name: LAYERS[name] for name in PRODUCTS}
ARITHMETIC = ("Add", "BatchNormalization", "Div", "Mul", "Sub")
FOLDED = {  # what is left of arithmetic
    "preactivation": ["Add"],
    "dense_block": [],
    "norm_in_caffes_parts_alone": [],
    "norm_after_transposed": [],
    "norm_after_gemm": [],
    "norm_after_matmul": ["Add"],
    "norm_before_gemm": [],
    "bias_in_disguise": [],
    "second_bias": [],
    "bias_of_one_number": [],
    "scale_in_disguise": [],
    "division_in_disguise": [],
    "transposed_with_bias_and_scale": [],
    "gemm_with_bias_and_scale": [],
    "normalised_image": ["Div", "Sub"],
    "layer_scale": ["Add"],
    "group_norm": [],
}


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(model)
    name_nodes(result)
    fold_layers(result)
    onnx.checker.check_model(result)
    return result


def left(model: onnx.ModelProto) -> Sequence[str]:
    return sorted(node.op_type for node in model.graph.node if node.op_type in ARITHMETIC)


def check_same(model: onnx.ModelProto) -> onnx.ModelProto:
    result = folded(model)
    for got, wanted in zip(*(run_onnx(m, draw_inputs(model)) for m in (result, model)), strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * float(np.abs(wanted).max()))
    return result


@pytest.mark.parametrize("name", CASES)
def test_nothing_changes(name: str) -> None:
    case: Case = CASES[name]
    result = check_same(load_model(case.model(case.opsets[-1]).SerializeToString()).model)
    if name in FOLDED:
        assert left(result) == FOLDED[name]


@pytest.mark.parametrize("name", ["preactivation", "norm_in_caffes_parts_alone", "group_norm"])
def test_a_norm_that_became_a_layer_has_no_multiply_accumulates(name: str) -> None:
    """Neither in the model nor in its quantised form, which says what it covers."""
    model = FOLDS[name].model(13).SerializeToString()
    quantised = quantize_model(load_model(model).model)
    assert any(node.op_type == "Conv" and "/Conv" not in node.name for node in quantised.graph.node)
    assert inspect_model(quantised.SerializeToString()).macs == inspect_model(model).macs


@pytest.mark.parametrize("name", ["norm_before_gemm", "scale_in_disguise"])
def test_every_node_of_the_user_is_covered(name: str) -> None:
    from accel.frontend.onnx_model.node_origins import origins_of  # noqa: PLC0415

    model = load_model(FOLDS[name].model(13).SerializeToString()).model
    covers = [origins_of(node) for node in quantize_model(model).graph.node]
    assert {node.name for node in model.graph.node} <= set().union(*covers)


STEPS = st.sampled_from(["Add", "Sub", "Sub from", "Mul", "Div", "Neg", "norm"])
LAYER = st.sampled_from(["Conv", "Conv of groups", "Conv of lines", "ConvTranspose", "Gemm", "Gemm, turned", "MatMul"])


@pytest.mark.slow
@settings(max_examples=share(60), deadline=None)
@given(kind=LAYER, steps=st.lists(STEPS, min_size=1, max_size=4), wide=st.booleans(), seed=st.integers(0, 1000))
def test_what_follows_a_layer_disappears(kind: str, steps: Sequence[str], wide: bool, seed: int) -> None:
    g = _graph(kind, seed)
    y, channels, shape = _layer(g, kind)
    for step in steps:
        y = _step(g, step, y, channels, shape if wide else None)
    result = check_same(load_model(g.model(y).SerializeToString()).model)
    assert left(result) in ([], ["Add"] if kind == "MatMul" else [])


@pytest.mark.slow
@settings(max_examples=share(40), deadline=None)
@given(kind=LAYER, steps=st.lists(STEPS, min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_what_is_ahead_of_a_layer_disappears(kind: str, steps: Sequence[str], seed: int) -> None:
    g = _graph(kind, seed)
    x, shape = g.x, () if kind in ("Gemm", "Gemm, turned", "MatMul") else (1,) * (1 if kind == "Conv of lines" else 2)
    for step in steps:
        x = _step(g, step, x, 8, shape)
    g.inputs[0] = x
    y, _, _ = _layer(g, kind)
    result = check_same(load_model(g.model(y).SerializeToString()).model)
    if kind != "ConvTranspose":
        assert left(result) in ([], ["Add"] if kind == "MatMul" else [])


def _graph(kind: str, seed: int) -> Exported:
    shape = {"Conv of lines": (2, 8, 9), "Gemm": (3, 8), "Gemm, turned": (3, 8), "MatMul": (3, 8)}
    return Exported(13, shape.get(kind, (2, 8, 5, 6)), seed=seed)


def _layer(g: Exported, kind: str) -> tuple[str, int, tuple[int, ...]]:
    """The result, its channels, and the axes behind them."""
    if kind.startswith("Conv"):
        return _convolution(g, kind)
    if kind == "Gemm":
        return g.op("Gemm", g.x, g.weight(8, 6), g.vector(1, 6), alpha=0.5, beta=2.0), 6, ()
    if kind == "Gemm, turned":
        return g.op("Gemm", g.x, g.weight(6, 8), g.vector(1), transB=1), 6, ()
    return g.op("MatMul", g.x, g.weight(8, 6)), 6, ()


def _convolution(g: Exported, kind: str) -> tuple[str, int, tuple[int, ...]]:
    if kind == "Conv":
        return g.op("Conv", g.x, g.weight(6, 8, 3, 3)), 6, (1, 1)
    if kind == "Conv of groups":
        return g.op("Conv", g.x, g.weight(6, 4, 3, 3), g.vector(6), group=2), 6, (1, 1)
    if kind == "Conv of lines":
        return g.op("Conv", g.x, g.weight(6, 8, 3), g.vector(6)), 6, (1,)
    return g.op("ConvTranspose", g.x, g.weight(8, 3, 2, 2), group=2, strides=[2, 2]), 6, (1, 1)


def _step(g: Exported, step: str, x: str, channels: int, shape: tuple[int, ...] | None) -> str:
    """One node behind ``x``; its constant is for each channel, or for all of them."""
    if step == "Neg":
        return g.op("Neg", x)
    if step == "norm":
        return g.norm(x, channels)
    constant = g.vector(channels, *shape, low=0.5, high=1.5) if shape is not None else np.array(0.75, np.float32)
    return g.op("Sub", constant, x) if step == "Sub from" else g.op(step, x, constant)


def test_a_bias_of_another_length_is_the_models_fault() -> None:
    constants = {"w": (64, 4, 3, 3), "b": (16,), "s": (1, 64, 1, 1)}
    habit = Habit((1, 4, 8, 8), (layer("Conv", "x w b", "a"), layer("Mul", "a s")), (18,), constants)
    with pytest.raises(InvalidModel, match="onnxruntime cannot run"):
        quantize_model(load_model(habit.model(18).SerializeToString()).model)


def test_stacks_of_constant_matrices_are_groups_of_channels() -> None:
    """Learned queries in front of keys and constants behind: layers, not products that only a vector unit does.

    A stack is as long as the data's, an axis of one is left out, and a single matrix in front is for each of them.
    """
    for front in ((2, 3, 5, 7), (1, 5, 7)):
        g = Exported(13, (2, 3, 7, 16))
        scores = g.op("Relu", g.op("MatMul", g.weight(*front), g.x))
        y = g.op("MatMul", scores, g.weight(2, 3, 16, 8))
        result = check_same(load_model(g.model(y).SerializeToString()).model)
        layers = [node.op_type for node in result.graph.node if node.op_type in ("Conv", "MatMul")]
        assert layers == (["Conv", "Conv"] if len(front) == 4 else ["MatMul", "Conv"])


def test_a_norm_behind_rows_that_are_counted_otherwise_disappears() -> None:
    """As of a product over [1, 16, 8] that a norm of [16, 6] follows; not where channels are mixed between."""
    for rows in ((6, 6), (4, 9)):
        g = Exported(13, (2, 3, 8))
        counted = g.op("Reshape", g.op("MatMul", g.x, g.weight(8, 6)), np.array(rows))
        y = g.op("Reshape", g.norm(counted, rows[-1]), np.array([2, 3, 6]))
        result = check_same(load_model(g.model(y).SerializeToString()).model)
        assert left(result) == (["Add"] if rows[-1] == 6 else ["BatchNormalization"])


def test_what_constants_alone_make_has_no_multiply_accumulates() -> None:
    """Nobody computes it; it would catch a share on the accelerator that can never be all."""
    g = Exported(13, (2, 8))
    made = g.op("MatMul", g.constant(g.weight(8, 5)), g.weight(5, 6))
    y = g.op("MatMul", g.x, g.op("Neg", made))
    assert inspect_model(g.model(y).SerializeToString()).macs == 2 * 8 * 6


def test_means_that_leave_padding_out_are_means_and_a_factor() -> None:
    """The accelerator has the mean, with padding; it would catch a factor of the wrong place, side or step."""
    g = Exported(19, (2, 3, 7, 6))
    y = g.op("AveragePool", g.x, kernel_shape=[3, 2], pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2])
    result = check_same(load_model(g.model(y).SerializeToString()).model)
    assert [node.op_type for node in result.graph.node] == ["AveragePool", "Mul"]
