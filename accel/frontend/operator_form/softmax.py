"""The quantised softmax, which may be that of another opset than the model's."""

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from accel.errors import InvalidModel, UnsupportedOperator
from accel.frontend.operator_form.writer import Writer

_ONE_AXIS = 13  # the first opset of Softmax along one axis; before, it is along all from that axis on


def softmax(writer: Writer, node: onnx.NodeProto) -> None:
    """Replace QLinearSoftmax: one operand, its scale and zero point, and those of the result.

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


def _along(writer: Writer, node: onnx.NodeProto, data: str, axis: int) -> str:
    stated = onnx.NodeProto.FromString(node.SerializeToString())
    del stated.attribute[:]
    stated.attribute.append(helper.make_attribute("axis", axis))
    return writer.replace(stated, "Softmax", [data])


def _reshaped(writer: Writer, node: onnx.NodeProto, data: str, shape: Sequence[int]) -> str:
    extents = writer.constant(f"{node.name}_shape", np.array(shape, np.int64))
    return writer.emit(node, "Reshape", "reshape", [data, extents])
