"""Scales that movement carries, forwards and backwards, and attention masks, which get none."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from tvm import relax

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.frontend.integer_recovery.integer_movement import with_integer_movement
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_grid import Scheme
from accel.host.onnx_calls import read_onnx_call
from accel.util.arrays import Array
from examples.graph import Graph

_SHAPE = (1, 16, 8, 8)
Move = Callable[[Graph, str], str]


def _integers(graph: Graph, name: str, *values: int) -> str:
    return graph.constant(name, np.array(values, np.int64))


def _gather(graph: Graph, x: str) -> str:
    return graph.node("Gather", "move", [x, _integers(graph, "at", 3, 1, 2, 7)], axis=1)


def _last(graph: Graph, x: str) -> str:
    """x[:, :, -1], as torch exports it."""
    taken = graph.node("Gather", "move", [x, graph.constant("at", np.array(-1))], axis=2)
    return graph.node("Unsqueeze", "line", [taken, _integers(graph, "axes", 2)])


def _slice(graph: Graph, x: str) -> str:
    bounds = [_integers(graph, name, value) for name, value in (("begin", 0), ("end", 8), ("axis", 1), ("step", 2))]
    return graph.node("Slice", "move", [x, *bounds])


def _split(graph: Graph, x: str) -> str:
    graph.node("Split", "move", [x, _integers(graph, "sizes", 4, 12)], ["few", "many"], axis=1)
    return graph.node("Concat", "swapped", ["many", "few"], axis=1)


def _resize(graph: Graph, x: str) -> str:
    sizes = graph.constant("by", np.array([1, 1, 2, 2], np.float32))
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return graph.node("Resize", "move", [x, "", sizes], **modes)


def _pad_channels(graph: Graph, x: str) -> str:
    return graph.node("Pad", "move", [x, _integers(graph, "widths", 0, 4, 0, 0, 0, 4, 0, 0)])


def _pad_mirrored(graph: Graph, x: str) -> str:
    return graph.node("Pad", "move", [x, _integers(graph, "widths", 0, 0, 1, 1, 0, 0, 1, 1)], mode="reflect")


def _tile(graph: Graph, x: str) -> str:
    return graph.node("Tile", "move", [x, _integers(graph, "times", 1, 2, 1, 1)])


def _depth_to_space(graph: Graph, x: str) -> str:
    return graph.node("DepthToSpace", "move", [x], blocksize=2)


def _max_pool(graph: Graph, x: str) -> str:
    return graph.node("MaxPool", "move", [x], kernel_shape=[2, 2], strides=[2, 2])


def _pyramid(graph: Graph, x: str) -> str:
    """Maxima of maxima beside each other, as YOLO's SPPF has them."""
    found = [x]
    for place in range(3):
        attributes = {"kernel_shape": [5, 5], "pads": [2] * 4, "strides": [1, 1]}
        found.append(graph.node("MaxPool", f"pool{place}", [found[-1]], **attributes))
    return graph.node("Concat", "move", found, axis=1)


_MOVES: dict[Move, tuple[int, int, int]] = {  # channels, rows and columns of the result
    _gather: (4, 8, 8),
    _last: (16, 1, 8),
    _slice: (4, 8, 8),
    _split: (16, 8, 8),
    _resize: (16, 16, 16),
    _pad_channels: (24, 8, 8),
    _pad_mirrored: (16, 10, 10),
    _tile: (32, 8, 8),
    _depth_to_space: (4, 16, 16),
    _max_pool: (16, 4, 4),
    _pyramid: (64, 8, 8),
}


def _convolution(graph: Graph, name: str, x: str, channels: tuple[int, int]) -> str:
    values = np.random.default_rng(len(name)).standard_normal((channels[1], channels[0], 3, 3)) / 12
    return graph.node("Conv", name, [x, graph.constant(f"{name}_w", values.astype(np.float32))], pads=[1] * 4)


