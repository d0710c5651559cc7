"""Relax operators in numpy: integers, movement, and float32 rounded once an operator.

Convolutions and matrix products of int8 are exact by the matrix product of float32.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax

from accel.util.arrays import Array, Float32, Int8, Int32
from accel.util.deadline import Deadline

_EXACT = 1 << 10  # products of int8 in an exact sum
_STACKED = 3  # axes of a stack of matrices
_CHUNK = 1 << 22  # elements of the data that are laid out for a product at one time


def matmul(a: Int8, b: Int8, deadline: Deadline) -> Int32:
    """Returns the product of int8 ``a`` [M, K] and ``b`` [K, N], or of stacks [B, M, K] and [B, K, N], as int32.

    Raises:
        OutOfTimeError: the deadline has passed.
    """
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.int32)
    if a.ndim == _STACKED:
        _accumulate(total, a, b, deadline)
    else:
        _accumulate(total[None], a[None], b[None], deadline)
    return total


def conv2d(
    data: Int8,
    weights: Int8,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deadline: Deadline,
) -> Int32:
    """Returns the convolution int32 [N, O, OH, OW] of ``data`` [N, C, H, W] and ``weights`` [O, C / groups, KH, KW].

    Both are int8. ``padding`` is top, left, bottom, right. Source: the definition of Conv in ONNX's operators.

    Raises:
        OutOfTimeError: the deadline has passed.
    """
    top, left, bottom, right = padding
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = tuple((size - 1) * step + 1 for size, step in zip(weights.shape[2:], dilation, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    # axes: image, channel, row, column, and the window's two
    views = views[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]
    images, channels, rows, columns = views.shape[:4]
    matrices = weights.reshape(groups, weights.shape[0] // groups, -1)
    result = np.empty((images, weights.shape[0], rows, columns), np.int32)
    each = max(1, _CHUNK // (columns * channels * weights.shape[2] * weights.shape[3]))  # rows at one time
    for image in range(images):
        for row in range(0, rows, each):
            part = views[image, :, row : row + each].transpose(0, 3, 4, 1, 2)
            laid_out = part.reshape(groups, matrices.shape[2], -1)
            total = np.zeros((*matrices.shape[:2], laid_out.shape[2]), np.int32)
            _accumulate(total, matrices, laid_out, deadline)
            result[image, :, row : row + each] = total.reshape(weights.shape[0], -1, columns)
    return result


def _accumulate(total: Int32, a: Int8, b: Int8, deadline: Deadline) -> None:
    """Add to ``total`` [G, M, N] the products of ``a`` [G, M, K] and ``b`` [G, K, N]."""
    for at in range(0, a.shape[2], _EXACT):
        deadline.remaining()
        product: Float32 = a[:, :, at : at + _EXACT].astype(np.float32) @ b[:, at : at + _EXACT].astype(np.float32)
        total += product.astype(np.int32)


_LAYOUTS = ("NCHW", "OIHW")


def is_known(function: relax.Function) -> bool:
    """Returns whether :func:`run` can run ``function``: it has one block of calls that are all in its table."""
    if not isinstance(function.body, relax.SeqExpr) or not isinstance(function.body.body, relax.Var):
        return False
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    return all(isinstance(binding.value, ir.Call) and is_known_call(binding.value) for binding in bindings)


def run(function: relax.Function, arguments: list[Array], deadline: Deadline) -> Array:
    """Returns the result of a function for which :func:`is_known` is true.

    Raises:
        OutOfTimeError: the deadline has passed.
    """
    values: dict[Any, Array] = dict(zip(function.params, arguments, strict=True))
    for block in function.body.blocks:
        for binding in block.bindings:
            deadline.remaining()
            values[binding.var] = run_call(binding.value, binding.var.ty, values, deadline)
    return values[function.body.body]


def run_call(call: ir.Call, ty: relax.TensorType, values: Mapping[Any, Array], deadline: Deadline) -> Array:
    """Returns the result, of the type ``ty``, of a call for which :func:`is_known_call` is true.

    Raises:
        OutOfTimeError: the deadline has passed.
    """
    deadline.remaining()
    operands = [_operand(x, values) for x in call.args]
    with np.errstate(all="ignore"):
        result = np.asarray(_RULES[call.op.name](call, deadline, *operands))
    if call.op.name in _RESHAPING:
        result = result.reshape([int(extent) for extent in ty.shape.values])
    assert result.dtype == np.dtype(str(ty.dtype)), call
    return result


def source_of(value: Any) -> relax.Var | None:
    """Returns the one variable whose elements an expression only gives other places; None of any other."""
    moves = isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and value.op.name in _MOVING
    return value.args[0] if moves and isinstance(value.args[0], relax.Var) else None


def moved(call: ir.Call, ty: relax.TensorType, array: Array) -> Array:
    """Returns what a call with a :func:`source_of` makes of an array of any type in the source's place."""
    result = np.asarray(_RULES[call.op.name](call, None, array))
    return result.reshape([int(extent) for extent in ty.shape.values])


