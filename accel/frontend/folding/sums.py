"""Sum as additions of two, which are what an accelerator adds."""

import onnx
from onnx import helper

from accel.frontend.folding.network import Network


def split_sums(network: Network) -> None:
    """Replace each Sum by an Add, or a row of them, from the left; that of one tensor by Identity."""
    for node in list(network.nodes):
        if node.op_type == "Sum":
            network.replace([node], _additions(network, node))


def _additions(network: Network, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    first, *others = node.input
    if not others:
        return [helper.make_node("Identity", [first], list(node.output), name=node.name)]
    made: list[onnx.NodeProto] = []
    for index, other in enumerate(others):
        last = index == len(others) - 1
        total = str(node.output[0]) if last else network.name(f"{node.output[0]}_{index}")
        name = node.name if last else network.name(f"{node.name}_{index}")
        made.append(helper.make_node("Add", [first, other], [total], name=name))
        if not last:
            network.shapes[total] = _broadcast(network, first, other)
        first = total
    return made


def _broadcast(network: Network, first: str, second: str) -> tuple[int, ...]:
    shapes = [network.shapes.get(name, ()) for name in (first, second)]
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(extents) for extents in zip(*aligned, strict=True))