def _between_layers(move: Move) -> onnx.ModelProto:
    """A convolution, SiLU, the movement, a convolution: the scale comes to the movement's operand from its result."""
    channels, *plane = _MOVES[move]
    graph = Graph("moved")
    y = _convolution(graph, "first", graph.input("x", _SHAPE), (16, 16))
    y = move(graph, graph.node("Mul", "silu", [y, graph.node("Sigmoid", "gate", [y])]))
    graph.output(_convolution(graph, "second", y, (channels, 8)), [1, 8, *plane])
    return graph.model()


def _run(model: onnx.ModelProto, **inputs: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, inputs)[0])


def _decibels(expected: Array, got: Array) -> float:
    return float(10 * np.log10((expected**2).sum() / ((expected - got) ** 2).sum()))


@pytest.mark.parametrize("move", _MOVES)
def test_nothing_between_layers_is_float(move: Move) -> None:
    """A scale that stops at a movement, in either direction, so that the host dequantises and quantises around it."""
    imported = import_integer_model(quantize_model(_between_layers(move)))
    bindings = [binding for block in imported.module["main"].body.blocks for binding in block.bindings]
    calls = [call.op for binding in bindings if (call := read_onnx_call(binding.value)) is not None]
    assert calls.count("QuantizeLinear") == 1  # of the model's input
    assert calls.count("DequantizeLinear") == 1  # of its output
    floats = [b for b in bindings if isinstance(b.var.ty, relax.TensorType) and str(b.var.ty.dtype) == "float32"]
    assert len({str(binding.var.ty) for binding in floats}) == 1  # the output's


@pytest.mark.parametrize("move", _MOVES)
def test_integers_are_moved_as_numbers_are(move: Move) -> None:
    """A node on integers that makes other numbers, as a Pad whose filling is no zero point would."""
    model = quantize_model(_between_layers(move))
    x = np.random.default_rng(5).standard_normal(_SHAPE).astype(np.float32)
    np.testing.assert_array_equal(_run(with_integer_movement(model), x=x), _run(model, x=x))


@pytest.mark.parametrize("filling", [0.0, 0.33, -100.0, np.inf])
def test_a_pad_is_filled_with_what_its_constant_becomes(filling: float) -> None:
    """A zero point other than 0, a number between two steps, and one beyond the range."""
    graph = Graph("padded")
    point = np.array(-5, np.int8)
    x = graph.dequantize(graph.quantize(graph.input("x", _SHAPE), 0.1, point), 0.1, point)
    widths = _integers(graph, "widths", 0, 1, 0, 2, 0, 0, 0, 0)
    padded = graph.node("Pad", "pad", [x, widths, graph.constant("filling", np.array(filling, np.float32))])
    graph.output(graph.dequantize(graph.quantize(padded, 0.1, point), 0.1, point), [1, 17, 8, 10])
    model, values = graph.model(), np.linspace(-13, 13, 1024, dtype=np.float32).reshape(_SHAPE)
    changed = with_integer_movement(model)
    assert sum(node.op_type == "QuantizeLinear" for node in changed.graph.node) == 1
    np.testing.assert_array_equal(_run(changed, x=values), _run(model, x=values))


def test_movement_between_two_scales_stays_in_float() -> None:
    """Integers moved to where they stand for other numbers."""
    graph = Graph("rescaled")
    point = np.array(0, np.int8)
    x = graph.dequantize(graph.quantize(graph.input("x", _SHAPE), 0.1, point), 0.1, point)
    graph.output(graph.dequantize(graph.quantize(_gather(graph, x), 0.2, point), 0.2, point), [1, 4, 8, 8])
    changed = with_integer_movement(graph.model())
    assert sum(node.op_type == "QuantizeLinear" for node in changed.graph.node) == 2


@pytest.mark.slow
@pytest.mark.parametrize("move", [_split, _last])
def test_a_moved_network_is_verified(move: Move, tmp_path: Path) -> None:
    """What the compiler and the reference make of integer movement, where they differ."""
    model = _between_layers(move)
    report = run_model(model.SerializeToString(), load_accelerator("vta"), Options(trace=False), tmp_path)
    assert report.verified


