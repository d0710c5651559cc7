"""Movement on integers: what selects, repeats or pads between dequantize and quantize of one scale.

The numbers that a tensor's integers stand for are moved as the integers themselves are, bit by bit, so the node stays
and reads the integers. What Relax has an operator for that later stages look into, such as a maximum over windows, is
left to ``movement_recovery.py`` and ``max_pool_recovery.py``.
"""

import numpy as np
import onnx
from onnx import numpy_helper

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import attribute_of, constants_of, name_nodes, opset_of, unique_name

_MOVES = (
    "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Resize", "Slice",
    "SpaceToDepth", "Split", "Tile",
)  # fmt: skip
_FIRST = 13  # the opset from which all of these take int8

Parameters = tuple[float, int, str]


def with_integer_movement(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` with its movement between equal scales on integers: a copy, or itself if there is none.

    One that reads a dequantised tensor, and of which each result is only quantised again as its data were, reads the
    integers, and its results are the integers that were made of them.
    """
    if opset_of(model) < _FIRST or not any(node.op_type in _MOVES for node in model.graph.node):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    name_nodes(made)
    return made if _Movement(made.graph).changed() else model


class _Movement:
    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._constants = constants_of(graph)
        self._makers = {name: node for node in graph.node for name in node.output}
        self._users: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        self._outputs = {info.name for info in graph.output}
        self._taken = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
        self._taken |= set(self._constants)
        self._gone: set[str] = set()  # names of the nodes that quantise again
        self._renamed: dict[str, str] = {}

    def changed(self) -> bool:
        """Rewrites the graph, whose nodes have names; returns whether anything changed."""
        for node in self._graph.node:
            node.input[:] = [self._renamed.get(name, name) for name in node.input]
            if node.op_type in _MOVES:
                self._move(node)
        kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in self._graph.node if n.name not in self._gone]
        del self._graph.node[:]
        self._graph.node.extend(kept)
        return bool(self._gone)

    def _move(self, node: onnx.NodeProto) -> None:
        """Has ``node`` work on integers if what reads its results does nothing but quantise as its data were."""
        source = self._makers.get(node.input[0])
        parameters = self._parameters(source, "DequantizeLinear") if source is not None else None
        readers = {name: self._users.get(name, []) for name in node.output}
        again = [user for users in readers.values() for user in users]
        if source is None or parameters is None or not again or not self._outputs.isdisjoint(node.output):
            return
        if any(self._parameters(user, "QuantizeLinear") != parameters for user in again):
            return
        if not self._outputs.isdisjoint(user.output[0] for user in again) or not self._fill(node, parameters):
            return
        node.input[0] = source.input[0]
        for place, users in enumerate(list(readers.values())):
            if users:
                node.output[place] = users[0].output[0]
                self._renamed |= dict.fromkeys((str(user.output[0]) for user in users[1:]), str(users[0].output[0]))
        self._gone.update(user.name for user in again)

    def _parameters(self, node: onnx.NodeProto, op: str) -> Parameters | None:
        """The scale, zero point and type of ``op`` to or from int8 or uint8; None unless there is one for all."""
        if node.op_type != op or len(node.input) < 3 or any(name not in self._constants for name in node.input[1:]):
            return None
        scale, zero_point = (array_of(self._constants[name]) for name in node.input[1:3])
        if scale.size != 1 or zero_point.size != 1 or zero_point.dtype not in (np.int8, np.uint8):
            return None
        return float(np.float32(scale.reshape(()))), int(zero_point.reshape(())), str(zero_point.dtype)

    def _fill(self, node: onnx.NodeProto, parameters: Parameters) -> bool:
        """Gives a Pad the integer that its constant becomes; False if ``node`` makes other numbers than its data's."""
        mode = attribute_of(node, "mode", b"")
        if node.op_type == "Resize":
            crops = attribute_of(node, "coordinate_transformation_mode", b"") == b"tf_crop_and_resize"
            return mode in (b"", b"nearest") and not crops
        if node.op_type != "Pad" or mode not in (b"", b"constant"):
            return True
        given = node.input[2] if len(node.input) > 2 else ""
        if given and given not in self._constants:
            return False
        scale, zero_point, dtype = parameters
        number = np.float32(array_of(self._constants[given]).reshape(())) if given else np.float32(0)
        if np.isnan(number):
            return False
        limits = np.iinfo(dtype)
        integer = np.clip(np.rint(number / np.float32(scale)) + zero_point, limits.min, limits.max)
        name = unique_name(f"{node.name}_filling", self._taken)
        self._graph.initializer.append(numpy_helper.from_array(np.array(integer, dtype), name))
        node.input[:] = [*node.input[:2], name, *node.input[3:]]
        return True
