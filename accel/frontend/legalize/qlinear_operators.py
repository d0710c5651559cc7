"""The quantised operators that have scales, softmax among them, each as dequantize, float operator, quantize."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx
from onnx import helper

from accel.errors import InvalidModel, UnsupportedOperator
from accel.frontend.legalize.qdq_writer import MICROSOFT, QdqWriter, QuantizationNames

_ONE_AXIS = 13  # the first opset of Softmax along one axis; before, it is along all from that axis on


def softmax(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """Replaces QLinearSoftmax: one operand and a result, each with scale and zero point.

    Raises:
        InvalidModel: there is no such axis.
        UnsupportedOperator: the shape of the data is unknown, or the model's opset cannot say what is meant.
    """
    meant = writer.attribute(node, "opset", writer.opset)
    axis = writer.attribute(node, "axis", -1 if meant >= _ONE_AXIS else 1)
    operand, shape = writer.operand(node, 0), writer.shape_of(writer.operand(node, 0))
    if shape is None:
        raise UnsupportedOperator(f"{node.op_type}: the shape of its data is unknown", field=f"node:{node.name}")
    if not -len(shape) <= axis < len(shape):
        raise InvalidModel(f"{node.op_type}: its data have no axis {axis}", field=f"node:{node.name}")
    axis %= len(shape)
    data = writer.dequantize(node, operand, writer.quantum(node, 1))
    last = axis == len(shape) - 1
    if last or (meant >= _ONE_AXIS) == (writer.opset >= _ONE_AXIS):
        result = _along(writer, node, data, axis)
    elif meant < _ONE_AXIS:
        flat = [math.prod(shape[:axis]), math.prod(shape[axis:])]
        result = _along(writer, node, _reshaped(writer, node, data, flat), 1)
        result = _reshaped(writer, node, result, shape)
    else:
        raise UnsupportedOperator(
            f"{node.op_type} is that of opset {meant}, in a model of opset {writer.opset}", field=f"node:{node.name}"
        )
    writer.quantize(node, result, writer.quantum(node, 3), writer.optional(node, 2))


def _along(writer: QdqWriter, node: onnx.NodeProto, data: str, axis: int) -> str:
    stated = onnx.NodeProto.FromString(node.SerializeToString())
    del stated.attribute[:]
    stated.attribute.append(helper.make_attribute("axis", axis))
    return writer.replace(stated, "Softmax", [data])


def _reshaped(writer: QdqWriter, node: onnx.NodeProto, data: str, shape: Sequence[int]) -> str:
    extents = writer.constant(f"{node.name}_shape", np.array(shape, np.int64))
    return writer.emit(node, "Reshape", "reshape", [data, extents])


Rule = Callable[[QdqWriter, onnx.NodeProto], None]

_OWN_ATTRIBUTES = ("channels_last", "opset")


def _conv(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """x, w and result, each with scale and zero point; the bias is int32 in units of x times w."""
    data, weight = writer.quantum(node, 1), writer.quantum(node, 4)
    operands = [
        writer.dequantize(node, writer.operand(node, 0), data),
        writer.dequantize(node, writer.operand(node, 3), weight, axis=0),
    ]
    if bias := writer.optional(node, 8):
        operands.append(_bias(writer, node, bias, data, weight))
    result = writer.replace(node, "Conv", operands)
    writer.quantize(node, result, writer.quantum(node, 6), data.zero_point)


def _matmul(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """The scale of the first operand may run along its rows, that of the second along its columns."""
    first, second = writer.quantum(node, 1), writer.quantum(node, 4)
    operands = [
        writer.dequantize(node, writer.operand(node, 0), first, axis=-2),
        writer.dequantize(node, writer.operand(node, 3), second, axis=-1),
    ]
    writer.quantize(node, writer.replace(node, "MatMul", operands), writer.quantum(node, 6), first.zero_point)


def _gemm(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """``alpha`` scales the bias too, so it is a part of the weight's scale; without a scale the result is float."""
    data, weight = writer.quantum(node, 1), writer.quantum(node, 4)
    columns = 0 if writer.attribute(node, "transB", 0) else 1
    alpha, scale = np.float32(writer.attribute(node, "alpha", 1.0)), writer.value(weight.scale)
    if alpha != 1 and (scale is None or not alpha > 0):
        raise UnsupportedOperator(
            f"{node.op_type} with alpha = {alpha}; supported is 1, or above 0 with a constant scale",
            field=f"node:{node.name}",
        )
    if alpha != 1 and scale is not None:
        weight = QuantizationNames(writer.constant(f"{weight.scale}_alpha", scale * alpha), weight.zero_point)
    operands = [
        writer.dequantize(node, writer.operand(node, 0), data),
        writer.dequantize(node, writer.operand(node, 3), weight, axis=columns),
    ]
    if bias := writer.optional(node, 6):
        operands.append(_bias(writer, node, bias, data, weight))
    wanted = writer.optional(node, 7)
    output = "" if wanted else str(node.output[0])
    result = writer.replace(node, "Gemm", operands, output, dropped=("alpha", "beta"))
    if wanted:
        writer.quantize(node, result, writer.quantum(node, 7), data.zero_point)


