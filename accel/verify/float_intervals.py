"""Bounds of what a vector program can compute: intervals in float64 around exact arithmetic, step by step.

Each operation on float32 is within half a unit in the last place of its exact value, each function within one, and a
sum of n numbers, one after the other, within ``(n - 1) u / (1 - (n - 1) u)`` of the sum of their magnitudes (N. Higham,
Accuracy and Stability of Numerical Algorithms, 2nd ed., 4.2), with ``u = 2 ** -24``. What the steps make of the ends of
intervals is rounded outwards by more than float64's own error.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accel.expression.element_types import single
from accel.expression.syntax_tree import (
    Access,
    Binary,
    Call,
    Cast,
    Expression,
    Literal,
    Lookup,
    Negate,
    Select,
    Statement,
)
from accel.region.vector_program import UNIT, Stream, VectorProgram
from accel.util.arrays import Array, Bools, Float64
from accel.verify.wide_operators import error_function

_ROUNDING = 2.0**-24 * (1 + 2.0**-20)  # of an operation, with what float64 rounds
_FUNCTION = 2.0**-23
_LEAST = 2.0**-149  # the smallest float32
_MOST = float(np.finfo(np.float32).max)  # beyond it an infinity may stand for a number
_HELD = 1 << 24  # integers no farther from 0 are float32
_INTEGERS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-(1 << 15), (1 << 15) - 1), "i32": (-(1 << 31), (1 << 31) - 1)}


@dataclass(frozen=True)
class Interval:
    """The least and the greatest value of each element; ``whole``: all values are integers."""

    low: Float64
    high: Float64
    whole: bool = False

    def holds(self, values: Array) -> Array:
        """Returns of each value whether it is in there; NaN where both ends are."""
        wide = values.astype(np.float64)
        inside = (wide >= self.low) & (wide <= self.high)
        return np.asarray(inside | (np.isnan(wide) & np.isnan(self.low)))

    def used(self, values: Array) -> float:
        """Returns how far the farthest value is from the middle, as a share of half the width; 0 of points."""
        with np.errstate(all="ignore"):
            middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        wide = np.isfinite(half) & (half > 0)
        if not wide.any():
            return 0.0
        return float(np.max(np.abs(values.astype(np.float64) - middle)[wide] / half[wide]))


def result_interval(program: VectorProgram, result: int, operand: Callable[[int], Array]) -> Interval:
    """Returns what a result of a program can be, of its shape.

    Args:
        program: the program.
        result: the number of the result.
        operand: gives the operands by their numbers, of which only those that the result comes from are asked for.
    """
    dram = program.in_dram
    operands = len(dram) - program.results
    numbers = {tensor.name: number for number, tensor in enumerate(dram[:operands])}
    values: dict[str, Interval] = {}
    target = dram[operands + result]
    statements = _slice(program, target.name) if program.stream is None else program.parsed
    for statement in statements:
        for name in statement.operands:
            if name in numbers and name not in values:
                values[name] = _of_operand(program, name, operand(numbers[name]))
    if program.stream is None:
        for statement in statements:
            values[statement.target.name] = _evaluate(program.extents, statement, values)
    else:
        _evaluate_stream(program, program.stream, values)
    final, shape = values[target.name], program.dram_shape(target)
    return Interval(final.low.reshape(shape), final.high.reshape(shape), final.whole)


def _evaluate_stream(program: VectorProgram, stream: Stream, values: dict[str, Interval]) -> None:
    """What a program with a stream leaves in its tensors, of one block after the other as tiles walk them."""
    every, axis = program.parsed, stream.axis
    for statement in every[: stream.first]:
        values[statement.target.name] = _evaluate(program.extents, statement, values)
    outside = {tensor.name: tensor for tensor in program.in_dram if axis in tensor.axes and tensor.name in values}
    extents = list(program.extents)
    for begin in range(0, program.extents[axis], program.tile[axis]):
        end = min(begin + program.tile[axis], program.extents[axis])
        extents[axis] = end - begin
        own = dict(values)
        for name, tensor in outside.items():
            place = [each for each in tensor.axes if each != UNIT].index(axis)
            part = (*(slice(None),) * place, slice(begin, end))
            own[name] = _of_each_end(values[name], lambda whole, part=part: whole[part])  # type: ignore[misc]
        for statement in every[stream.first : stream.last]:
            own[statement.target.name] = _evaluate(extents, statement, own)
        values |= {name: found for name, found in own.items() if name not in outside}
    for statement in every[stream.last :]:
        values[statement.target.name] = _evaluate(program.extents, statement, values)


def _slice(program: VectorProgram, result: str) -> list[Statement]:
    """The statements that a result comes from; a buffer that is written again holds something else from then on."""
    wanted, kept = {result}, list[Statement]()
    for statement in reversed(program.parsed):
        name = statement.target.name
        if name not in wanted:
            continue
        if statement.combiner is None:
            wanted.discard(name)
        wanted.update(access.name for access in statement.accesses)
        kept.append(statement)
    return kept[::-1]


def _of_operand(program: VectorProgram, name: str, array: Array) -> Interval:
    kept = [program.extents[axis] for axis in program.tensor(name).axes if axis != UNIT]
    exact = array.astype(np.float64).reshape(kept)
    return Interval(exact, exact, np.issubdtype(array.dtype, np.integer))


def _evaluate(whole: Sequence[int], statement: Statement, values: dict[str, Interval]) -> Interval:
    """What a statement over axes of ``whole`` elements leaves in its target, with axes in the order of the access."""
    axes = statement.axes
    if (products := _of_products(whole, statement, values)) is not None:
        return products

    def aligned(access: Access) -> Interval:
        """An operand with an axis for each of the statement's; the target's come first, so each broadcasts."""
        found = values[access.name]
        if access in statement.looked_up:
            return found
        order = sorted(range(len(access.axes)), key=lambda place: axes.index(access.axes[place]))
        shape = [1] * len(axes)
        for place in order:
            shape[axes.index(access.axes[place])] = found.low.shape[place]
        return _of_each_end(found, lambda end: end.transpose(order).reshape(shape))

    extents = [whole[int(name[1:])] for name in axes]
    with np.errstate(all="ignore"):
        value = _value(statement.value, aligned)
        given = _of_each_end(value, lambda end: np.broadcast_to(end, extents))
        if statement.combiner is None:
            return _of_each_end(given, np.array)
        return _combined(statement, values[statement.target.name], given, len(statement.target.axes))


def _of_products(whole: Sequence[int], statement: Statement, values: dict[str, Interval]) -> Interval | None:
    """What a sum of products of two tensors leaves, without all products at once; None of others, and near the ends.

    By middles and radii: ``a b`` is within ``|a| rb + ra |b| + ra rb`` of the product of the middles, and of n products
    one after the other each is rounded n + 1 times at most.
    """
    value = statement.value
    if statement.combiner != "+" or not isinstance(value, Binary) or value.operator != "*" or statement.looked_up:
        return None
    if not (isinstance(value.left, Access) and isinstance(value.right, Access)):
        return None
    left, right, before = values[value.left.name], values[value.right.name], values[statement.target.name]
    if left.whole and right.whole:
        return None
    letters = {axis: chr(ord("a") + number) for number, axis in enumerate(statement.axes)}
    parts = ("".join(letters[axis] for axis in each.axes) for each in (value.left, value.right, statement.target))
    pattern = "{},{}->{}".format(*parts)

    def summed(one: Float64, other: Float64) -> Float64:
        return np.asarray(np.einsum(pattern, one, other, optimize=True))

    (a, a_off), (b, b_off) = _middle(left), _middle(right)
    a_most, b_most = np.abs(a) + a_off, np.abs(b) + b_off
    magnitude = summed(a_most, b_most) + np.maximum(np.abs(before.low), np.abs(before.high))
    if not magnitude.max(initial=0) < _MOST / 2:
        return None
    count = math.prod(whole[int(axis[1:])] for axis in statement.reduced)
    gamma = (count + 1) * _ROUNDING / (1 - (count + 1) * _ROUNDING)
    slack = gamma * magnitude + 2 * count * _LEAST
    if a_off.any() or b_off.any():
        slack = slack + (summed(np.abs(a), b_off) + summed(a_off, b_most))
    middle = summed(a, b)
    return Interval(before.low + middle - slack, before.high + middle + slack)


def _middle(interval: Interval) -> tuple[Float64, Float64]:
    """The middles of intervals, and how far their ends are from these at most."""
    if interval.low is interval.high:
        return interval.low, np.zeros_like(interval.low)
    middle = (interval.low + interval.high) / 2
    return middle, (interval.high - interval.low) / 2 + np.abs(middle) * 2.0**-50


def _of_each_end(interval: Interval, change: Callable[[Float64], Float64]) -> Interval:
    """An interval whose ends have changed; numbers that are exact, whose ends are one array, are changed once."""
    low = change(interval.low)
    return Interval(low, low if interval.low is interval.high else change(interval.high), interval.whole)


def _combined(statement: Statement, before: Interval, given: Interval, kept: int) -> Interval:
    """What was there with all values along the axes that the target lacks, one after the other."""
    low, high, whole = given.low, given.high, before.whole and given.whole
    over = tuple(range(kept, low.ndim))
    if statement.combiner != "+":
        pick = np.maximum if statement.combiner == "max" else np.minimum
        low, high = (pick.reduce(end, axis=over) for end in (low, high))
        return Interval(pick(before.low, low), pick(before.high, high), whole)
    count = math.prod(low.shape[kept:])
    magnitude = np.sum(np.maximum(np.abs(low), np.abs(high)), axis=over)
    magnitude = magnitude + np.maximum(np.abs(before.low), np.abs(before.high))
    gamma = count * _ROUNDING / (1 - count * _ROUNDING)
    exact = whole and bool((magnitude <= _HELD).all())
    slack = np.zeros(()) if exact else gamma * magnitude + count * _LEAST
    return Interval(before.low + np.sum(low, axis=over) - slack, before.high + np.sum(high, axis=over) + slack, exact)


Leaf = Callable[[Access], Interval]


def _value(value: Expression, leaf: Leaf) -> Interval:
    """What an expression can be, its operations rounded to float32."""
    match value:
        case Access():
            found = leaf(value)
        case Literal(number):
            exact = np.asarray(single(number), np.float64)
            found = Interval(exact, exact, float(exact).is_integer())
        case Negate(inner):
            below = _value(inner, leaf)
            found = Interval(-below.high, -below.low, below.whole)
        case Cast(to, inner):
            found = _cast(to, _value(inner, leaf))
        case Binary(sign, left, right):
            found = _binary(sign, _value(left, leaf), _value(right, leaf), same=left == right)
        case Call(function, arguments):
            found = _call(function, [_value(argument, leaf) for argument in arguments])
        case Select():
            found = _selected(value, leaf)
        case Lookup(Access() as table, inner):
            found = _looked_up(int(str(table.indices[-1])), leaf(table), _value(inner, leaf))
        case _:
            raise AssertionError(value)
    return found


def _rounded(low: Float64, high: Float64, relative: float = _ROUNDING) -> Interval:
    sizes = np.abs(low), np.abs(high)
    if all(size.max(initial=0) < _MOST / 2 for size in sizes):  # as is nearly everything, and no NaN is
        return Interval(low - sizes[0] * relative - _LEAST, high + sizes[1] * relative + _LEAST)
    wide_low = np.where(np.isinf(low), low, low - np.abs(low) * relative - _LEAST)
    wide_high = np.where(np.isinf(high), high, high + np.abs(high) * relative + _LEAST)
    return Interval(np.where(wide_low < -_MOST, -np.inf, wide_low), np.where(wide_high > _MOST, np.inf, wide_high))


def _rounded_unless_whole(low: Float64, high: Float64, *, whole: bool) -> Interval:
    """Rounded, but for integers that float32 holds."""
    if not whole:
        return _rounded(low, high)
    held = _held(low, high)
    if held.all():
        return Interval(low, high, whole=True)
    found = _rounded(low, high)
    return Interval(np.where(held, low, found.low), np.where(held, high, found.high), whole=False)


def _cast(to: str, value: Interval) -> Interval:
    """To float32 rounded, to integers truncated."""
    if to == "f32":
        return _rounded_unless_whole(value.low, value.high, whole=value.whole)
    least, most = _INTEGERS[to]
    return Interval(np.clip(np.trunc(value.low), least, most), np.clip(np.trunc(value.high), least, most), whole=True)


def _binary(sign: str, left: Interval, right: Interval, *, same: bool) -> Interval:
    whole = left.whole and right.whole
    if sign == "+":
        return _rounded_unless_whole(left.low + right.low, left.high + right.high, whole=whole)
    if sign == "-":
        return _rounded_unless_whole(left.low - right.high, left.high - right.low, whole=whole)
    if same and sign == "*":
        ends = (left.low * left.low, left.high * left.high)
        least = np.where((left.low <= 0) & (left.high >= 0), 0.0, np.minimum(*ends))
        return _rounded(least, np.maximum(*ends))
    if sign == "/":
        zero = (right.low <= 0) & (right.high >= 0)
        found = _corners(left, right, np.divide)
        low, high = np.where(zero, -np.inf, found.low), np.where(zero, np.inf, found.high)
        return _rounded(low, high)
    found = _corners(left, right, np.multiply)
    rounded = _rounded_unless_whole(found.low, found.high, whole=whole)
    if not whole or rounded.whole or not all(_held(each.low, each.high).all() for each in (left, right)):
        return rounded
    exact = any(_are_powers_of_two(each) for each in (left, right))  # it has as many digits then
    return Interval(found.low, found.high, whole=True) if exact else rounded


def _are_powers_of_two(value: Interval) -> bool:
    return value.low is value.high and bool((np.frexp(np.abs(value.low))[0] == 0.5).all())


def _held(low: Float64, high: Float64) -> Bools:
    """Of each element whether float32 holds all its integers."""
    return np.asarray(np.maximum(np.abs(low), np.abs(high)) <= _HELD)


def _corners(left: Interval, right: Interval, operation: Callable[[Float64, Float64], Float64]) -> Interval:
    ends = [operation(a, b) for a in _ends(left) for b in _ends(right)]
    return Interval(functools.reduce(np.minimum, ends), functools.reduce(np.maximum, ends))


def _ends(interval: Interval) -> tuple[Float64, ...]:
    """The ends of an interval; one of an exact number, whose ends are one array."""
    return (interval.low,) if interval.low is interval.high else (interval.low, interval.high)


def _call(function: str, values: Sequence[Interval]) -> Interval:
    first = values[0]
    if function in ("max", "min", "clip"):
        return _picked(function, values)
    if function in _STEPS:
        step = _STEPS[function]
        return Interval(step(first.low), step(first.high), whole=True)
    if function == "abs":
        inside = (first.low <= 0) & (first.high >= 0)
        ends = np.abs(first.low), np.abs(first.high)
        return Interval(np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends))
    if function in ("rsqrt", "recip"):
        falling = _FALLING[function]
        unbounded = first.low <= 0
        low, high = falling(first.high), np.where(unbounded, np.inf, falling(np.where(unbounded, 1.0, first.low)))
        low = np.where(unbounded & (function == "recip"), -np.inf, low)
        return _rounded(low, high, _FUNCTION)
    rising = _RISING[function]
    low, high = rising(first.low), rising(first.high)
    if function in _FROM_ZERO:  # below it they are no number
        least, none = _FROM_ZERO[function], first.high < 0
        low, high = np.where(none, np.nan, np.where(first.low < 0, least, low)), np.where(none, np.nan, high)
    return _rounded(low, high, _FUNCTION)


def _looked_up(first: int, table: Interval, at: Interval) -> Interval:
    """The number at an integer; where that is not known, any of them."""
    last = table.low.size - 1
    low, high = (np.clip(end + first, 0, last).astype(np.int64) for end in (at.low, at.high))
    known = low == high
    return Interval(
        np.where(known, table.low[low], table.low.min()),
        np.where(known, table.high[high], table.high.max()),
        table.whole,
    )


def _picked(function: str, values: Sequence[Interval]) -> Interval:
    if function == "clip":
        above = _picked("max", values[:2])
        return _picked("min", (above, values[2]))
    pick = np.maximum if function == "max" else np.minimum
    low, high = (
        np.where(np.isnan(first), second, pick(first, second))  # as documents define it of a NaN
        for first, second in ((values[0].low, values[1].low), (values[0].high, values[1].high))
    )
    return Interval(low, high, values[0].whole and values[1].whole)


def _selected(value: Select, leaf: Leaf) -> Interval:
    """Both, where the comparison may go either way."""
    then, otherwise = _value(value.then, leaf), _value(value.otherwise, leaf)
    left, right = _value(value.left, leaf), _value(value.right, leaf)
    always, never = _decided(value.comparison, left, right)
    low = np.where(always, then.low, np.where(never, otherwise.low, np.minimum(then.low, otherwise.low)))
    high = np.where(always, then.high, np.where(never, otherwise.high, np.maximum(then.high, otherwise.high)))
    return Interval(low, high)


def _decided(comparison: str, left: Interval, right: Interval) -> tuple[Array, Array]:
    """Where a comparison holds whatever the values are, and where it does not."""
    less, not_less = left.high < right.low, left.low >= right.high
    most, not_most = left.high <= right.low, left.low > right.high
    equal = (left.low == left.high) & (right.low == right.high) & (left.low == right.low)
    apart = not_most | less
    found = {
        "<": (less, not_less),
        "<=": (most, not_most),
        ">": (not_most, most),
        ">=": (not_less, less),
        "==": (equal, apart),
        "!=": (apart, equal),
    }
    return found[comparison]


_STEPS = {"rint": np.rint, "floor": np.floor, "ceil": np.ceil}
_FALLING: dict[str, Callable[[Float64], Float64]] = {"rsqrt": lambda x: 1 / np.sqrt(x), "recip": lambda x: 1 / x}
_FROM_ZERO = {"log": -np.inf, "sqrt": 0.0}  # what functions of numbers from 0 on have there
_RISING: dict[str, Callable[[Float64], Float64]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": error_function,
}
