"""Padding that mirrors, repeats or goes on with the other end, as concatenations of slices.

What loads and stores move are affine maps, and padding of these kinds is none; each of its parts is.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import onnx

from accel.frontend.legalize.node_writer import NodeWriter, Writing, with_written
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import attribute_of, constants_of
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes

_MOST = 8  # elements on a side: each that is mirrored is a part
_AXES = 3  # the place of the axes among the inputs
_Widths = dict[int, tuple[int, int]]
_Elements = Callable[[int, int], str]  # those from one place up to another along an axis
_Parts = Callable[[_Elements, int, int, int], tuple[Sequence[str], Sequence[str]]]


def with_mirrored_padding(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` with concatenations in place of such padding, if it is narrow; itself if there is none."""
    if not any(node.op_type == "Pad" for node in model.graph.node):
        return model
    shapes, constants = known_shapes(model), constants_of(model.graph)
    return with_written(model, [_writing(node, shapes, constants) for node in model.graph.node])


def _writing(
    node: onnx.NodeProto, shapes: Mapping[str, Shape], constants: Mapping[str, onnx.TensorProto]
) -> Writing | None:
    mode = attribute_of(node, "mode", b"constant").decode() if node.op_type == "Pad" else ""
    shape = shapes.get(node.input[0]) if mode in _PARTS else None
    widths = None if not shape else _widths(node, len(shape), constants)
    if not shape or not widths:
        return None
    for axis, ends in widths.items():
        room = shape[axis] - (mode == "reflect")
        if min(ends) < 0 or max(ends) > _MOST or (mode != "edge" and max(ends) > room) or not shape[axis]:
            return None
    return lambda writer: _write(writer, shape, widths, _PARTS[mode])


def _widths(node: onnx.NodeProto, rank: int, constants: Mapping[str, onnx.TensorProto]) -> _Widths | None:
    """How many elements there are ahead and behind along each axis that has any; None where that is not known."""
    pads = constants.get(node.input[1]) if len(node.input) > 1 else None
    given = constants.get(node.input[_AXES]) if len(node.input) > _AXES and node.input[_AXES] else None
    if pads is None or (given is None and len(node.input) > _AXES and node.input[_AXES]):
        return None
    axes = [int(axis) % rank for axis in (range(rank) if given is None else array_of(given).reshape(-1))]
    values = [int(width) for width in array_of(pads).reshape(-1)]
    if len(values) != 2 * len(axes):
        return None
    ends = zip(values[: len(axes)], values[len(axes) :], strict=True)
    return {axis: each for axis, each in zip(axes, ends, strict=True) if any(each)}


def _write(writer: NodeWriter, shape: Shape, widths: _Widths, parts: _Parts) -> None:
    """Emit the padding, axis by axis."""
    data = writer.node.input[0]
    for number, (axis, (before, behind)) in enumerate(widths.items()):
        elements = partial(writer.sliced, data, axis)
        name = writer.node.output[0] if number == len(widths) - 1 else ""
        ahead, after = parts(elements, shape[axis], before, behind)
        data = writer.emit("Concat", *ahead, data, *after, name=name, axis=axis)


def _mirrored(elements: _Elements, extent: int, before: int, behind: int) -> tuple[list[str], list[str]]:
    ahead = [elements(at, at + 1) for at in range(before, 0, -1)]
    return ahead, [elements(at, at + 1) for at in range(extent - 2, extent - 2 - behind, -1)]


def _repeated(elements: _Elements, extent: int, before: int, behind: int) -> tuple[list[str], list[str]]:
    first = [elements(0, 1)] * before if before else []
    return first, [elements(extent - 1, extent)] * behind if behind else []


def _from_other_end(elements: _Elements, extent: int, before: int, behind: int) -> tuple[list[str], list[str]]:
    ahead = [elements(extent - before, extent)] if before else []
    return ahead, [elements(0, behind)] if behind else []


_PARTS: Mapping[str, _Parts] = {"reflect": _mirrored, "edge": _repeated, "wrap": _from_other_end}
