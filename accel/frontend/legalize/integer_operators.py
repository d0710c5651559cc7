"""The quantised operators of integers: ConvInteger and MatMulInteger, whose result is int32, and DynamicQuantizeLinear.

A zero point is taken off with the sum of the weights that meet data, and not padding, at each position.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from accel.errors import InvalidModel, UnsupportedOperator, UnsupportedShape
from accel.frontend.legalize.explicit_padding import pads_of
from accel.frontend.legalize.qdq_writer import QdqWriter, QuantizationNames
from accel.frontend.onnx_model.model_limits import LIMITS


def sums_in_bounds(writer: QdqWriter, node: onnx.NodeProto, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns for each output of the convolution ``node`` the sum of the weights that meet data and not padding.

    ``weights`` is [O, I, ...]; the result [1, O, ...], with the result's extents, or ones if there is no padding.

    Raises:
        UnsupportedOperator: the shape of the data is unknown.
        UnsupportedShape: the result is beyond the limits.
        InvalidModel: the attributes do not fit the kernel.
    """
    walks = _walks(writer, node, weights.shape[2:])
    sums: npt.NDArray[np.int64] = weights.sum(1)
    if not any(walk.before or walk.after for walk in walks):
        return np.array(sums.sum(tuple(range(1, sums.ndim)), keepdims=True)[None])
    if len(sums) * math.prod(walk.count for walk in walks) > LIMITS.tensor_elements:
        raise UnsupportedShape(f"the result of {node.op_type} is too large", field=f"node:{node.name}")
    for axis, walk in enumerate(walks, 1):
        sums = np.moveaxis(np.tensordot(walk.meets(), sums, (1, axis)), 0, axis)
    return sums[None]


