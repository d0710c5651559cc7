"""Which nodes of the user's a node stands for, once optimisation has folded some into others.

The names travel in the node's metadata, so that a quantised model that is kept or uploaded again has them.
"""

import contextlib
import json

import onnx
from pydantic import TypeAdapter, ValidationError

from accel.frontend.onnx_model.onnx_nodes import note_of, set_note

_KEY = "cyclops.covers"
_COVERS = TypeAdapter(dict[str, str])


def origins_of(node: onnx.NodeProto) -> dict[str, str]:
    """Returns the user's nodes that ``node`` computes, by name, and their operators; itself if none are noted."""
    text = note_of(node, _KEY)
    if text is not None:
        with contextlib.suppress(ValidationError):
            return _COVERS.validate_json(text)
    return {node.name: node.op_type}


def is_part(node: onnx.NodeProto) -> bool:
    """Returns whether ``node`` is one of several that a node of the user's was replaced by."""
    return node.name not in origins_of(node)


def note_origin(node: onnx.NodeProto, source: onnx.NodeProto) -> None:
    """Notes on ``node`` that it computes a part of the user's node ``source``."""
    _note(node, origins_of(source))


def join_origins(node: onnx.NodeProto, removed: onnx.NodeProto) -> None:
    """Notes on ``node`` that it also computes the node ``removed``, which is no longer in the model."""
    _note(node, origins_of(node) | origins_of(removed))


def note_origins(optimised: onnx.ModelProto, original: onnx.ModelProto) -> None:
    """Notes on each node of ``optimised`` which nodes of ``original`` it computes, in place.

    They are those between its outputs and the nearest tensors that ``optimised`` still has. Nodes of constants
    alone are nobody's, unless they are part of a node.
    """
    producers = {output: node for node in original.graph.node for output in node.output}
    constants = _constants(original)
    places = {node.name: at for at, node in enumerate(original.graph.node)}
    parts = {node.name: origins_of(node) for node in original.graph.node if is_part(node)}
    own = {node.name for node in optimised.graph.node} & {node.name for node in original.graph.node}
    computed = {output for node in optimised.graph.node for output in node.output}
    claimed: set[str] = set()
    for node in optimised.graph.node:
        found: dict[str, str] = {}
        shared: set[str] = set()  # nodes of the user's that several nodes of ``original`` compute
        seen: set[str] = set()
        pending = list(node.output)
        while pending:
            producer = producers.get(pending.pop())
            if producer is None or producer.name in seen or producer.output[0] in constants:
                continue
            seen.add(producer.name)
            found |= origins_of(producer)
            if is_part(producer):
                shared.update(origins_of(producer))
            pending += [name for name in producer.input if name not in computed]
        mine = {
            name: op
            for name, op in found.items()
            if name == node.name or (name in shared and name not in own) or (name not in own and name not in claimed)
        }
        claimed.update(mine)  # |= with keys would build a new set for each node
        if not mine and node.name in parts:
            _note(node, parts[node.name])
        if mine and mine != {node.name: node.op_type}:
            # a layer bears the first name
            order = sorted(mine, key=lambda name: (name != node.name, places.get(name, len(places))))
            _note(node, {name: mine[name] for name in order})


def _note(node: onnx.NodeProto, covers: dict[str, str]) -> None:
    set_note(node, _KEY, json.dumps(covers))


def _constants(model: onnx.ModelProto) -> set[str]:
    """The tensors that do not depend on the inputs."""
    found = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if all(not name or name in found for name in node.input):
            found.update(node.output)
    return found