def _binary(op: str, writer: QdqWriter, node: onnx.NodeProto) -> None:
    """Two operands and a result, each with scale and zero point."""
    operands = [writer.dequantize(node, writer.operand(node, at), writer.quantum(node, at + 1)) for at in (0, 3)]
    writer.quantize(node, writer.replace(node, op, operands), writer.quantum(node, 6), writer.optional(node, 2))


def _unary(op: str, writer: QdqWriter, node: onnx.NodeProto) -> None:
    """One operand, its scale and zero point, and those of the result."""
    if writer.attribute(node, "channels_last", 0):
        raise UnsupportedOperator(
            f"{node.op_type} with channels_last is not supported",
            field=f"node:{node.name}",
        )
    operand = writer.dequantize(node, writer.operand(node, 0), writer.quantum(node, 1))
    result = writer.replace(node, op, [operand], dropped=_OWN_ATTRIBUTES)
    writer.quantize(node, result, writer.quantum(node, 3), writer.optional(node, 2))


def _concat(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """The result's scale and zero point come first, then each operand with its own."""
    starts = range(2, max(len(node.input), 3), 3)
    operands = [writer.dequantize(node, writer.operand(node, at), writer.quantum(node, at + 1)) for at in starts]
    writer.quantize(node, writer.replace(node, "Concat", operands), writer.quantum(node, 0), writer.optional(node, 4))


def _where(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """The condition, then as :func:`_binary`."""
    choices = [writer.dequantize(node, writer.operand(node, at), writer.quantum(node, at + 1)) for at in (1, 4)]
    result = writer.replace(node, "Where", [writer.operand(node, 0), *choices])
    writer.quantize(node, result, writer.quantum(node, 7), writer.optional(node, 3))


def _adopt(writer: QdqWriter, node: onnx.NodeProto) -> None:
    """An operator that ONNX has too."""
    adopted = onnx.NodeProto()
    adopted.CopyFrom(node)
    adopted.domain = ""
    writer.keep(adopted)


def _bias(
    writer: QdqWriter, node: onnx.NodeProto, bias: str, data: QuantizationNames, weight: QuantizationNames
) -> str:
    """The int32 bias as float: one of its units is the product of the scales."""
    scales = [writer.value(quantum.scale) for quantum in (data, weight)]
    if scales[0] is not None and scales[1] is not None:
        unit = writer.constant(f"{bias}_scale", scales[0].reshape(-1)[:1] * scales[1].reshape(-1))
    else:
        unit = writer.emit(node, "Mul", "bias_scale", [data.scale, weight.scale])
    return writer.dequantize(node, bias, QuantizationNames(unit, ""), axis=0)


LINEAR_RULES: Mapping[tuple[str, str], Rule] = {
    ("", "QLinearConv"): _conv,
    ("", "QLinearMatMul"): _matmul,
    (MICROSOFT, "DequantizeLinear"): _adopt,
    (MICROSOFT, "QuantizeLinear"): _adopt,
    (MICROSOFT, "QGemm"): _gemm,
    (MICROSOFT, "QLinearAdd"): partial(_binary, "Add"),
    (MICROSOFT, "QLinearAveragePool"): partial(_unary, "AveragePool"),
    (MICROSOFT, "QLinearConcat"): _concat,
    (MICROSOFT, "QLinearGlobalAveragePool"): partial(_unary, "GlobalAveragePool"),
    (MICROSOFT, "QLinearLeakyRelu"): partial(_unary, "LeakyRelu"),
    (MICROSOFT, "QLinearMul"): partial(_binary, "Mul"),
    (MICROSOFT, "QLinearSigmoid"): partial(_unary, "Sigmoid"),
    (MICROSOFT, "QLinearWhere"): _where,
}