def _operand(value: Any, values: Mapping[Any, Array]) -> Any:
    """An array, a list of these or of numbers, or a number; None for a shape, which the result has."""
    if isinstance(value, relax.Var):
        return values[value]
    if isinstance(value, relax.Tuple):
        return [_operand(field, values) for field in value.fields]
    return None if isinstance(value, relax.ShapeExpr) else _literal(value)


def is_known_call(call: ir.Call) -> bool:
    """Returns whether :func:`run_call` can run ``call``."""
    name = str(getattr(call.op, "name", ""))
    if name not in _RULES:
        return False
    if name in _CONTRACTIONS:
        narrow = all(str(argument.ty.dtype) == "int8" for argument in call.args)
        return narrow and str(call.attrs.out_dtype) == "int32" and _CONTRACTIONS[name](call)
    return all(
        isinstance(x, relax.Var | relax.Tuple | relax.ShapeExpr | tvm.ir.GenericConst) or _is_number(x)
        for x in call.args
    )


def _is_convolution(call: ir.Call) -> bool:
    return (str(call.attrs.data_layout), str(call.attrs.kernel_layout)) == _LAYOUTS


def _is_product(call: ir.Call) -> bool:
    ranks = {int(argument.ty.ndim) for argument in call.args}
    if ranks == {_STACKED}:
        return int(call.args[0].ty.shape.values[0]) == int(call.args[1].ty.shape.values[0])
    return ranks == {_STACKED - 1}


def _is_number(value: Any) -> bool:
    return hasattr(value, "value") and isinstance(value.value, int | float)


def _literal(value: Any) -> Any:
    return value.value if _is_number(value) else value.value.numpy()


