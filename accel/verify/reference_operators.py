"""The operators of a composite in numpy: integers, and float32 rounded once an operator.

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
_CHUNK = 1 << 22  # elements of the data that are laid out for a product at one time


def matmul(a: Int8, b: Int8, deadline: Deadline) -> Int32:
    """The product of int8 ``a`` [M, K] and ``b`` [K, N]: int32 [M, N].

    Raises:
        OutOfTimeError: the deadline has passed.
    """
    total = np.zeros((a.shape[0], b.shape[1]), np.int32)
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
    """The convolution of int8 ``data`` [N, C, H, W] with ``weights`` [O, C / groups, KH, KW]: int32 [N, O, OH, OW].

    ``padding`` is top, left, bottom, right. Source: the definition of Conv in ONNX's operators.

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
        deadline.left()
        product: Float32 = a[:, :, at : at + _EXACT].astype(np.float32) @ b[:, at : at + _EXACT].astype(np.float32)
        total += product.astype(np.int32)


_LAYOUTS = ("NCHW", "OIHW")


def is_known(function: relax.Function) -> bool:
    """Whether :func:`run` can: a function of one block of calls that are all in its table."""
    if not isinstance(function.body, relax.SeqExpr) or not isinstance(function.body.body, relax.Var):
        return False
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    return all(isinstance(binding.value, ir.Call) and _is_known(binding.value) for binding in bindings)


def run(function: relax.Function, arguments: list[Array], deadline: Deadline) -> Array:
    """The result of a function that :func:`is_known`.

    Raises:
        OutOfTimeError: the deadline has passed.
    """
    values: dict[Any, Array] = dict(zip(function.params, arguments, strict=True))
    for block in function.body.blocks:
        for binding in block.bindings:
            deadline.left()
            call = binding.value
            operands = [values[x] if isinstance(x, relax.Var) else _literal(x) for x in call.args]
            with np.errstate(all="ignore"):
                result = np.asarray(_RULES[call.op.name](call, deadline, *operands))
            assert result.dtype == np.dtype(str(binding.var.ty.dtype)), call
            values[binding.var] = result
    return values[function.body.body]


def _is_known(call: ir.Call) -> bool:
    name = str(getattr(call.op, "name", ""))
    if name not in _RULES:
        return False
    if name in _CONTRACTIONS:
        narrow = all(str(argument.ty.dtype) == "int8" for argument in call.args)
        return narrow and str(call.attrs.out_dtype) == "int32" and _CONTRACTIONS[name](call)
    return all(isinstance(x, relax.Var | tvm.ir.GenericConst) or _is_number(x) for x in call.args)


def _is_convolution(call: ir.Call) -> bool:
    return (str(call.attrs.data_layout), str(call.attrs.kernel_layout)) == _LAYOUTS


def _is_product(call: ir.Call) -> bool:
    return all(argument.ty.ndim == 2 for argument in call.args)


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


_CONTRACTIONS: Mapping[str, Callable[[ir.Call], bool]] = {
    "relax.nn.conv2d": _is_convolution,
    "relax.matmul": _is_product,
}
_RULES: Mapping[str, Callable[..., Any]] = {
    "relax.nn.conv2d": _conv2d,
    "relax.matmul": lambda _call, deadline, a, b: matmul(a, b, deadline),
    "relax.add": _plain(np.add),
    "relax.subtract": _plain(np.subtract),
    "relax.multiply": _plain(np.multiply),
    "relax.left_shift": _plain(np.left_shift),
    "relax.right_shift": _plain(np.right_shift),
    "relax.maximum": _plain(np.maximum),
    "relax.minimum": _plain(np.minimum),
    "relax.round": _plain(np.rint),
    "relax.clip": _clip,
    "relax.astype": lambda call, _deadline, data: data.astype(str(call.attrs.dtype)),
}
