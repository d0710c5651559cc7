"""Nodes of a graph: operators' domain and version, unique names, attributes, constants, which only move elements."""

from collections.abc import Iterable, Iterator
from typing import Any

import onnx
from onnx import helper

ONNX_DOMAINS = ("", "ai.onnx")
"""The names of the domain of ONNX's own operators."""


def opset_of(model: onnx.ModelProto) -> int:
    """Returns the version of the ONNX operators, 0 if not stated."""
    return next((int(entry.version) for entry in model.opset_import if entry.domain in ONNX_DOMAINS), 0)


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of ``model``, those of functions and subgraphs too."""
    for holder in (model.graph, *model.functions):
        yield from _nodes_within(holder.node)


def _nodes_within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _nodes_within(graph.node)


def name_nodes(model: onnx.ModelProto) -> None:
    """Gives each unnamed node of ``model``, and each repeated name, the name ``<operator>_<index>``, in place."""
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{index}"
        while node.name in taken:
            node.name += "_"
        taken.add(node.name)


def unique_name(name: str, taken: set[str]) -> str:
    """Returns ``name``, lengthened until nothing in ``taken`` has it; it is then taken."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def attribute_of(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Returns the value of an attribute, or ``default`` if the node has none of that name."""
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def set_attributes(node: onnx.NodeProto, **values: Any) -> None:
    """Replaces or add attributes; those whose value is None are removed."""
    for index in reversed(range(len(node.attribute))):
        if node.attribute[index].name in values:
            del node.attribute[index]
    given = {name: value for name, value in values.items() if value is not None}
    node.attribute.extend(helper.make_attribute(name, value) for name, value in given.items())


_MOVES = frozenset((
    "DepthToSpace", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze",
    "Tile", "Transpose", "Unsqueeze",
))  # fmt: skip


def note_of(node: onnx.NodeProto, key: str) -> str | None:
    """Returns what :func:`set_note` noted on the node; None: nothing."""
    return next((entry.value for entry in node.metadata_props if entry.key == key), None)


def set_note(node: onnx.NodeProto, key: str, text: str) -> None:
    """Notes ``text`` in the node's metadata, instead of what was noted under ``key`` before."""
    for index in reversed(range(len(node.metadata_props))):
        if node.metadata_props[index].key == key:
            del node.metadata_props[index]
    node.metadata_props.add(key=key, value=text)


def moved_tensors(node: onnx.NodeProto) -> set[str]:
    """Returns the tensors whose elements ``node`` only moves; one may be the largest of several."""
    if node.op_type == "Concat":
        return set(node.input)
    return {node.input[0]} if node.op_type in _MOVES and node.input else set()


def move_results(node: onnx.NodeProto) -> list[str]:
    """Returns the tensors that such a node makes of them."""
    return list(node.output[:1] if node.op_type == "MaxPool" else node.output)


def constants_of(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Returns initializers, and the values of Constant nodes that are tensors, by name."""
    return {str(tensor.name): tensor for tensor in graph.initializer} | {
        str(node.output[0]): node.attribute[0].t
        for node in graph.node
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value"
    }
