"""Operators of host graphs in numpy: integers, which wrap, movement of elements, and exact steps of float32.

What onnxruntime lacks, or would end the process on, is here: products of integers that do not saturate, and division
by anything. Graphs of integers alone run here altogether, in less time than onnxruntime takes to open one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from accel.host.host_graph import HostGraph, HostNode
from accel.host.json_fields import Tensor
from accel.util.arrays import Array

_EXACT = 258  # products of 9 bits by 9 that float32 sums exactly: 258 * 255 * 255 < 2^24
_CHUNK = 1 << 22  # elements of the data that are laid out for a product at one time

Types = Mapping[str, Tensor]
Operands = Sequence[Array | None]


def run_node(node: HostNode, operands: Operands) -> list[Array]:
    """Returns the results of a node for which :func:`is_exact` or :func:`is_movement` is true."""
    with np.errstate(all="ignore"):
        found = _RULES[node.op].run(node, operands)
    return found if isinstance(found, list) else [np.asarray(found)]


def is_movement(node: HostNode, graph: HostGraph) -> bool:
    """Returns whether a node only moves elements, in a way that numpy knows."""
    rule = _RULES.get(node.op)
    if rule is None or not rule.moves or node.attributes.get("mode", "constant") != "constant":
        return False
    return _are_constant(node, graph, rule.constants)


def is_exact(node: HostNode, graph: HostGraph, types: Types) -> bool:
    """Returns whether numpy computes a node, which works on integers alone."""
    rule = _RULES.get(node.op)
    names = [name for name in (*node.inputs, *node.outputs) if name]
    integers = all(np.dtype(types[name][1]).kind in "iub" for name in names)
    if rule is None or not integers or node.attributes.get("mode", "constant") != "constant":
        return False
    return _are_constant(node, graph, rule.constants)


def is_exact_float(node: HostNode, graph: HostGraph, types: Types, makers: Mapping[str, HostNode]) -> bool:
    """Returns whether numpy computes a node on float32 numbers that come of integers: one rounding an operator."""
    kinds = {types[name][1] for name in (*node.inputs, *node.outputs) if name}
    if node.op == "Cast":
        source, made = types[node.inputs[0]][1], types[node.outputs[0]][1]
        if source != "float32":
            return made == "float32" and np.dtype(source).kind in "iub"
        return made in ("int8", "uint8", "int16", "int32") and _is_cut(makers.get(node.inputs[0]), graph, made)
    if node.op not in ("Add", "Sub", "Mul", "Round", "Clip") or kinds != {"float32"}:
        return False
    given = [graph.constants[name] for name in node.inputs if name in graph.constants]
    return all(np.isfinite(array).all() for array in given) and (node.op != "Clip" or len(given) == 2)


def _is_cut(maker: HostNode | None, graph: HostGraph, dtype: str) -> bool:
    """Whether what is cast was cut to the range of the integers before."""
    if maker is None or maker.op != "Clip" or any(name not in graph.constants for name in maker.inputs[1:]):
        return False
    low, high = (float(graph.constants[name]) for name in maker.inputs[1:])
    limits = np.iinfo(dtype)
    return int(limits.min) <= low <= high <= int(limits.max)


def _are_constant(node: HostNode, graph: HostGraph, places: tuple[int, ...]) -> bool:
    return all(place >= len(node.inputs) or node.inputs[place] in {"", *graph.constants} for place in places)


def _divide(_node: HostNode, operands: Operands) -> Array:
    """Towards zero; by 0 as by 1, and the least number by -1 wraps."""
    a, b = _pair(operands)
    if a.dtype.kind == "u":
        return np.asarray(np.floor_divide(a, np.where(b == 0, b.dtype.type(1), b)))
    one = a.dtype.type(1)
    by = np.where((b == 0) | (b == -1), one, b)
    floor = np.floor_divide(a, by)
    rest = a - floor * by
    whole = floor + ((rest != 0) & ((a < 0) != (by < 0)))
    return np.where(b == -1, np.negative(a), whole).astype(a.dtype)


def _remainder(node: HostNode, operands: Operands) -> Array:
    """Of the divisor's sign, or with ``fmod`` of the dividend's; by 0 as by 1."""
    a, b = _pair(operands)
    by = np.where((b == 0) | (b == b.dtype.type(-1)) if a.dtype.kind == "i" else b == 0, b.dtype.type(1), b)
    found = np.fmod(a, by) if node.attributes.get("fmod", 0) else np.remainder(a, by)
    return np.asarray(found.astype(a.dtype))


def _pair(operands: Operands) -> tuple[Array, Array]:
    a, b = operands
    assert a is not None
    assert b is not None
    return a, b


def _given(operands: Operands) -> list[Array]:
    return [operand for operand in operands if operand is not None]


def _shift(node: HostNode, operands: Operands) -> Array:
    a, b = _pair(operands)
    bits = a.dtype.itemsize * 8
    shift = np.left_shift if node.attributes["direction"] == "LEFT" else np.right_shift
    return np.asarray(np.where(b < bits, shift(a, np.minimum(b, a.dtype.type(bits - 1))), a.dtype.type(0)))


def _clip(_node: HostNode, operands: Operands) -> Array:
    data, low, high = [*operands, None, None][:3]
    assert data is not None
    if low is not None:
        data = np.maximum(data, low)
    return np.asarray(data if high is None else np.minimum(data, high))


def _cast(node: HostNode, operands: Operands) -> Array:
    (data,) = _given(operands)
    return np.asarray(data.astype(helper.tensor_dtype_to_np_dtype(node.attributes["to"])))


def _transpose(node: HostNode, operands: Operands) -> Array:
    (data,) = _given(operands)
    return np.transpose(data, node.attributes.get("perm"))


def _reshape(node: HostNode, operands: Operands) -> Array:
    data, shape = _given(operands)
    kept = [data.shape[i] if extent == 0 and not node.attributes.get("allowzero", 0) else int(extent)
            for i, extent in enumerate(shape)]  # fmt: skip
    return data.reshape(kept)


def _flatten(node: HostNode, operands: Operands) -> Array:
    (data,) = _given(operands)
    axis = int(node.attributes.get("axis", 1))
    axis += data.ndim if axis < 0 else 0
    return data.reshape(math.prod(data.shape[:axis]), -1)


def _squeeze(_node: HostNode, operands: Operands) -> Array:
    data, axes = [*operands, None][:2]
    assert data is not None
    return data.squeeze(None if axes is None else tuple(int(axis) for axis in axes))


def _unsqueeze(_node: HostNode, operands: Operands) -> Array:
    data, axes = _pair(operands)
    return np.expand_dims(data, tuple(int(axis) for axis in axes))


def _slice(_node: HostNode, operands: Operands) -> Array:
    data, begin, end, axes, steps = [*operands, None, None][:5]
    assert data is not None
    assert begin is not None
    assert end is not None
    along = range(len(begin)) if axes is None else axes
    index = [slice(None)] * data.ndim
    for at, axis in enumerate(along):
        step = 1 if steps is None else int(steps[at])
        size = data.shape[int(axis)]
        index[int(axis)] = slice(*_bounds(int(begin[at]), int(end[at]), step, size), step)
    return data[tuple(index)]


def _bounds(begin: int, end: int, step: int, size: int) -> tuple[int, int | None]:
    """What ONNX's slice takes, as Python writes it: from the end where below zero, within the axis."""
    begin, end = (bound + size if bound < 0 else bound for bound in (begin, end))
    if step > 0:
        return min(max(begin, 0), size), min(max(end, 0), size)
    last = min(max(end, -1), size - 1)
    return min(max(begin, 0), size - 1), None if last < 0 else last


