"""Random statements that mean something, and data for them."""

import functools
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from accel.expression.element_types import CASTS, ELEMENT_TYPES, TensorType, held_as, limits, single
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import (
    COMPARISONS,
    Access,
    Binary,
    Call,
    Cast,
    Expression,
    Literal,
    Negate,
    Scalar,
    Select,
    Statement,
)
from accel.expression.typecheck import Typed, check_statement

EXTENTS = {"i": 3, "j": 4, "k": 5}
# a tensor is read at one place only, so its name says the place
PLACES = {"p": ("i", "j"), "q": ("i", "k"), "r": ("k", "j"), "s": (), "t": ("j", 2), "v": ("k", "k")}
TARGETS = [("i", "j"), ("j",), ("i", 1, "j"), ()]
SCALARS = {"n": "int32", "m": "int8", "u": "uint16", "x": "float32", "y.z": "float32"}
EXACT = dict.fromkeys(["rint", "floor", "ceil", "sqrt", "recip"], 1)  # of one float32, rounded as IEEE has it
SHORT = {dtype: short for short, dtype in CASTS.items()}


def tensor_type(dtype: str, indices: tuple[str | int, ...]) -> TensorType:
    return TensorType(dtype, tuple(EXTENTS.get(index, 3) for index in indices))


TENSORS = {
    f"{place}_{SHORT[dtype]}": tensor_type(dtype, indices)
    for place, indices in PLACES.items()
    for dtype in ELEMENT_TYPES
}


@st.composite
def literals(draw: st.DrawFn, dtype: str) -> Literal:
    if dtype == "float32":
        return Literal(
            draw(st.one_of(st.integers(-300, 300), st.floats(width=32, allow_nan=False, allow_infinity=False)))
        )
    low, high = limits(dtype)
    return Literal(draw(st.one_of(st.integers(max(low, -3), 3), st.integers(low, high))))


@st.composite
def leaves(draw: st.DrawFn, dtype: str, places: str) -> Expression:
    kind = draw(st.sampled_from(["tensor", "tensor", "tensor", "scalar", "literal"]))
    if kind == "literal":
        return draw(literals(dtype))
    if kind == "scalar":
        fitting = [name for name, own in SCALARS.items() if (own == "float32") == (dtype == "float32")]
        return Scalar(draw(st.sampled_from(fitting)))
    place = draw(st.sampled_from(places))
    return Access(f"{place}_{SHORT[dtype]}", PLACES[place])


@st.composite
def reads(draw: st.DrawFn, dtype: str, places: str) -> Access:
    place = draw(st.sampled_from(places))
    return Access(f"{place}_{SHORT[dtype]}", PLACES[place])


@st.composite
def selects(draw: st.DrawFn, dtype: str, places: str, depth: int) -> Select:
    kind = draw(st.sampled_from(ELEMENT_TYPES))
    left, right = draw(reads(kind, places)), draw(expressions(kind, places, depth))
    then, otherwise = (draw(expressions(dtype, places, depth)) for _ in range(2))
    return Select(draw(st.sampled_from(COMPARISONS)), left, right, then, otherwise)


@st.composite
def shifts(draw: st.DrawFn, dtype: str, places: str, depth: int) -> Binary:
    counts = [st.integers(-70, 70).map(Literal), st.just(Scalar("m")), reads("int8", places)]
    return Binary(draw(st.sampled_from(["<<", ">>"])), draw(expressions(dtype, places, depth)), draw(st.one_of(counts)))


@st.composite
def calls(draw: st.DrawFn, dtype: str, places: str, depth: int) -> Call:
    counts = {"min": 2, "max": 2, "clip": 3, "abs": 1, "relu": 1, **(EXACT if dtype == "float32" else {})}
    name = draw(st.sampled_from(list(counts)))
    return Call(name, tuple(draw(expressions(dtype, places, depth)) for _ in range(counts[name])))


@functools.cache
def expressions(dtype: str, places: str, depth: int = 3) -> st.SearchStrategy[Expression]:
    """Expressions whose place asks for ``dtype``."""
    if depth == 0:
        return leaves(dtype, places)
    below = st.deferred(lambda: expressions(dtype, places, depth - 1))
    sums = st.builds(Binary, st.sampled_from("+-*"), below, below)
    if dtype == "float32":
        sums = st.builds(Binary, st.sampled_from("+-*/"), below, below)
    forms = [
        leaves(dtype, places),
        sums,
        sums,
        st.builds(Negate, below),
        st.builds(
            Cast, st.just(SHORT[dtype]), st.sampled_from(ELEMENT_TYPES).flatmap(lambda kind: reads(kind, places))
        ),
        calls(dtype, places, depth - 1),
        selects(dtype, places, depth - 1),
    ]
    if dtype != "float32":
        forms += [st.builds(Binary, st.sampled_from("&|^"), below, below), shifts(dtype, places, depth - 1)]
    return st.one_of(forms)


@dataclass(frozen=True)
class Case:
    """A statement with all that it runs on."""

    typed: Typed
    tensors: dict[str, np.ndarray]
    scalars: dict[str, float]


@st.composite
def statements(draw: st.DrawFn, depth: int = 3) -> Typed:
    dtype = draw(st.sampled_from(ELEMENT_TYPES))
    indices = draw(st.sampled_from(TARGETS))
    summed = draw(st.booleans())
    written = {axis for axis in indices if isinstance(axis, str)}
    places = "".join(
        place for place, at in PLACES.items() if summed or all(isinstance(i, int) or i in written for i in at)
    )
    value = draw(expressions(dtype, places, depth))
    combiner = draw(st.sampled_from([None, None, "+", "max", "min"]))
    target = Access("target", indices)
    statement = Statement(target, combiner, value)
    if combiner is None and not statement.reduced and draw(st.booleans()):
        statement = Statement(target, combiner, Binary(draw(st.sampled_from("+-*")), target, value))
    tensors = {**TENSORS, "target": tensor_type(dtype, indices)}
    return check_statement(parse_statement(str(statement)), tensors, SCALARS)


def data(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Values of all sizes, the ends of the range and what is odd among floats."""
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        sizes = np.exp2(rng.integers(-30, 40, shape)).astype(np.float32)
        values = (rng.standard_normal(shape) * sizes).astype(np.float32)
        odd = np.array(
            [0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, 1e-40, 3e38, 2.0**31, 2.0**32], np.float32
        )
        return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), values).astype(np.float32)
    low, high = limits(dtype)
    values = rng.integers(low, high, shape, endpoint=True)
    ends = rng.choice([low, low + 1, max(low, -1), 0, 1, high - 1, high], shape)
    return np.where(rng.random(shape) < 0.4, ends, values).astype(held_as(dtype))


@st.composite
def cases(draw: st.DrawFn, depth: int = 3) -> Case:
    typed = draw(statements(depth))
    seed = draw(st.integers(100, 1 << 30))
    tensors = {
        name: np.asarray(data(tensor.dtype, tensor.shape, seed + at))
        for at, (name, tensor) in enumerate(typed.tensors.items())
    }
    scalars = {name: data(dtype, (), seed - 1 - at).item() for at, (name, dtype) in enumerate(typed.scalars.items())}
    return Case(typed, tensors, scalars)


__all__ = ["cases", "expressions", "single", "statements"]
