"""QDQ models of one layer as other people's quantisers make them: any scales, zero points and types."""

from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto

from examples.graph import Graph
from tests.reference.host import Array, draw_inputs, run_onnx

TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


@dataclass(frozen=True)
class Kind:
    """How a layer is quantised. Zero points are parts of the range of their type, 0 to 255 from its lowest."""

    x: str = "int8"
    y: str = "int8"
    w: str = "int8"
    x_zero: int = 128
    y_zero: int = 128
    w_zero: int = 128
    per_channel: bool = False
    bias: bool = True
    relu: bool = False
    x_scale: float = 0.031
    w_scale: float = 0.0047
    y_gain: float = 1.0


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    types, zeros = st.sampled_from(sorted(TYPES)), st.sampled_from([0, 1, 77, 127, 128, 129, 200, 255])
    weights = draw(types)
    scales = st.floats(1e-5, 2)
    return Kind(
        draw(types), draw(types), weights, draw(zeros), draw(zeros), draw(zeros) if weights == "uint8" else 128,
        draw(st.booleans()), draw(st.booleans()),
        draw(st.booleans()), draw(scales), draw(scales), draw(st.floats(0.25, 16)),
    )  # fmt: skip


def zero(dtype: str, above: int) -> Array:
    return np.array(np.iinfo(dtype).min + above, dtype)


def conv(kind: Kind, channels: int, filters: int, size: int = 6, *, groups: int = 1, seed: int = 0) -> onnx.ModelProto:
    """3 x 3 with padding; input and output are integers."""
    random, graph = np.random.default_rng(seed), Graph("conv")
    shape = (filters, channels // groups, 3, 3)
    x = graph.input("x", (1, channels, size, size), TYPES[kind.x])
    operands = _operands(graph, kind, x, shape, 0, random)
    y = graph.node("Conv", "conv", operands, pads=[1] * 4, group=groups)
    return _model(graph, kind, y, (1, filters, size, size), shape[1] * 9)


def dense(kind: Kind, rows: int, depth: int, columns: int, seed: int = 0) -> onnx.ModelProto:
    random, graph = np.random.default_rng(seed), Graph("dense")
    operands = _operands(graph, kind, graph.input("x", (rows, depth), TYPES[kind.x]), (depth, columns), 1, random)
    y = graph.node("Gemm", "dense", operands)
    return _model(graph, kind, y, (rows, columns), depth)


def _operands(
    graph: Graph, kind: Kind, x: str, shape: tuple[int, ...], axis: int, random: np.random.Generator
) -> list[str]:
    channels = shape[axis]
    reach = 127 if kind.w == "int8" or kind.w_zero == 128 else 255
    weights = np.clip(np.rint(random.normal(0, 40 * reach / 127, shape)), -reach, reach).astype(np.int16)
    weights += zero(kind.w, kind.w_zero)
    weights = weights.clip(np.iinfo(kind.w).min, np.iinfo(kind.w).max).astype(kind.w)
    scale = np.float32(kind.w_scale)
    if kind.per_channel:
        scale = (scale * np.exp2(random.uniform(-3, 0, channels))).astype(np.float32)
    operands = [
        graph.dequantize(x, kind.x_scale, zero(kind.x, kind.x_zero)),
        _dequantized(graph, "w", weights, scale, axis, zero(kind.w, kind.w_zero)),
    ]
    if kind.bias:
        bias = random.integers(-9999, 9999, channels).astype(np.int32)
        operands.append(_dequantized(graph, "b", bias, np.float32(kind.x_scale) * scale, 0, np.int32(0)))
    return operands


def _dequantized(graph: Graph, name: str, value: Array, scale: Array, axis: int, zero_point: Array) -> str:
    inputs = [graph.constant(name, value), graph.constant(f"{name}_scale", np.asarray(scale, np.float32))]
    inputs.append(graph.constant(f"{name}_zero", np.full(np.shape(scale), zero_point, value.dtype)))
    return graph.node("DequantizeLinear", f"{name}_dequantize", inputs, axis=axis)


def _model(graph: Graph, kind: Kind, y: str, shape: tuple[int, ...], depth: int) -> onnx.ModelProto:
    if kind.relu:
        y = graph.node("Relu", "relu", [y])
    scale = np.float32(kind.x_scale * kind.w_scale * depth**0.5 * 74 * 40 / 30 / kind.y_gain)
    graph.output(graph.quantize(y, float(scale), zero(kind.y, kind.y_zero), "y"), shape, TYPES[kind.y])
    return graph.model()


def check_within_a_step(results: list[Array], model: onnx.ModelProto, seed: int = 0) -> None:
    """Of onnxruntime's, without its optimisations, on the inputs that ``draw_inputs`` gives."""
    for result, expected in zip(results, run_onnx(model, draw_inputs(model, seed)), strict=True):
        assert result.dtype == expected.dtype
        assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1