def _concat(node: HostNode, operands: Operands) -> Array:
    return np.concatenate(_given(operands), int(node.attributes["axis"]))


def _split(node: HostNode, operands: Operands) -> list[Array]:
    data, sizes = [*operands, None][:2]
    assert data is not None
    axis, count = int(node.attributes.get("axis", 0)), len(node.outputs)
    each = -(-data.shape[axis] // count)
    cuts = np.cumsum(sizes)[:-1] if sizes is not None else np.arange(1, count) * each
    return np.split(data, cuts, axis)


def _pad(_node: HostNode, operands: Operands) -> Array:
    data, widths, value, axes = [*operands, None, None][:4]
    assert data is not None
    assert widths is not None
    before, after = np.zeros((2, data.ndim), np.int64)
    at = np.arange(data.ndim) if axes is None else axes
    before[at], after[at] = np.split(widths, 2)
    kept = tuple(
        slice(max(-int(b), 0), size - max(-int(a), 0)) for b, a, size in zip(before, after, data.shape, strict=True)
    )
    pairs = list(zip(np.maximum(before, 0).tolist(), np.maximum(after, 0).tolist(), strict=True))
    return np.pad(data[kept], pairs, constant_values=data.dtype.type(0) if value is None else value.item())


def _gather(node: HostNode, operands: Operands) -> Array:
    data, at = _pair(operands)
    return np.take(data, at, int(node.attributes.get("axis", 0)))


def _expand(_node: HostNode, operands: Operands) -> Array:
    data, shape = _pair(operands)
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(int(extent) for extent in shape)))


def _tile(_node: HostNode, operands: Operands) -> Array:
    data, counts = _pair(operands)
    return np.tile(data, tuple(int(count) for count in counts))


def _matrices(_node: HostNode, operands: Operands) -> Array:
    a, b = _less_points(operands)
    deep = a.shape[-1] > _EXACT
    return (a.astype(_kind(deep)) @ b.astype(_kind(deep))).astype(np.int64).astype(np.int32)


