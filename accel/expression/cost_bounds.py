"""Bounds of a cost over boxes: for each name of it a range, from the least to the most."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.expression.cost import Cost
from accel.expression.tree import Binary, Call, Expression, Literal, Negate, Scalar, children

Float64 = npt.NDArray[np.float64]
Ends = tuple[Float64, Float64]


@dataclass(frozen=True)
class Bounds:
    """Of n boxes the least and the most (n,) that a cost can be in each, and whether it is a number all over it (n,).

    They are no tighter than arithmetic on ranges makes them, and hold for values in double precision: its rounding
    keeps the order of numbers.
    """

    low: Float64
    high: Float64
    finite: npt.NDArray[np.bool_]


def bounds(cost: Cost, names: Mapping[str, Ends], count: int) -> Bounds:
    """The bounds of ``cost`` over ``count`` boxes; ``names`` has the ends (n,) of each name of the cost."""
    finite = np.ones(count, np.bool_)
    with np.errstate(all="ignore"):  # what is not finite is marked
        low, high = _of(cost.tree, names, finite)
    return Bounds(low, high, finite)


def _of(node: Expression, names: Mapping[str, Ends], finite: npt.NDArray[np.bool_]) -> Ends:
    below = [_of(child, names, finite) for child in children(node)]
    match node:
        case Literal(value):
            found = (np.full(len(finite), float(value)), np.full(len(finite), float(value)))
        case Scalar(name):
            found = names[name]
        case Negate():
            found = (-below[0][1], -below[0][0])
        case Binary(sign):
            found = _binary(sign, below[0], below[1], finite)
        case Call("min" | "max" as function):
            least = np.minimum if function == "min" else np.maximum
            lows, highs = zip(*below, strict=True)
            found = (functools.reduce(least, lows), functools.reduce(least, highs))
        case Call(function):
            rounded = np.ceil if function == "ceil" else np.floor
            found = (rounded(below[0][0]), rounded(below[0][1]))
        case _:
            raise AssertionError(node)
    finite &= np.isfinite(found[0]) & np.isfinite(found[1])
    return np.where(finite, found[0], 0.0), np.where(finite, found[1], 0.0)


def _binary(sign: str, left: Ends, right: Ends, finite: npt.NDArray[np.bool_]) -> Ends:
    if sign == "+":
        return left[0] + right[0], left[1] + right[1]
    if sign == "-":
        return left[0] - right[1], left[1] - right[0]
    if sign != "*":
        zero = (right[0] <= 0) & (right[1] >= 0)
        finite &= ~zero
        right = np.where(zero, 1.0, right[0]), np.where(zero, 1.0, right[1])
    operation = {"*": np.multiply, "/": np.divide, "//": np.floor_divide}[sign]
    corners = np.stack([operation(a, b) for a in left for b in right])
    return corners.min(axis=0), corners.max(axis=0)
