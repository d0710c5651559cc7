"""What a graph has as constants, and which nodes only move elements."""

import onnx

_MOVES = frozenset((
    "DepthToSpace", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze",
    "Tile", "Transpose", "Unsqueeze",
))  # fmt: skip


def moved(node: onnx.NodeProto) -> set[str]:
    """The tensors whose elements ``node`` only moves; one may be the largest of several."""
    if node.op_type == "Concat":
        return set(node.input)
    return {node.input[0]} if node.op_type in _MOVES and node.input else set()


def moved_to(node: onnx.NodeProto) -> list[str]:
    """The tensors that such a node makes of them."""
    return list(node.output[:1] if node.op_type == "MaxPool" else node.output)


def constants_of(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Initializers, and the values of Constant nodes that are tensors, by name."""
    return {str(tensor.name): tensor for tensor in graph.initializer} | {
        str(node.output[0]): node.attribute[0].t
        for node in graph.node
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value"
    }