@dataclass(frozen=True)
class _Walk:
    """How a window goes along one axis of ``size`` elements, padded before and after."""

    stride: int
    dilation: int
    before: int
    after: int
    size: int
    taps: int

    @property
    def count(self) -> int:
        """Positions of the window."""
        return max((self.size + self.before + self.after - self.dilation * (self.taps - 1) - 1) // self.stride + 1, 0)

    def meets(self) -> npt.NDArray[np.int64]:
        """Returns 1 where a tap of a position is within the data: [positions, taps]."""
        at = np.arange(self.count)[:, None] * self.stride - self.before + np.arange(self.taps) * self.dilation
        return ((at >= 0) & (at < self.size)).astype(np.int64)


def _walks(writer: QdqWriter, node: onnx.NodeProto, kernel: tuple[int, ...]) -> list[_Walk]:
    """Along each axis of an image."""
    shape, rank = writer.shape_of(node.input[0]), len(kernel)
    if shape is None or len(shape) != rank + 2:
        raise UnsupportedOperator(f"{node.op_type}: the shape of its data is unknown", field=f"node:{node.name}")
    counts = [writer.attribute(node, name, [1] * rank) for name in ("strides", "dilations")]
    taps = writer.attribute(node, "kernel_shape", list(kernel))
    pads = pads_of(node, shape[2:], kernel) if taps == list(kernel) and _are(counts, rank, least=1) else []
    if not _are([pads], 2 * rank, least=0):
        raise InvalidModel(f"{node.op_type}: its attributes do not fit its kernel", field=f"node:{node.name}")
    return [_Walk(*walk) for walk in zip(*counts, pads[:rank], pads[rank:], shape[2:], kernel, strict=True)]


def _are(lists: list[list[int]], length: int, least: int) -> bool:
    return all(len(values) == length and min(values, default=least) >= least for values in lists)


Rule = Callable[[QdqWriter, onnx.NodeProto], None]

_UINT8_MIDDLE = 128
_UINT8_MAX = 255


def _conv(writer: QdqWriter, node: onnx.NodeProto) -> None:
    data, weight = writer.operand(node, 0), writer.operand(node, 1)
    zero, weights = writer.optional(node, 2), _centred(writer, weight, writer.optional(node, 3), axis=0)
    dynamic = bool(zero) and writer.value(zero) is None and weights is not None
    known, middle = _known_zero(writer, zero) if dynamic else (zero, 0)
    operands = [
        writer.dequantize(node, data, _unit(writer, known)),
        writer.dequantize(node, weight, _unit(writer, writer.optional(node, 3)), axis=0),
    ]
    result = writer.replace(node, "Conv", operands)
    if not dynamic or weights is None:
        _as_int32(writer, node, result, str(node.output[0]))
        return
    factors = sums_in_bounds(writer, node, weights)
    _take_off(writer, node, result, (zero, middle), factors.astype(np.int32))


def _matmul(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """Left as it is where the weights are no constant matrix: the host multiplies integers exactly."""
    data, weight = writer.operand(node, 0), writer.operand(node, 1)
    zero, weights = writer.optional(node, 2), _centred(writer, weight, writer.optional(node, 3), axis=1)
    fixed = writer.value(zero) if zero else None
    dynamic = bool(zero) and fixed is None
    if weights is None or weights.ndim != 2 or (fixed is not None and fixed.size > 1):
        writer.keep(node)
        return
    if dynamic and writer.shape_of(zero) not in ((), (1,)):  # a zero point for each row, perhaps
        writer.keep(node)
        return
    known, middle = _known_zero(writer, zero) if dynamic else (zero, 0)
    operands = [
        writer.dequantize(node, data, _unit(writer, known)),
        writer.dequantize(node, weight, _unit(writer, writer.optional(node, 3)), axis=1),
    ]
    result = writer.replace(node, "MatMul", operands)
    if dynamic:
        _take_off(writer, node, result, (zero, middle), weights.sum(0).astype(np.int32))
    else:
        _as_int32(writer, node, result, str(node.output[0]))


def _dynamic_quantize(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """The definition of the operator, with the scale 1 of a tensor of zeros, as onnxruntime has it."""
    name, data = node.name, writer.operand(node, 0)
    outputs = [*node.output, "", ""]
    zero, levels = (writer.constant(f"{name}_{value}", np.array(value, np.float32)) for value in (0, _UINT8_MAX))
    low = writer.emit(node, "Clip", "low", [writer.emit(node, "ReduceMin", "min", [data], keepdims=0), "", zero])
    high = writer.emit(node, "Clip", "high", [writer.emit(node, "ReduceMax", "max", [data], keepdims=0), zero])
    span = writer.emit(node, "Sub", "span", [high, low])
    step = writer.emit(node, "Div", "step", [span, levels])
    some = writer.emit(node, "Greater", "some", [span, zero])
    scale = writer.emit(node, "Where", "scale", [some, step, writer.unit], outputs[1])
    steps = writer.emit(node, "Neg", "steps", [writer.emit(node, "Div", "low_steps", [low, scale])])
    least = writer.constant(f"{name}_least", np.array(0, np.uint8))
    # it rounds half to even, and saturates
    point = writer.emit(node, "QuantizeLinear", "zero_point", [steps, writer.unit, least], outputs[2])
    writer.replace(node, "QuantizeLinear", [data, scale, point], outputs[0])


def _unit(writer: QdqWriter, zero_point: str) -> QuantizationNames:
    return QuantizationNames(writer.unit, zero_point)


def _centred(writer: QdqWriter, weight: str, zero: str, axis: int) -> npt.NDArray[np.int64] | None:
    """The weights minus their zero points, which may run along ``axis``; None if they are not constant."""
    values, zeros = writer.value(weight), writer.value(zero) if zero else np.zeros((), np.int64)
    if values is None or zeros is None or values.ndim <= axis or zeros.size not in (1, values.shape[axis]):
        return None
    along = [1] * values.ndim
    along[axis] = -1
    centred: npt.NDArray[np.int64] = values.astype(np.int64) - zeros.astype(np.int64).reshape(along)
    return centred


def _known_zero(writer: QdqWriter, zero: str) -> tuple[str, int]:
    """A constant to take off the data in place of the zero point: its name, empty for 0, and value."""
    producer = writer.producers.get(zero)
    if producer is None or producer.op_type != "DynamicQuantizeLinear":
        return "", 0
    return writer.middle, _UINT8_MIDDLE


def _as_int32(writer: QdqWriter, node: onnx.NodeProto, result: str, output: str = "") -> str:
    return writer.emit(node, "Cast", "int32", [result], output, to=TensorProto.INT32)


def _take_off(
    writer: QdqWriter, node: onnx.NodeProto, result: str, zero: tuple[str, int], factors: npt.NDArray[np.int32]
) -> None:
    """The output of ``node``: ``result`` less ``factors`` for each unit that the zero point is above the middle."""
    name, (point, middle) = node.name, zero
    above = writer.emit(node, "Cast", "zero_int32", [point], to=TensorProto.INT32)
    if middle:
        above = writer.emit(node, "Sub", "zero_above", [above, writer.constant(f"{name}_middle", np.int32(middle))])
    part = writer.emit(node, "Mul", "zero_part", [above, writer.constant(f"{name}_sums", factors)])
    writer.emit(node, "Sub", "centred", [_as_int32(writer, node, result), part], str(node.output[0]))


INTEGER_RULES: Mapping[tuple[str, str], Rule] = {
    ("", "ConvInteger"): _conv,
    ("", "DynamicQuantizeLinear"): _dynamic_quantize,
    ("", "MatMulInteger"): _matmul,
}
