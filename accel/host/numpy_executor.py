"""Host graphs that only move elements and compute with integers, in numpy.

What their operators compute leaves no choice, so it is what a compiled function would; but to compile one takes LLVM
a second, and a machine that leaves int32 has the host between any two launches. Rounding float32 numbers that were
integers is among it: one operator at a time, as IEEE 754 says. The reference has rules of its own
(``accel/verify/reference_operators.py``): what is compared with it does not share its mistakes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax

from accel.util.arrays import Array

# elements of all tensors of a graph: the guard of compiled functions knows better what larger ones take
_MOST = 1 << 28
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8")


def runs_in_numpy(module: ir.IRModule) -> bool:
    """Whether :func:`run_plain` can: a host graph of integers whose operators are all in its table, and not huge."""
    main = module["main"]
    if len(module.functions) != 1 or not isinstance(main.body, relax.SeqExpr):
        return False
    if not all(_is_tensor(var.ty, _INTEGERS) for var in main.params):
        return False
    known: dict[relax.Var, Any] = dict.fromkeys(main.params)
    elements = 0
    for block in main.body.blocks:
        for binding in block.bindings:
            value, ty = binding.value, binding.var.ty
            if not _is_tensor(ty, (*_INTEGERS, "float32")) or not _is_known(value, ty, known):
                return False
            elements += math.prod(int(extent) for extent in ty.shape.values)
            known[binding.var] = value
    return elements <= _MOST


def run_in_numpy(module: ir.IRModule, inputs: Sequence[Array]) -> list[Array]:
    """The results of a graph that :func:`is_plain`, in arrays of their own."""
    main = module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    body = main.body.body
    results = list(body.fields) if isinstance(body, relax.Tuple) else [body]
    last = {var: at for at, binding in enumerate(bindings) for var in relax.analysis.free_vars(binding.value)}
    values: dict[relax.Var, Array] = dict(zip(main.params, inputs, strict=True))
    for at, binding in enumerate(bindings):
        values[binding.var] = _value(binding.value, values)
        for var in relax.analysis.free_vars(binding.value):
            if last[var] == at and var not in results:
                del values[var]
    return [np.array(values[result], order="C") for result in results]


def _is_tensor(ty: Any, dtypes: Sequence[str]) -> bool:
    return isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr) and str(ty.dtype) in dtypes


def _is_known(value: Any, ty: Any, known: Mapping[relax.Var, Any]) -> bool:
    if isinstance(value, relax.Var):
        return True
    if not isinstance(value, ir.Call) or str(getattr(value.op, "name", "")) not in _RULES:
        return False
    return _RULES[value.op.name].applies(value, ty, known)


def _always(_call: ir.Call, _ty: Any, _known: Mapping[relax.Var, Any]) -> bool:
    return True


def _arithmetic(call: ir.Call, ty: Any, _known: Mapping[relax.Var, Any]) -> bool:
    """Operands of one type; of float32, constants that are numbers."""
    if any(str(operand.ty.dtype) != str(ty.dtype) for operand in call.args):
        return False
    return all(np.isfinite(_constant(operand)).all() for operand in call.args if _is_constant(operand))


def _integers(call: ir.Call, ty: Any, _known: Mapping[relax.Var, Any]) -> bool:
    return all(str(each.dtype) == str(ty.dtype) != "float32" for each in (operand.ty for operand in call.args))


def _shift(call: ir.Call, ty: Any, known: Mapping[relax.Var, Any]) -> bool:
    """By constants within the width: others have no result."""
    by = call.args[1]
    if not _integers(call, ty, known) or not _is_constant(by):
        return False
    return bool(((_constant(by) >= 0) & (_constant(by) < np.dtype(str(ty.dtype)).itemsize * 8)).all())


def _clip(call: ir.Call, ty: Any, _known: Mapping[relax.Var, Any]) -> bool:
    """Between bounds that the type has."""
    low, high = (float(bound.value) for bound in call.args[1:])
    if str(ty.dtype) == "float32":
        return -math.inf < low <= high < math.inf
    limits = np.iinfo(str(ty.dtype))
    return limits.min <= low <= high <= limits.max and low == int(low) and high == int(high)


def _cast(call: ir.Call, ty: Any, known: Mapping[relax.Var, Any]) -> bool:
    """From integers; from float32 what was cut to the range of the integers before."""
    data = call.args[0]
    if _is_constant(data):
        return False
    if str(data.ty.dtype) != "float32":
        return True
    made = known[data]
    if str(ty.dtype) == "float32" or not isinstance(made, ir.Call) or made.op.name != "relax.clip":
        return False
    limits = np.iinfo(str(ty.dtype))
    return limits.min <= float(made.args[1].value) and float(made.args[2].value) <= limits.max


def _padded(call: ir.Call, _ty: Any, _known: Mapping[relax.Var, Any]) -> bool:
    return str(call.attrs.pad_mode) == "constant" and min((int(n) for n in call.attrs.pad_width), default=0) >= 0


def _joined(call: ir.Call, _ty: Any, _known: Mapping[relax.Var, Any]) -> bool:
    return isinstance(call.args[0], relax.Tuple) and call.attrs.axis is not None


def _sliced(call: ir.Call, _ty: Any, _known: Mapping[relax.Var, Any]) -> bool:
    """From front to back, within the tensor."""
    axes, begin, end, *strides = (_numbers(argument) for argument in call.args[1:])
    shape = call.args[0].ty.shape.values
    inside = all(0 <= b <= e <= int(shape[a]) for a, b, e in zip(axes, begin, end, strict=True))
    return inside and all(step > 0 for step in (strides[0] if strides else ()))


def _is_constant(value: Any) -> bool:
    return isinstance(value, tvm.ir.GenericConst)


def _constant(value: Any) -> Array:
    array: Array = value.value.numpy()
    return array


def _numbers(argument: relax.Tuple) -> list[int]:
    return [int(number.value) for number in argument.fields]


def _tensor(value: Any, values: Mapping[relax.Var, Array]) -> Array:
    return values[value] if isinstance(value, relax.Var) else _constant(value)


def _value(value: Any, values: Mapping[relax.Var, Array]) -> Array:
    if isinstance(value, relax.Var):
        return values[value]
    with np.errstate(all="ignore"):
        return _RULES[value.op.name].run(value, values)


def _of_tensors(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda call, values: np.asarray(function(*(_tensor(x, values) for x in call.args)))


def _run_clip(call: ir.Call, values: Mapping[relax.Var, Array]) -> Array:
    data = _tensor(call.args[0], values)
    low, high = (data.dtype.type(bound.value) for bound in call.args[1:])
    return np.asarray(np.clip(data, low, high))


def _run_pad(call: ir.Call, values: Mapping[relax.Var, Array]) -> Array:
    data = _tensor(call.args[0], values)
    width = [int(n) for n in call.attrs.pad_width]
    pairs = list(zip(width[::2], width[1::2], strict=True))
    return np.pad(data, pairs, constant_values=data.dtype.type(call.attrs.pad_value))


def _run_slice(call: ir.Call, values: Mapping[relax.Var, Array]) -> Array:
    axes, begin, end, *strides = (_numbers(argument) for argument in call.args[1:])
    data = _tensor(call.args[0], values)
    index = [slice(None)] * data.ndim
    for axis, first, past, step in zip(axes, begin, end, strides[0] if strides else [1] * len(axes), strict=True):
        index[axis] = slice(first, past, step)
    return data[tuple(index)]


def _run_concat(call: ir.Call, values: Mapping[relax.Var, Array]) -> Array:
    return np.concatenate([_tensor(part, values) for part in call.args[0].fields], int(call.attrs.axis))


def _run_transpose(call: ir.Call, values: Mapping[relax.Var, Array]) -> Array:
    axes = call.attrs.axes
    return np.transpose(_tensor(call.args[0], values), None if axes is None else [int(axis) for axis in axes])


def _run_reshape(call: ir.Call, values: Mapping[relax.Var, Array]) -> Array:
    return _tensor(call.args[0], values).reshape([int(extent) for extent in call.ty.shape.values])


def _run_cast(call: ir.Call, values: Mapping[relax.Var, Array]) -> Array:
    return _tensor(call.args[0], values).astype(str(call.attrs.dtype))


@dataclass(frozen=True)
class _Rule:
    """What an operator computes, and to which of its calls, of their types, that applies."""

    run: Callable[[ir.Call, Mapping[relax.Var, Array]], Array]
    applies: Callable[[ir.Call, Any, Mapping[relax.Var, Any]], bool] = _always


_RULES: Mapping[str, _Rule] = {
    "relax.add": _Rule(_of_tensors(np.add), _arithmetic),
    "relax.subtract": _Rule(_of_tensors(np.subtract), _arithmetic),
    "relax.multiply": _Rule(_of_tensors(np.multiply), _arithmetic),
    "relax.maximum": _Rule(_of_tensors(np.maximum), _integers),
    "relax.minimum": _Rule(_of_tensors(np.minimum), _integers),
    "relax.left_shift": _Rule(_of_tensors(np.left_shift), _shift),
    "relax.right_shift": _Rule(_of_tensors(np.right_shift), _shift),
    "relax.round": _Rule(_of_tensors(np.rint)),
    "relax.clip": _Rule(_run_clip, _clip),
    "relax.astype": _Rule(_run_cast, _cast),
    "relax.permute_dims": _Rule(_run_transpose),
    **dict.fromkeys(("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten"), _Rule(_run_reshape)),
    "relax.nn.pad": _Rule(_run_pad, _padded),
    "relax.strided_slice": _Rule(_run_slice, _sliced),
    "relax.concat": _Rule(_run_concat, _joined),
}
