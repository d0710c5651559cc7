"""Maxima over windows of floats as maxima of slices, which vector programs compute.

Such a maximum follows a norm or a function, and has no scale that it could keep. TVM writes it as a reduction at places
that are sums, with conditions on the borders; of elementwise maxima each instruction knows one. Windows go along one
axis after the other, so that one of 3 x 3 takes six slices.
"""

from collections.abc import Container, Mapping, Sequence

import numpy as np
import onnx

from accel.frontend.legalize.explicit_padding import pads_of
from accel.frontend.legalize.node_writer import NodeWriter, Writing, long_rows_first, with_written
from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes
from accel.region.shapes import WindowAxis

_OUTER = 2  # axes ahead of those that windows go along
_MOST = 16  # elements of a window along an axis
_LEAST = np.finfo(np.float32).min


def with_float_maxima(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` with maxima of slices in place of MaxPools of floats; itself if there is none.

    What is dequantised only to be pooled is left: its integers are.
    """
    if not any(node.op_type == "MaxPool" for node in model.graph.node):
        return model
    shapes = known_shapes(model, onnx.TensorProto.FLOAT)
    integers = {node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    return with_written(model, [_writing(node, shapes, integers) for node in model.graph.node])


def _writing(node: onnx.NodeProto, shapes: Mapping[str, Shape], integers: Container[str]) -> Writing | None:
    if node.op_type != "MaxPool" or node.input[0] in integers or any(node.output[1:]):
        return None
    given, made = shapes.get(node.input[0]), shapes.get(node.output[0])
    axes = _axes(node, given[_OUTER:], made[_OUTER:]) if given and made else []
    whole = all(axis.made == 1 and not (axis.before or axis.after) for axis in axes)
    if not given or whole or max(axis.taps for axis in axes) > _MOST or not any(axis.moves for axis in axes):
        return None  # of a whole tensor it is one reduction
    return lambda writer: _write(writer, given, axes)


def _axes(node: onnx.NodeProto, given: Shape, made: Shape) -> list[WindowAxis]:
    """How its windows go along each axis."""
    taps = attribute_of(node, "kernel_shape", ())
    strides, apart = (attribute_of(node, name, [1] * len(given)) for name in ("strides", "dilations"))
    ahead = pads_of(node, given, taps)[: len(given)]
    return [WindowAxis(*each) for each in zip(taps, apart, strides, ahead, given, made, strict=True)]


def _write(writer: NodeWriter, shape: Shape, axes: Sequence[WindowAxis]) -> None:
    """Emit the maxima, channels last where there are enough of them, axis by axis."""
    rank, data = len(shape), writer.node.input[0]
    order = long_rows_first(shape)
    last, first = order != sorted(order), order.index(_OUTER)
    data = writer.emit("Transpose", data, perm=order) if last else data
    pads = np.zeros((2, rank), np.int64)
    pads[:, first : first + len(axes)] = [[axis.before for axis in axes], [axis.after for axis in axes]]
    if pads.any():
        data = writer.emit("Pad", data, writer.constant(pads.reshape(-1)), writer.constant(np.array(_LEAST)))
    walked = [(at, axis) for at, axis in enumerate(axes, first) if axis.moves]
    for number, (at, axis) in enumerate(walked):
        slices = [writer.sliced(data, at, *axis.slice_of(tap), axis.stride) for tap in range(axis.taps)]
        name = writer.node.output[0] if number == len(walked) - 1 and not last else ""
        data = writer.emit("Max", *slices, name=name)
    if last:
        writer.emit("Transpose", data, name=writer.node.output[0], perm=np.argsort(order).tolist())