def _kind(deep: bool) -> type[np.floating[Any]]:  # noqa: FBT001 # it is what the name says
    return np.float64 if deep else np.float32


def _less_points(operands: Operands) -> tuple[Array, Array]:
    """The data and the weights of a product of integers, less their zero points, of one for all of each."""
    a, b, *points = _given(operands)
    wide = [a.astype(np.int16), b.astype(np.int16)]
    for index, point in enumerate(points):
        wide[index] = wide[index] - point.astype(np.int16).reshape(())
    return wide[0], wide[1]


def _convolution(node: HostNode, operands: Operands) -> Array:
    """By products of matrices; the sums are exact."""
    data, weights = _less_points(operands)
    plane = data.ndim - 2
    strides, dilations = ([int(x) for x in node.attributes.get(name, [1] * plane)] for name in ("strides", "dilations"))
    pads, groups = [int(x) for x in node.attributes.get("pads", [0] * 2 * plane)], int(node.attributes.get("group", 1))
    padded = np.pad(data, [(0, 0), (0, 0), *zip(pads[:plane], pads[plane:], strict=True)])
    reach = tuple((size - 1) * step + 1 for size, step in zip(weights.shape[2:], dilations, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, data.ndim)))
    steps = [slice(None, None, step) for step in (*strides, *dilations)]
    views = views[:, :, *steps]  # image, channel, the plane, and the window
    size = views.shape[2 : 2 + plane]
    matrices = weights.reshape(groups, weights.shape[0] // groups, -1)
    depth = matrices.shape[2]
    kind = _kind(depth > _EXACT)
    result = np.empty((len(data), weights.shape[0], *size), np.int32)
    each = max(1, _CHUNK // (math.prod(size[1:]) * groups * depth))
    order = (0, *range(1 + plane, 1 + 2 * plane), *range(1, 1 + plane))  # channel, window, plane
    for image in range(len(data)):
        for row in range(0, size[0], each):
            part = views[image, :, row : row + each]
            laid_out = part.transpose(order).reshape(groups, depth, -1).astype(kind)
            total = (matrices.astype(kind) @ laid_out).astype(np.int64).astype(np.int32)
            result[image, :, row : row + each] = total.reshape(weights.shape[0], -1, *size[1:])
    return result


def _all(function: Callable[..., Any]) -> Callable[[HostNode, Operands], Array]:
    return lambda _node, operands: np.asarray(function(*_given(operands)))


def _fold(function: Callable[[Array, Array], Array]) -> Callable[[HostNode, Operands], Array]:
    def run(_node: HostNode, operands: Operands) -> Array:
        first, *others = _given(operands)
        for other in others:
            first = function(first, other)
        return first

    return run


@dataclass(frozen=True)
class _Rule:
    """What an operator computes; ``constants`` are the inputs that must be constant."""

    run: Callable[[HostNode, Operands], Array | list[Array]]
    moves: bool = False
    constants: tuple[int, ...] = ()


_RULES: Mapping[str, _Rule] = {
    "Add": _Rule(_all(np.add)),
    "Sub": _Rule(_all(np.subtract)),
    "Mul": _Rule(_all(np.multiply)),
    "Div": _Rule(_divide),
    "Mod": _Rule(_remainder),
    "Neg": _Rule(_all(np.negative)),
    "Max": _Rule(_fold(np.maximum)),
    "Min": _Rule(_fold(np.minimum)),
    "Round": _Rule(_all(np.rint)),
    "BitShift": _Rule(_shift),
    "BitwiseAnd": _Rule(_all(np.bitwise_and)),
    "BitwiseOr": _Rule(_all(np.bitwise_or)),
    "BitwiseXor": _Rule(_all(np.bitwise_xor)),
    "BitwiseNot": _Rule(_all(np.bitwise_not)),
    "Clip": _Rule(_clip),
    "Cast": _Rule(_cast),
    "MatMulInteger": _Rule(_matrices, constants=(2, 3)),
    "ConvInteger": _Rule(_convolution, constants=(2, 3)),
    "Transpose": _Rule(_transpose, moves=True),
    "Reshape": _Rule(_reshape, moves=True, constants=(1,)),
    "Flatten": _Rule(_flatten, moves=True),
    "Squeeze": _Rule(_squeeze, moves=True, constants=(1,)),
    "Unsqueeze": _Rule(_unsqueeze, moves=True, constants=(1,)),
    "Slice": _Rule(_slice, moves=True, constants=(1, 2, 3, 4)),
    "Concat": _Rule(_concat, moves=True),
    "Split": _Rule(_split, moves=True, constants=(1,)),
    "Pad": _Rule(_pad, moves=True, constants=(1, 2, 3)),
    "Gather": _Rule(_gather, moves=True, constants=(1,)),
    "Expand": _Rule(_expand, moves=True, constants=(1,)),
    "Tile": _Rule(_tile, moves=True, constants=(1,)),
    "Identity": _Rule(_all(np.asarray), moves=True),
}
