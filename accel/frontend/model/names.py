"""Names of nodes: every node gets one, and it is unique."""

import onnx


def name_nodes(model: onnx.ModelProto) -> None:
    """Give each unnamed node of ``model``, and each repeated name, the name ``<operator>_<index>``, in place."""
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{index}"
        while node.name in taken:
            node.name += "_"
        taken.add(node.name)


def fresh(name: str, taken: set[str]) -> str:
    """``name``, lengthened until nothing in ``taken`` has it; it is then taken."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
