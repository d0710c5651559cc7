"""Local response normalisation as sums of slices of channels, which vector programs compute.

TVM writes a window of channels as a condition on its borders, which no document says.
"""

from collections.abc import Mapping

import numpy as np
import onnx

from accel.frontend.legalize.node_writer import NodeWriter, Writing, with_written
from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes

_CHANNELS = 1
_MOST = 16  # channels of a window


def with_channel_windows(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` with sums of slices in place of LRN of narrow windows; itself if there is none."""
    if not any(node.op_type == "LRN" for node in model.graph.node):
        return model
    shapes = known_shapes(model)
    return with_written(model, [_writing(node, shapes) for node in model.graph.node])


def _writing(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> Writing | None:
    shape = shapes.get(node.input[0]) if node.op_type == "LRN" else None
    size = int(attribute_of(node, "size", 0))
    if not shape or len(shape) <= _CHANNELS or not 0 < size <= _MOST:
        return None
    return lambda writer: _write(writer, shape, size)


def _write(writer: NodeWriter, shape: Shape, size: int) -> None:
    """Emit ``x / (bias + alpha / size * sum(x ** 2)) ** beta``, the power as an exponential: of ONNX's definition."""
    node, data = writer.node, writer.node.input[0]
    alpha, beta, bias = (
        float(attribute_of(node, name, default)) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    pads = np.zeros(2 * len(shape), np.int64)
    pads[_CHANNELS], pads[len(shape) + _CHANNELS] = (size - 1) // 2, size // 2
    squares = writer.emit("Pad", writer.emit("Mul", data, data), writer.constant(pads))
    total = ""
    for first in range(size):
        part = writer.sliced(squares, _CHANNELS, first, first + shape[_CHANNELS])
        total = writer.emit("Add", total, part) if total else part

    def number(value: float) -> str:
        return writer.constant(np.array(value, np.float32))

    within = writer.emit("Add", writer.emit("Mul", total, number(alpha / size)), number(bias))
    power = writer.emit("Exp", writer.emit("Mul", writer.emit("Log", within), number(-beta)))
    writer.emit("Mul", data, power, name=node.output[0])
