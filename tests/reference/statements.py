"""Statements run by numpy, written from docs/expressions.md alone: slow, and plain to read."""

import itertools
import math

import numpy as np

from accel.expression.lookup_tables import LookupTable
from accel.expression.syntax_tree import (
    Access,
    AffineIndex,
    Binary,
    Call,
    Cast,
    Literal,
    Lookup,
    Negate,
    Scalar,
    Select,
)
from accel.expression.typecheck import Typed, TypedExpression

COMPARE = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
HELD = {"int48": "int64"}  # no type of numpy has 48 bits
PYTHON = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    ">>": lambda a, b: a >> b if b >= 0 else a << -b,
    "<<": lambda a, b: a << b if b >= 0 else a >> -b,
}


def run(typed: Typed, tensors: dict[str, np.ndarray], scalars: dict[str, float]) -> np.ndarray:
    """The target after one execution."""
    statement = typed.statement
    with np.errstate(all="ignore"):
        value = _Grid(typed, tensors, scalars).of(typed.value)
    result = tensors[statement.target.name].copy()
    written, summed = statement.target.axes, statement.reduced
    for position in itertools.product(*(range(typed.extents[axis]) for axis in written)):
        at = dict(zip(written, position, strict=True))
        where = tuple(at[index] if isinstance(index, str) else index for index in statement.target.indices)
        if statement.updates or summed:
            total = result[where] if statement.updates else result.dtype.type(0)
            combined = COMBINE[statement.combiner or "+"]
            for step in itertools.product(*(range(typed.extents[axis]) for axis in summed)):
                total = combined(total, value[position + step], typed.dtype)
        else:
            total = value[position]
        result[where] = total
    return result


def plus(a: np.generic, b: np.generic, dtype: str) -> np.generic:
    if a.dtype == np.float32:
        with np.errstate(all="ignore"):
            return np.float32(a + b)
    return wrap(int(a) + int(b), dtype)[()]


def wrap(values: object, dtype: str) -> np.ndarray:
    """Python integers, of which the low bits stay."""
    bits = int(dtype.lstrip("uint"))
    signed = 0 if dtype.startswith("u") else 1 << bits - 1
    low = np.asarray(((np.asarray(values, dtype=object) + signed) & ((1 << bits) - 1)) - signed)
    return low.astype(HELD.get(dtype, dtype))


def integers(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.astype(object))


class _Grid:
    """Values over all axes, in the order of ``typed.extents``."""

    def __init__(self, typed: Typed, tensors: dict[str, np.ndarray], scalars: dict[str, float]) -> None:
        self.axes = list(typed.extents)
        self.shape = tuple(typed.extents.values())
        self.types = typed.scalars
        self.tensors = tensors
        self.scalars = scalars
        self.lookups = typed.tables

    def of(self, node: TypedExpression) -> np.ndarray:
        return np.broadcast_to(self.raw(node), self.shape)

    def raw(self, node: TypedExpression) -> np.ndarray:
        below = [self.of(child) for child in node.children]
        match node.expression:
            case Literal(value):
                found = np.asarray(value, HELD.get(node.dtype, node.dtype))
            case Scalar(name):
                value, kind = np.asarray(self.scalars[name]), self.types[name]
                found = convert(value.astype(kind) if kind == "float32" else wrap(integers(value), kind), node.dtype)
            case Access() as access:
                found = self.read(access)
            case Negate():
                found = -below[0] if node.dtype == "float32" else wrap(-integers(below[0]), node.dtype)
            case Cast():
                found = convert(below[0], node.dtype)
            case Lookup(table):
                found = self.look_up(table, below[-1])
            case Select(comparison):
                found = np.where(COMPARE[comparison](below[0], below[1]), below[2], below[3])
            case Call(function):
                found = call(function, below, node.dtype)
            case Binary(operator):
                found = binary(operator, below, node.dtype)
        return found

    def look_up(self, table: str | Access, x: np.ndarray) -> np.ndarray:
        if isinstance(table, str):
            return looked_up(self.lookups[table], x)
        return self.read(table, x.astype(np.int64))

    def read(self, access: Access, further: np.ndarray | None = None) -> np.ndarray:
        """Elements, each so many places ``further`` on along the last axis."""
        grid = np.indices(self.shape)

        def place(index: object) -> np.ndarray:
            if isinstance(index, AffineIndex):
                found = np.full(self.shape, index.offset)
                for axis, step in index.terms:
                    found += grid[self.axes.index(axis)] * (self.scalars[step] if isinstance(step, str) else step)
                return found
            return grid[self.axes.index(index)] if isinstance(index, str) else np.full(self.shape, index)

        where = [place(index) for index in access.indices]
        if further is not None:
            where[-1] = where[-1] + further
        return self.tensors[access.name][tuple(where)] if access.indices else self.tensors[access.name]


COMBINE = {
    "+": plus,
    "max": lambda a, b, dtype: call("max", [a, b], dtype)[()],
    "min": lambda a, b, dtype: call("min", [a, b], dtype)[()],
}


def binary(operator: str, sides: list[np.ndarray], dtype: str) -> np.ndarray:
    if dtype == "float32":
        return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[operator](*sides)
    left, right = map(integers, sides)
    if operator in ("<<", ">>"):
        right = np.clip(right, -99, 99)
    exact = np.frompyfunc(PYTHON[operator], 2, 1)(left, right)
    return wrap(exact, dtype)


def convert(value: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "float32":
        return value.astype(np.float32)
    if value.dtype == np.float32:
        return np.vectorize(lambda x: truncated(float(x), dtype), otypes=[HELD.get(dtype, dtype)])(value)
    return wrap(integers(value), dtype)


def truncated(value: float, dtype: str) -> int:
    """Towards zero, within the type; 0 of a NaN."""
    bits = int(dtype.lstrip("uint"))
    low, high = (0, (1 << bits) - 1) if dtype.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if math.isnan(value):
        return 0
    return low if value < low else high if value > high else int(value)


def looked_up(table: LookupTable, x: np.ndarray) -> np.ndarray:
    if table.of != "float32":
        return np.array(table.values, table.dtype)[x.astype(np.int64) - np.iinfo(table.of).min]
    lines, points = len(table.values) - 1, np.array(table.values, np.float64)
    raised = np.where(x.astype(np.float64) > table.low, x.astype(np.float64), table.low)
    held = np.where(raised < table.high, raised, table.high)
    place = (held - table.low) * np.float64(lines / (table.high - table.low))
    line = np.minimum(place.astype(np.int64), lines - 1)
    return (points[line] + (place - line) * (points[line + 1] - points[line])).astype(np.float32)


ROUNDED = {"rint": np.rint, "floor": np.floor, "ceil": np.ceil, "sqrt": np.sqrt, "recip": lambda x: np.float32(1) / x}


def call(function: str, given: list[np.ndarray], dtype: str) -> np.ndarray:
    if function in ROUNDED:
        return np.asarray(ROUNDED[function](given[0]))
    match function:
        case "abs":
            return np.abs(given[0]) if dtype == "float32" else wrap(abs(integers(given[0])), dtype)
        case "relu":
            return np.where(given[0] > 0, given[0], np.asarray(0, HELD.get(dtype, dtype)))
        case "clip":
            raised = np.where(given[0] > given[1], given[0], given[1])
            return np.where(raised < given[2], raised, given[2])
        case "min":
            return np.where(given[0] < given[1], given[0], given[1])
    return np.where(given[0] > given[1], given[0], given[1])