def test_a_step_of_a_sequence_keeps_the_sequences_scale() -> None:
    """The last step alone sets its own scale, by the few values of its samples."""
    graph = Graph("sequence")
    y = _convolution(graph, "first", graph.input("x", _SHAPE), (16, 16))
    y = graph.node("Flatten", "flat", [graph.node("Gather", "last", [y, graph.constant("at", np.array(-1))], axis=3)])
    weight = np.random.default_rng(2).standard_normal((128, 10)).astype(np.float32) / 11
    graph.output(graph.node("MatMul", "dense", [y, graph.constant("w", weight)]), [1, 10])
    model = quantize_model(graph.model(), scheme=Scheme("free"))
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    used = {
        node.input[0]: float(scales[node.input[1]]) for node in model.graph.node if node.op_type == "QuantizeLinear"
    }
    assert used["last"] == used["flat"] == used["first"]


def _attention(low: float) -> onnx.ModelProto:
    """Scores to which a mask is added that is made of an input, as exporters of BERT write it."""
    graph, random = Graph("attention"), np.random.default_rng(0)
    x, mask = graph.input("x", [1, 6, 16]), graph.input("mask", [1, 6])

    def dense(name: str, data: str) -> str:
        weight = random.standard_normal((16, 16)).astype(np.float32) / 4
        return graph.node("MatMul", name, [data, graph.constant(f"{name}_w", weight)])

    q, k, v = (dense(name, x) for name in "qkv")
    scores = graph.node("MatMul", "scores", [q, graph.node("Transpose", "turned", [k], perm=[0, 2, 1])])
    inverse = graph.node("Sub", "inverse", [graph.constant("one", np.array(1, np.float32)), mask])
    absent = graph.node("Cast", "absent", [inverse], to=TensorProto.BOOL)
    numbers = [graph.constant(name, np.array(value, np.float32)) for name, value in (("low", low), ("zero", 0))]
    chosen = graph.node("Where", "where", [absent, *numbers])
    added = graph.node("Unsqueeze", "spread", [chosen, _integers(graph, "axes", 1)])
    shares = graph.node("Softmax", "shares", [graph.node("Add", "masked", [scores, added])], axis=-1)
    graph.output(dense("result", graph.node("MatMul", "mixed", [shares, v])), [1, 6, 16])
    return graph.model()


@pytest.mark.parametrize("low", [-np.inf, -65504.0, -1e9])
def test_a_mask_reaches_its_softmax_as_it_is(low: float) -> None:
    """A mask that is calibrated: its scale leaves nothing of the scores, and minus infinity has none."""
    random, model = np.random.default_rng(1), _attention(low)
    x = random.standard_normal((8, 1, 6, 16)).astype(np.float32)
    mask = np.tile(np.array([1, 1, 1, 1, 0, 0], np.float32), (8, 1, 1))
    made = quantize_model(model, {"x": x, "mask": mask})
    expected, got = (_run(each, x=x[0], mask=mask[0]) for each in (model, made))
    assert _decibels(expected, got) > 25


@pytest.mark.parametrize("low", [-np.inf, -1e9])
def test_a_constant_mask_is_no_bias(low: float) -> None:
    """Classes that are never chosen, masked behind the last layer: as a bias they would set its weights' scale."""
    graph, random = Graph("masked"), np.random.default_rng(0)
    weight, mask = random.standard_normal((16, 8)).astype(np.float32), np.zeros(8, np.float32)
    mask[5:] = low
    logits = graph.node("MatMul", "dense", [graph.input("x", [1, 16]), graph.constant("w", weight)])
    added = graph.node("Add", "masked", [logits, graph.constant("mask", mask)])
    graph.output(graph.node("Softmax", "shares", [added]), [1, 8])
    model, x = graph.model(), random.standard_normal((8, 1, 16)).astype(np.float32)
    made = quantize_model(model, {"x": x})
    assert _decibels(_run(model, x=x[0]), _run(made, x=x[0])) > 25
