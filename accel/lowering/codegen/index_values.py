"""The values of an index expression over all iterations of its loops at once.

An allocated function computes nothing but fields: integer expressions of the loop variables and of its parameters,
which are addresses: of tensors in DRAM, and of middle and end of a memory. Those are not known yet, so a value is kept
as a number and a multiple of each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import ir, tirx

from accel.errors import CompileError
from accel.util.arrays import Int64

_IF = "if_then_else"


@dataclass(frozen=True)
class IndexValue:
    """``number + sum(multiples[p] * address of p)``; each has an axis a loop, of extent 1 where it is constant.

    A ``multiple`` of 0 is left out.
    """

    number: Int64
    multiples: Mapping[tirx.Var, Int64]


def evaluate_index(expression: Any, values: Mapping[tirx.Var, IndexValue]) -> IndexValue:
    """The value of an integer expression, exactly (64 bits), by those of its variables.

    A truth is 1 or 0, and a float its integral part.

    Raises:
        CompileError: an operation without a rule, or an address that is not just added, subtracted or multiplied by
            what is none.
    """
    kind = type(expression)  # of TVM's classes isinstance takes longer than all else here
    if kind in (tirx.IntImm, tirx.FloatImm):
        return IndexValue(np.array(int(expression.value), np.int64), {})
    if kind is tirx.Var:
        return values[expression]
    if kind is tirx.Cast:
        return _cast(evaluate_index(expression.value, values), str(expression.ty.dtype), expression)
    if kind in _LINEAR:
        return _linear(expression, evaluate_index(expression.a, values), evaluate_index(expression.b, values))
    operands = [_plain(evaluate_index(operand, values), expression) for operand in _operands(expression)]
    with np.errstate(divide="ignore"):  # where a condition keeps it from being used
        return IndexValue(np.asarray(_rule(expression)(*operands)).astype(np.int64), {})


def _operands(expression: Any) -> list[Any]:
    if isinstance(expression, ir.Call):
        return list(expression.args)
    if isinstance(expression, tirx.Select):
        return [expression.condition, expression.true_value, expression.false_value]
    return [expression.a, expression.b] if hasattr(expression, "b") else [expression.a]


def _rule(expression: Any) -> Callable[..., Any]:
    called = isinstance(expression, ir.Call) and str(expression.op.name).rpartition(".")[2] == _IF
    rule = _RULES.get(tirx.Select if called else type(expression))
    if rule is None:
        raise CompileError(f"a field cannot hold {expression}: no rule gives its value", field="instruction")
    return rule


def _plain(value: IndexValue, expression: Any) -> Int64:
    if value.multiples:
        raise CompileError(f"{expression} does not grow evenly with an address", field="instruction")
    return value.number


def _cast(value: IndexValue, dtype: str, expression: Any) -> IndexValue:
    """Narrower integers wrap, but not an address: it is checked against the field itself."""
    if value.multiples and dtype in ("int32", "int64"):
        return value
    return IndexValue(_plain(value, expression).astype(dtype).astype(np.int64), {})


def _linear(expression: Any, a: IndexValue, b: IndexValue) -> IndexValue:
    if isinstance(expression, tirx.Mul):
        if a.multiples:
            a, b = b, a
        factor = _plain(a, expression)
        return IndexValue(b.number * factor, _nonzero({base: many * factor for base, many in b.multiples.items()}))
    sign = -1 if isinstance(expression, tirx.Sub) else 1
    sums: dict[tirx.Var, Int64 | int] = dict(a.multiples)
    for base, many in b.multiples.items():
        sums[base] = sums.get(base, 0) + sign * many
    return IndexValue(a.number + sign * b.number, _nonzero(sums))


def _nonzero(multiples: Mapping[tirx.Var, Int64 | int]) -> dict[tirx.Var, Int64]:
    return {base: np.asarray(many) for base, many in multiples.items() if np.any(many)}


def _truncated_quotient(a: Int64, b: Int64) -> Int64:
    exact: Int64 = (a - np.fmod(a, b)) // b
    return exact


_LINEAR = (tirx.Add, tirx.Sub, tirx.Mul)
_RULES: dict[type, Callable[..., Any]] = {
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Div: _truncated_quotient,
    tirx.Mod: np.fmod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
    tirx.Not: np.logical_not,
    tirx.LShift: np.left_shift,
    tirx.RShift: np.right_shift,
    tirx.BitwiseAnd: np.bitwise_and,
    tirx.BitwiseOr: np.bitwise_or,
    tirx.BitwiseXor: np.bitwise_xor,
    tirx.BitwiseNot: np.bitwise_not,
    tirx.Select: np.where,
}
