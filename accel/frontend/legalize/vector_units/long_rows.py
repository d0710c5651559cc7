"""Functions of rows that are too long to be on the chip, in two steps: of parts of a row, and of these.

The row of ``n`` elements is seen as parts of equal size. What is summed, or of which the largest is looked for, is so
within each part and then over the parts; the elements are read again for what is computed with it.
"""

import math
from collections.abc import Sequence

import numpy as np
import onnx

from accel.frontend.legalize.node_writer import NodeWriter, Writing, with_written
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import attribute_of, constants_of, opset_of
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes

_LAST_SOFTMAX = 13  # the first opset in which it is along one axis
_AXES_ARE_INPUT = {
    "ReduceMax": 18,
    "ReduceMean": 18,
    "ReduceMin": 18,
    "ReduceSum": 13,
}  # the first opsets in which they are
_COMPUTED = 5  # rows of a softmax or a norm, of data and of what is computed of them, with those that come and go
_CHANNELS = 2  # axes of an image ahead of those that are normalised


def with_split_rows(model: onnx.ModelProto, room: int) -> onnx.ModelProto:
    """Returns ``model`` with rows in parts that do not fit: a copy, or itself if there are none.

    Args:
        model: in QDQ form; rows are those of its float operators.
        room: elements that are on the chip at once.
    """
    if not any(node.op_type in _WRITERS for node in model.graph.node):
        return model
    shapes = known_shapes(model)
    return with_written(model, [_writing(node, shapes, model, room) for node in model.graph.node])


def _writing(node: onnx.NodeProto, shapes: dict[str, Shape], model: onnx.ModelProto, room: int) -> Writing | None:
    split = _split(node, shapes, model, room)
    if split is None:
        return None
    write, shape = _WRITERS[node.op_type], shapes[node.input[0]]
    return lambda writer: write(_Rows(writer, split), shape)


def _split(node: onnx.NodeProto, shapes: dict[str, Shape], model: onnx.ModelProto, room: int) -> Shape | None:
    """The shape of a node's data with its rows in parts; None of what has no rows, or has them at once."""
    rows, longest = _rows_of(node, shapes, model), room // _rows_at_once(node)
    parts = None if rows is None or rows[1] <= longest else _parts(rows[1], longest)
    return None if rows is None or parts is None else (*rows[0], *parts)


def _rows_at_once(node: onnx.NodeProto) -> int:
    """How many rows are on the chip while one is computed: its data, what is made of them, and operands."""
    return _COMPUTED + (len(node.input) - 1 if node.op_type == "LayerNormalization" else 0)


def _rows_of(node: onnx.NodeProto, shapes: dict[str, Shape], model: onnx.ModelProto) -> tuple[Shape, int] | None:
    """The axes of rows, and the elements of each; None of what has no rows, or whose shape is not known."""
    shape = shapes.get(node.input[0]) if node.op_type in _WRITERS else None
    if not shape:
        return None
    if node.op_type == "Softmax":
        axis = attribute_of(node, "axis", -1) % len(shape)
        if axis != len(shape) - 1 or opset_of(model) < _LAST_SOFTMAX:
            return None
    elif node.op_type == "LayerNormalization":
        axis = attribute_of(node, "axis", -1) % len(shape)
    elif node.op_type == "InstanceNormalization":
        axis = _CHANNELS
    elif _reduced_axes(node, model, len(shape)) == [len(shape) - 1]:
        axis = len(shape) - 1
    else:
        return None
    return tuple(shape[:axis]), math.prod(shape[axis:])


def _reduced_axes(node: onnx.NodeProto, model: onnx.ModelProto, rank: int) -> list[int]:
    """The axes that a reduction is along; none where they depend on data, or are not said."""
    known = constants_of(model.graph).get(node.input[1]) if len(node.input) > 1 else None
    axes = attribute_of(node, "axes", []) if known is None else array_of(known).reshape(-1).tolist()
    return sorted(int(axis) % rank for axis in axes)


def _parts(extent: int, longest: int) -> tuple[int, int] | None:
    """How many parts a row has and how long each is, as long as may be; None if none divide it."""
    found = next((part for part in range(longest, 1, -1) if extent % part == 0), None)
    return None if found is None or extent // found > longest else (extent // found, found)


class _Rows:
    """What becomes of a node whose rows have parts: tensors ``[*rows, parts, elements]``."""

    def __init__(self, writer: NodeWriter, shape: Shape) -> None:
        self.node, self.shape = writer.node, shape
        self.emit, self.constant, self.reshaped = writer.emit, writer.constant, writer.reshaped
        self._writer = writer

    def reduced(self, op: str, data: str) -> str:
        """Reduces the elements of each part, and then the parts."""
        for axis in (-1, -2):
            if self._writer.opset < _AXES_ARE_INPUT[op]:
                data = self.emit(op, data, axes=[axis], keepdims=1)
            else:
                data = self.emit(op, data, self.constant(np.array([axis], np.int64)), keepdims=1)
        return data

    def along(self, place: int, shape: Sequence[int]) -> str:
        """An operand of the node, as it goes along its rows."""
        name = self.node.input[place]
        known = self._writer.value_of(name)
        return self.reshaped(name, shape) if known is None else self.constant(array_of(known).reshape(shape))


def _reduction(rows: _Rows, shape: Shape) -> None:
    reduced = rows.reduced(rows.node.op_type, rows.reshaped(rows.node.input[0], rows.shape))
    kept = (*shape[:-1], 1) if attribute_of(rows.node, "keepdims", 1) else shape[:-1]
    rows.reshaped(reduced, kept, rows.node.output[0])


def _softmax(rows: _Rows, shape: Shape) -> None:
    data = rows.reshaped(rows.node.input[0], rows.shape)
    raised = rows.emit("Exp", rows.emit("Sub", data, rows.reduced("ReduceMax", data)))
    shares = rows.emit("Div", raised, rows.reduced("ReduceSum", raised))
    rows.reshaped(shares, shape, rows.node.output[0])


def _norm(rows: _Rows, shape: Shape) -> None:
    data = rows.reshaped(rows.node.input[0], rows.shape)
    distance = rows.emit("Sub", data, rows.reduced("ReduceMean", data))
    variance = rows.reduced("ReduceMean", rows.emit("Mul", distance, distance))
    epsilon = rows.constant(np.array(attribute_of(rows.node, "epsilon", 1e-5), np.float32))
    factor = rows.emit("Reciprocal", rows.emit("Sqrt", rows.emit("Add", variance, epsilon)))
    value = rows.emit("Mul", distance, factor)
    own = (shape[1], 1, 1) if rows.node.op_type == "InstanceNormalization" else rows.shape[-2:]
    for place, op in ((1, "Mul"), (2, "Add")):
        if len(rows.node.input) > place and rows.node.input[place]:
            value = rows.emit(op, value, rows.along(place, own))
    rows.reshaped(value, shape, rows.node.output[0])


_WRITERS = {
    "InstanceNormalization": _norm,
    "LayerNormalization": _norm,
    "Softmax": _softmax,
    **dict.fromkeys(_AXES_ARE_INPUT, _reduction),
}
