"""What the operators of a composite compute, in numpy: integers, and float32 rounded once an operator.

The integers wrap; float32 rounds as IEEE 754 says, half to even. So the results are those of any other implementation
that keeps to the operators' definitions, bit by bit.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import ir, relax

from accel.reference.contraction import conv2d, matmul
from accel.reference.deadline import Deadline

Array = npt.NDArray[Any]

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
