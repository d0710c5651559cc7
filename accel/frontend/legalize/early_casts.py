"""Conversions of integer inputs to floats ahead of what only moves their elements, as programs move floats.

A mask of int64 that is reshaped and expanded before its Cast would be moved by the host, element by element; behind the
Cast that is addresses of a load.
"""

from collections.abc import Sequence

import onnx

from accel.frontend.onnx_model.onnx_nodes import attribute_of, unique_name

_MOVES = ("Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze")


def cast_inputs_early(graph: onnx.GraphProto) -> None:
    """Moves each Cast of a moved input to float32 to the input, in place.

    Args:
        graph: whose nodes have names. Movement that others read too stays as it is.
    """
    inputs = {value.name for value in graph.input}
    casts = [
        node.name
        for node in graph.node
        if node.op_type == "Cast" and attribute_of(node, "to", 0) == onnx.TensorProto.FLOAT
    ]
    if not casts:
        return
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    outputs = [value.name for value in graph.output]
    taken = {name for node in nodes for name in (node.name, *node.input, *node.output)}
    taken |= inputs | {tensor.name for tensor in graph.initializer}
    for name in casts:
        cast = next(node for node in nodes if node.name == name)
        chain = _moved_from(nodes, cast, outputs)
        if not chain or chain[-1].input[0] not in inputs:
            continue
        end = str(cast.output[0])
        cast.input[0] = chain[-1].input[0]
        made = cast.output[0] = unique_name(f"{cast.input[0]}_float", taken)
        for node in reversed(chain):
            node.input[0] = made
            made = node.output[0] = end if node is chain[0] else unique_name(f"{node.output[0]}_float", taken)
        nodes.remove(cast)
        nodes.insert(nodes.index(chain[-1]), cast)
    del graph.node[:]
    graph.node.extend(nodes)


def _moved_from(nodes: Sequence[onnx.NodeProto], node: onnx.NodeProto, outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """The movement before a node that nothing else reads, the last first."""
    makers = {name: each for each in nodes for name in each.output}
    readers = [*outputs, *(name for each in nodes for name in each.input)]
    found, name = list[onnx.NodeProto](), node.input[0]
    while (maker := makers.get(name)) is not None and maker.op_type in _MOVES and readers.count(name) == 1:
        found.append(maker)
        name = maker.input[0]
    return found
