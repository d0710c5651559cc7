"""The quantised operators of integers: ConvInteger and MatMulInteger, whose result is int32, and DynamicQuantizeLinear.

Their operands are dequantised with the scale 1, so the float operator has integer results, and a Cast makes them
int32 again. Float32 holds them exactly up to 2^24; beyond, where the weights are constant, the recovery of integers
takes the place of all three. A zero point that is known only at run time is taken off afterwards: for data x, their
zero point z and weights w, ``sum((x - z) w) = sum((x - c) w) - (z - c) sum(w)``, with c the middle of x's range.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from accel.frontend.operator_form.padding import sums_in_bounds
from accel.frontend.operator_form.writer import Quantum, Writer

Rule = Callable[[Writer, onnx.NodeProto], None]

_UINT8_MIDDLE = 128
_UINT8_MAX = 255


def _conv(writer: Writer, node: onnx.NodeProto) -> None:
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


def _matmul(writer: Writer, node: onnx.NodeProto) -> None:
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


def _dynamic_quantize(writer: Writer, node: onnx.NodeProto) -> None:
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


def _unit(writer: Writer, zero_point: str) -> Quantum:
    return Quantum(writer.unit, zero_point)


def _centred(writer: Writer, weight: str, zero: str, axis: int) -> npt.NDArray[np.int64] | None:
    """The weights minus their zero points, which may run along ``axis``; None if they are not constant."""
    values, zeros = writer.value(weight), writer.value(zero) if zero else np.zeros((), np.int64)
    if values is None or zeros is None or values.ndim <= axis or zeros.size not in (1, values.shape[axis]):
        return None
    along = [1] * values.ndim
    along[axis] = -1
    centred: npt.NDArray[np.int64] = values.astype(np.int64) - zeros.astype(np.int64).reshape(along)
    return centred


def _known_zero(writer: Writer, zero: str) -> tuple[str, int]:
    """A constant to take off the data in place of the zero point: its name, empty for 0, and value."""
    producer = writer.producers.get(zero)
    if producer is None or producer.op_type != "DynamicQuantizeLinear":
        return "", 0
    return writer.middle, _UINT8_MIDDLE


def _as_int32(writer: Writer, node: onnx.NodeProto, result: str, output: str = "") -> str:
    return writer.emit(node, "Cast", "int32", [result], output, to=TensorProto.INT32)


def _take_off(
    writer: Writer, node: onnx.NodeProto, result: str, zero: tuple[str, int], factors: npt.NDArray[np.int32]
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
