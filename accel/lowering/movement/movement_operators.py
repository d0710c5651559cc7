"""Operators that only move elements, as steps of a view: from their result back to an operand, and the other way."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, relax, tirx

from accel.host.onnx_calls import OnnxCall, read_onnx_call
from accel.region.affine_view import NotAffineError, ViewBuilder

_RESHAPES = ("relax.expand_dims", "relax.flatten", "relax.reshape", "relax.squeeze")
_BLOCKS = ("DepthToSpace", "SpaceToDepth")
_ONNX_RESHAPES = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


def shape_of_value(value: relax.Expr) -> tuple[int, ...] | None:
    """Returns the shape of a tensor; None of anything else, or where it depends on data."""
    shape = getattr(value.ty, "shape", None)
    if not isinstance(value.ty, relax.TensorType) or not isinstance(shape, relax.ShapeExpr):
        return None
    known = [int(extent) for extent in shape.values if isinstance(extent, tirx.IntImm)]
    return tuple(known) if len(known) == len(shape.values) else None


def operand_of(value: relax.Expr, values: dict[relax.Var, relax.Expr]) -> relax.Expr | None:
    """Returns the one tensor that a movement moves; None of what is none, or has several."""
    if isinstance(value, relax.Var):
        return value
    if isinstance(value, relax.TupleGetItem):
        parts = values.get(value.tuple_value)
        return _first(parts) if _is_split(parts) else None
    if not isinstance(value, ir.Call) or not isinstance(value.op, ir.Op):
        return None
    call = read_onnx_call(value)
    if call is not None:
        moves = call.op in (*_ONNX_RESHAPES, *_BLOCKS, "Expand", "Gather", "Slice", "Tile", "Transpose")
        moves = moves or _repeats_pixels(value, call) or _padding(value, call) is not None
        return call.operands[0] if moves else None
    names = (
        *_RESHAPES,
        "relax.permute_dims",
        "relax.strided_slice",
        "relax.broadcast_to",
        "relax.tile",
        "relax.nn.pad",
        "relax.take",
    )
    return value.args[0] if value.op.name in names else None


def back(value: relax.Expr, values: dict[relax.Var, relax.Expr], view: ViewBuilder) -> ViewBuilder:
    """Returns the view of a movement's operand, of one of its result.

    Raises:
        NotAffineError: it is no affine map of indices.
    """
    given = operand_of(value, values)
    shape = None if given is None else shape_of_value(given)
    if shape is None:
        raise NotAffineError("it is no movement of one tensor")
    if isinstance(value, relax.Var):
        return view
    if isinstance(value, relax.TupleGetItem):
        return _part_back(value, values, shape, view)
    return _call_back(value, shape, view)


def _call_back(value: ir.Call, shape: tuple[int, ...], view: ViewBuilder) -> ViewBuilder:
    name = str(value.op.name)
    call = read_onnx_call(value)
    if name in _RESHAPES or (call is not None and call.op in _ONNX_RESHAPES):
        return view.reshaped(shape)
    axes = _permutation(value, call, len(shape))
    if axes is not None:
        return view.permuted(axes)
    if name == "relax.broadcast_to" or (call is not None and call.op == "Expand"):
        return view.broadcast(shape)
    if name == "relax.tile" or (call is not None and call.op in (*_BLOCKS, "Resize", "Tile")):
        return _cut_back(call, shape, view)
    if name == "relax.take" or (call is not None and call.op == "Gather"):
        return _rows_back(value, call, shape, view)
    bounds = _slice(value, call, shape)
    if bounds is None:
        raise NotAffineError("what it puts around a tensor is no part of that")
    return view.sliced(shape, *bounds)


def onwards(value: relax.Expr, operand: relax.Expr, view: ViewBuilder) -> tuple[ViewBuilder, float | None]:
    """Returns the view of a movement's result, of one of its ``operand``, and what fills the rest of the result.

    Raises:
        NotAffineError: it leaves elements of its operand out, or has them more than once; or it is no movement of it.
    """
    shape = shape_of_value(value)
    if shape is None:
        raise NotAffineError("it is no movement of one tensor")
    if isinstance(value, relax.Var):
        return view, None
    if not isinstance(value, ir.Call) or not isinstance(value.op, ir.Op) or not operand.same_as(value.args[0]):
        given = read_onnx_call(value)
        if given is None or not operand.same_as(given.operands[0]):
            raise NotAffineError("it is no movement of one tensor")
    name, call = str(value.op.name), read_onnx_call(value)
    if name in _RESHAPES or (call is not None and call.op in _ONNX_RESHAPES):
        return view.reshaped(shape), None
    axes = _permutation(value, call, len(shape))
    if axes is not None:
        return view.permuted(_inverse(axes)), None
    if call is not None and call.op in _BLOCKS:
        split, axes = _blocks(call, view.shape)
        return view.reshaped(split).permuted(_inverse(axes)).reshaped(shape), None
    padding = _padding(value, call)
    if padding is not None:
        return view.sliced(shape, padding[0], [1] * len(shape)), padding[1]
    raise NotAffineError("it keeps not all elements once")


def windows_of(value: relax.Expr) -> Iterator[tuple[relax.Expr, tuple[int, ...]]]:
    """Yields what a concatenation joins, and where each begins in it; nothing of any other value."""
    call = read_onnx_call(value)
    if call is not None and call.op == "Concat":
        operands, axis = list(call.operands), int(call.attributes["axis"])
    elif (
        isinstance(value, ir.Call) and value.op == ir.Op.get("relax.concat") and isinstance(value.args[0], relax.Tuple)
    ):
        operands, axis = list(value.args[0].fields), int(value.attrs.axis)
    else:
        return
    shape = shape_of_value(value)
    known = [(each, own) for each in operands if each is not None and (own := shape_of_value(each)) is not None]
    if shape is None or len(known) < len(operands):
        return
    first = [0] * len(shape)
    for operand, own in known:
        yield operand, tuple(first)
        first[axis] += own[axis]


def _permutation(value: ir.Call, call: OnnxCall | None, rank: int) -> list[int] | None:
    if call is not None:
        if call.op != "Transpose":
            return None
        axes = call.attributes.get("perm")
    elif value.op.name == "relax.permute_dims":
        axes = value.attrs.axes
    else:
        return None
    return [int(axis) % rank for axis in axes] if axes is not None else list(reversed(range(rank)))


def _slice(value: ir.Call, call: OnnxCall | None, shape: tuple[int, ...]) -> tuple[list[int], list[int]] | None:
    """The first element and the step along each dimension; None of what is no slice, or has no constant bounds."""
    if call is not None:
        given = [_constant(each) for each in call.operands[1:]] if call.op == "Slice" else []
        begin, end, axes, steps = (*given, *[None] * (4 - len(given)))[:4]
        if begin is None or end is None:
            return None
        axes = list(range(len(begin))) if axes is None else axes
        steps = [1] * len(begin) if steps is None else steps
    elif value.op.name == "relax.strided_slice":
        axes, begin, end, *rest = ([int(_number(item)) for item in each.fields] for each in value.args[1:])
        steps = rest[0] if rest else [1] * len(axes)
    else:
        return None
    firsts, strides = [0] * len(shape), [1] * len(shape)
    for axis, low, high, step in zip(axes, begin, end, steps, strict=True):
        firsts[axis], _, strides[axis] = slice(low, high, step).indices(shape[axis])
    return firsts, strides


def _rows_back(value: ir.Call, call: OnnxCall | None, shape: tuple[int, ...], view: ViewBuilder) -> ViewBuilder:
    """Elements along an axis at constant places, as far as these are steps of one size along each axis of theirs."""
    given = value.args[1] if call is None else call.operands[1]
    axis = value.attrs.axis if call is None else call.attributes.get("axis", 0)
    at = given.value.numpy().astype(np.int64) if isinstance(given, ir.GenericConst) else np.empty(0, np.int64)
    if axis is None or not at.size:
        raise NotAffineError("where it reads depends on data")
    axis = int(axis) % len(shape)
    places = np.where(at < 0, at + shape[axis], at)
    if places.min() < 0 or places.max() >= shape[axis]:
        raise NotAffineError("it reads what lies outside")
    first, steps = int(places.flat[0]), [_step(places, along) for along in range(places.ndim)]
    apart = np.ix_(*(step * np.arange(count) for step, count in zip(steps, at.shape, strict=True)))
    if not np.array_equal(places, first + sum(apart)):
        raise NotAffineError("its rows are no steps of one size apart")
    return view.gathered(axis, first, steps, shape)


def _step(places: npt.NDArray[np.int64], along: int) -> int:
    """How far the first two places along an axis are apart."""
    row = np.moveaxis(places, along, -1).reshape(-1, places.shape[along])[0]
    return int(row[1] - row[0]) if len(row) > 1 else 0


def _blocks(call: OnnxCall, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """How channels become blocks of pixels, or blocks channels: the operand's shape in parts, and their order then."""
    block = int(call.attributes["blocksize"])
    batch, channels, height, width = shape
    if call.op == "SpaceToDepth":
        return [batch, channels, height // block, block, width // block, block], [0, 3, 5, 1, 2, 4]
    deep = channels // block**2
    if call.attributes.get("mode", "DCR") == "CRD":
        return [batch, deep, block, block, height, width], [0, 1, 4, 2, 5, 3]
    return [batch, block, block, deep, height, width], [0, 3, 4, 1, 5, 2]


def _inverse(axes: list[int]) -> list[int]:
    return [axes.index(axis) for axis in range(len(axes))]


def _padding(value: ir.Call, call: OnnxCall | None) -> tuple[list[int], float] | None:
    """What a tensor is padded with: the elements ahead of it along each dimension, and a number; None of others."""
    if call is None:
        if value.op.name != "relax.nn.pad" or str(value.attrs.pad_mode) != "constant":
            return None
        widths, number = [int(width) for width in value.attrs.pad_width], float(value.attrs.pad_value)
        return (widths[::2], number) if min(widths) >= 0 else None
    if call.op != "Pad" or call.attributes.get("mode", "constant") != "constant":
        return None
    pads, filling, axes = (*call.operands[1:], None, None)[:3]
    widths, rank = _constant(pads) or [-1], len(value.ty.shape.values)
    if axes is not None or len(widths) != 2 * rank or min(widths) < 0:
        return None
    if filling is None:
        return widths[:rank], 0.0
    known = isinstance(filling, ir.GenericConst) and filling.value.numpy().size == 1
    return (widths[:rank], float(filling.value.numpy().item())) if known else None


def _repeats_pixels(value: ir.Call, call: OnnxCall) -> bool:
    """Whether it is a Resize that has each element as many times as the next one."""
    shape, made = None if call.op != "Resize" else shape_of_value(call.operands[0]), shape_of_value(value)
    if shape is None or made is None or call.attributes.get("mode", "nearest") != "nearest":
        return False
    coordinates = call.attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = call.attributes.get("nearest_mode", "round_prefer_floor")
    return all(
        extent % given == 0 and (extent == given or _reads_each_so_often(given, extent // given, coordinates, rounding))
        for given, extent in zip(shape, made, strict=True)
    )


def _reads_each_so_often(given: int, times: int, coordinates: str, rounding: str) -> bool:
    """Whether a nearest Resize reads each of ``given`` elements ``times`` in a row, in halves of ``1 / times``."""
    place = np.arange(given * times)
    at = {
        "half_pixel": 2 * place + 1 - times,
        "pytorch_half_pixel": 2 * place + 1 - times,
        "tf_half_pixel_for_nn": 2 * place + 1,
        "asymmetric": 2 * place,
    }.get(coordinates)
    if at is None:
        return False
    one = 2 * times
    nearest = {
        "floor": at // one,
        "ceil": -(-at // one),
        "round_prefer_floor": -((times - at) // one),
        "round_prefer_ceil": (at + times) // one,
    }[rounding]
    return np.array_equal(np.clip(nearest, 0, given - 1), place // times)


def _cut_back(call: OnnxCall | None, shape: tuple[int, ...], view: ViewBuilder) -> ViewBuilder:
    """Blocks of pixels that are channels, or the other way; or a tensor, or each element of it, several times."""
    if call is not None and call.op in _BLOCKS:
        split, axes = _blocks(call, shape)
        return view.reshaped([split[axis] for axis in axes]).permuted(axes).reshaped(shape)
    inner = call is not None and call.op == "Resize"
    times = [(made // extent, extent) for extent, made in zip(shape, view.shape, strict=True)]
    split = [part for count, extent in times for part in ((extent, count) if inner else (count, extent))]
    once = [part for _, extent in times for part in ((extent, 1) if inner else (1, extent))]
    return view.reshaped(split).broadcast(once).reshaped(shape)


def _number(item: Any) -> int:
    return int(item.value) if isinstance(item, tirx.IntImm) else int(item.value.numpy())


def _constant(value: relax.Expr | None) -> list[int] | None:
    if not isinstance(value, ir.GenericConst):
        return None
    return [int(item) for item in np.ravel(value.value.numpy())]


def _is_split(value: relax.Expr | None) -> bool:
    if not isinstance(value, ir.Call):
        return False
    call = read_onnx_call(value)
    return value.op == ir.Op.get("relax.split") or (call is not None and call.op == "Split" and all(call.outputs))


def _first(value: Any) -> relax.Expr | None:
    """The first operand of a call."""
    call = read_onnx_call(value)
    return value.args[0] if call is None else call.operands[0]


def _part_back(
    value: relax.TupleGetItem, values: dict[relax.Var, relax.Expr], shape: tuple[int, ...], view: ViewBuilder
) -> ViewBuilder:
    """A part of a split: along the one dimension that is shorter."""
    parts = values[value.tuple_value]
    fields = [tuple(int(extent) for extent in field.shape.values) for field in parts.ty.fields]
    axis = next((axis for axis, extent in enumerate(shape) if fields[0][axis] != extent), 0)
    firsts = [0] * len(shape)
    firsts[axis] = sum(field[axis] for field in fields[: value.index])
    return view.sliced(shape, firsts, [1] * len(shape))
