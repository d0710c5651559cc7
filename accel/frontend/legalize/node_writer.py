"""Nodes written in place of others: each is given as a function that emits what it is replaced by."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import constants_of, name_nodes, opset_of, unique_name
from accel.util.arrays import Array

_CHANNELS, _IMAGE = 1, 3  # the axis of channels, and the least rank of what has them
_FEW_CHANNELS = 8  # that are rows too short to move

Writing = Callable[["NodeWriter"], None]
"""Emits what a node is replaced by; the last of it makes the node's result."""


class NodeWriter:
    """Emits nodes in place of one, as parts of it.

    Attributes:
        node: the one that is replaced.
        made: what was emitted.
    """

    def __init__(self, model: onnx.ModelProto, node: onnx.NodeProto, taken: set[str]) -> None:
        self.node, self.made = node, list[onnx.NodeProto]()
        self._model, self._taken = model, taken

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return opset_of(self._model)

    def value_of(self, name: str) -> onnx.TensorProto | None:
        """Returns a constant; None of all else."""
        return constants_of(self._model.graph).get(name)

    def emit(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Emits a node, and returns the name of its result."""
        out = name or unique_name(f"{self.node.name}_{op}", self._taken)
        label = unique_name(f"{self.node.name}_{op}_node", self._taken)
        self.made.append(helper.make_node(op, inputs, [out], name=label, **attributes))
        note_origin(self.made[-1], self.node)
        return out

    def constant(self, value: Array) -> str:
        """Returns the name of a new constant."""
        name = unique_name(f"{self.node.name}_constant", self._taken)
        self._model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def sliced(self, data: str, axis: int, begin: int, end: int, step: int = 1) -> str:
        """Emits a Slice along one axis, and returns the name of its result."""
        places = (begin, end, axis) if step == 1 else (begin, end, axis, step)
        return self.emit("Slice", data, *(self.constant(np.array([each])) for each in places))

    def reshaped(self, data: str, shape: Sequence[int], name: str = "") -> str:
        """Emits a Reshape, and returns the name of its result."""
        return self.emit("Reshape", data, self.constant(np.array(shape, np.int64)), name=name)


def long_rows_first(shape: Sequence[int]) -> list[int]:
    """Returns the axes of a tensor in the order in which its rows are long: channels last, if there are enough."""
    rank = len(shape)
    if rank < _IMAGE or shape[_CHANNELS] < _FEW_CHANNELS:
        return list(range(rank))
    return [0, *range(_CHANNELS + 1, rank), _CHANNELS]


def with_written(model: onnx.ModelProto, writings: Sequence[Writing | None]) -> onnx.ModelProto:
    """Returns a copy of ``model`` with other nodes in place of those that have a writing; itself if none has."""
    if not any(writings):  # as of most models, whose weights are not copied for it
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    name_nodes(made)
    graph, nodes = made.graph, list[onnx.NodeProto]()
    taken = {name for node in graph.node for name in (node.name, *node.input, *node.output)} | {*constants_of(graph)}
    for node, write in zip(graph.node, writings, strict=True):
        if write is None:
            nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
            continue
        writer = NodeWriter(made, node, taken)
        write(writer)
        nodes += writer.made
    del graph.node[:]
    graph.node.extend(nodes)
    return made