def _conv2d(call: ir.Call, deadline: Deadline, data: Array, weights: Array) -> Array:
    attributes = call.attrs
    strides, padding, dilation = (
        [int(x) for x in given] for given in (attributes.strides, attributes.padding, attributes.dilation)
    )
    return conv2d(data, weights, strides, padding, dilation, int(attributes.groups), deadline)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of the operands alone."""
    return lambda _call, _deadline, *operands: function(*operands)


def _clip(_call: ir.Call, _deadline: Deadline, data: Array, low: float, high: float) -> Array:
    kind = data.dtype.type
    return np.asarray(np.clip(data, kind(low), kind(high)))


def _max_pool(call: ir.Call, _deadline: Deadline, data: Array) -> Array:
    """What lies beyond an image is no larger than anything."""
    (kernel, strides, padding, dilation) = (
        [int(x) for x in given]
        for given in (call.attrs.pool_size, call.attrs.strides, call.attrs.padding, call.attrs.dilation)
    )
    lowest = np.iinfo(data.dtype).min if data.dtype.kind in "iu" else -np.inf
    shape = tuple(int(extent) for extent in call.ty.shape.values)
    around, steps = [(0, 0), (0, 0)], list(zip(shape[2:], strides, kernel, dilation, strict=True))
    for (n, s, k, d), size, before, after in zip(
        steps, data.shape[2:], padding[: len(steps)], padding[len(steps) :], strict=True
    ):
        around.append((before, after + max(0, (n - 1) * s + (k - 1) * d + 1 - size - before - after)))
    padded = np.pad(data, around, constant_values=lowest)
    result = np.full(shape, lowest, data.dtype)
    for taps in np.ndindex(*kernel):
        begun = (tap * d for tap, (_, _, _, d) in zip(taps, steps, strict=True))
        index = (slice(at, at + (n - 1) * s + 1, s) for at, (n, s, _, _) in zip(begun, steps, strict=True))
        np.maximum(result, padded[(slice(None), slice(None), *index)], out=result)
    return result


def _pad(call: ir.Call, _deadline: Deadline, data: Array) -> Array:
    widths = [int(width) for width in call.attrs.pad_width]
    mode = {"constant": "constant", "replicate": "edge", "reflect": "reflect", "circular": "wrap"}
    more = {"constant_values": data.dtype.type(call.attrs.pad_value)} if call.attrs.pad_mode == "constant" else {}
    return np.pad(data, np.reshape(widths, (-1, 2)), mode[str(call.attrs.pad_mode)], **more)  # type: ignore[call-overload,no-any-return]


def _slice(
    _call: ir.Call, _deadline: Deadline, data: Array, axes: Any, begin: Any, end: Any, strides: Any = None
) -> Array:
    index = [slice(None)] * data.ndim
    for place, axis in enumerate(axes):
        index[axis] = slice(begin[place], end[place], 1 if strides is None else strides[place])
    return data[tuple(index)]


def _take(call: ir.Call, _deadline: Deadline, data: Array, at: Array) -> Array:
    axis = int(call.attrs.axis)
    return np.take(data, np.clip(at, 0, data.shape[axis] - 1), axis)


_RESHAPING = ("relax.expand_dims", "relax.flatten", "relax.reshape", "relax.squeeze")
_MOVING = (*_RESHAPING, "relax.permute_dims")
_CONTRACTIONS: Mapping[str, Callable[[ir.Call], bool]] = {
    "relax.nn.conv2d": _is_convolution,
    "relax.matmul": _is_product,
}
_RULES: Mapping[str, Callable[..., Any]] = {
    "relax.nn.conv2d": _conv2d,
    "relax.matmul": lambda _call, deadline, a, b: matmul(a, b, deadline),
    "relax.add": _plain(np.add),
    "relax.subtract": _plain(np.subtract),
    "relax.sum": lambda call, _deadline, data: data.sum(
        tuple(map(int, call.attrs.axis)), data.dtype, keepdims=bool(call.attrs.keepdims)
    ),
    "relax.max": lambda call, _deadline, data: data.max(
        tuple(map(int, call.attrs.axis)), keepdims=bool(call.attrs.keepdims)
    ),
    "relax.multiply": _plain(np.multiply),
    "relax.divide": _plain(np.divide),
    "relax.sqrt": _plain(np.sqrt),
    "relax.left_shift": _plain(np.left_shift),
    "relax.right_shift": _plain(np.right_shift),
    "relax.maximum": _plain(np.maximum),
    "relax.minimum": _plain(np.minimum),
    "relax.round": _plain(np.rint),
    "relax.clip": _clip,
    "relax.astype": lambda call, _deadline, data: data.astype(str(call.attrs.dtype)),
    **dict.fromkeys(("relax.nn.max_pool1d", "relax.nn.max_pool2d", "relax.nn.max_pool3d"), _max_pool),
    "relax.nn.pad": _pad,
    "relax.strided_slice": _slice,
    "relax.take": _take,
    "relax.concat": lambda call, _deadline, parts: np.concatenate(parts, int(call.attrs.axis)),
    "relax.permute_dims": lambda call, _deadline, data: np.transpose(
        data, None if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes]
    ),
    "relax.broadcast_to": lambda call, _deadline, data, _shape: np.broadcast_to(
        data, [int(extent) for extent in call.ty.shape.values]
    ),
    **dict.fromkeys(_RESHAPING, lambda _call, _deadline, data, *_shape: data),
}
