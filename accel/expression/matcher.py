"""Unification of two TIR expressions: the value of a statement, and the value that a program stores.

The pattern's leaves are loads of buffers and variables that stand for the statement's operands and scalars.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad

from accel.expression.element_types import is_float
from accel.expression.tir_terms import (
    IDENTITY,
    as_less_than,
    call_parts,
    clips,
    equal,
    has_loads,
    is_ascending,
    join,
    operation_of,
    rest_without,
    same_place,
    substitute,
    terms_of,
    uncast,
    uses_variable,
)

Accept = Callable[[str, TensorLoad], bool]

MAX_STEPS = 20_000
_COMMUTATIVE = (tirx.Add, tirx.Mul, tirx.Min, tirx.Max, tirx.EQ, tirx.NE, tirx.And, tirx.Or)
_SHIFTS: dict[Any, Any] = {tirx.RShift: tirx.LShift, tirx.LShift: tirx.RShift}
_CLIPS: dict[Any, Any] = {tirx.Min: tirx.Max, tirx.Max: tirx.Min}


class TooManySteps(Exception):  # noqa: N818  it says what happened, and no user sees it
    """The search was given up."""


@dataclass(frozen=True)
class Bound:
    """The loads and expressions that names stand for so far."""

    operands: Mapping[str, TensorLoad]
    scalars: Mapping[str, tirx.Expr]

    def has(self, name: str) -> bool:
        """Returns whether a name stands for something."""
        return name in self.operands or name in self.scalars

    @property
    def count(self) -> int:
        """How many names stand for something."""
        return len(self.operands) + len(self.scalars)


@dataclass
class Matcher:
    """The leaves of one pattern, and the reason why nothing has matched so far.

    Attributes:
        operands: for each buffer of the pattern the operand that it stands for, by name, and its element type.
        scalars: for each variable of the pattern the scalar that it stands for, by name, and its declared type.
        accept: returns whether an operand may be a load.
    """

    operands: Mapping[tirx.Var, tuple[str, str]]
    scalars: Mapping[tirx.Var, tuple[str, str]]
    accept: Accept
    steps: int = MAX_STEPS
    _reason: Callable[[], str] = str
    _progress: tuple[int, bool] = (-1, False)

    @property
    def reason(self) -> str:
        """Why nothing has matched so far; written when it is asked for, as texts of expressions take long."""
        return self._reason()

    def match(self, pattern: tirx.Expr, found: tirx.Expr, bound: Bound) -> Iterator[Bound]:
        """Yields every way in which ``found`` is an instance of ``pattern``, given the names bound already.

        Raises:
            TooManySteps: the search takes more than ``MAX_STEPS``.
        """
        self.steps -= 1
        if self.steps < 0:
            raise TooManySteps
        fits = False
        for way in self._matches(pattern, found, bound):
            fits = True
            yield way
        if not fits and (type(pattern) is not type(found) or self._progress < (bound.count, False)):
            self._note(bound, lambda: f"expected {self.shown(pattern)}, found {found}", of_leaf=False)

    def shown(self, pattern: tirx.Expr) -> str:
        """Returns the text of a pattern with the statement's names."""
        if isinstance(pattern, TensorLoad):
            name, dtype = self.operands[pattern.source]
            return f"{name} ({dtype})"
        return str(pattern)

    def bind_operand(self, name: str, dtype: str, load: Any, bound: Bound) -> Iterator[Bound]:
        """Yields ``bound`` with ``name`` bound to ``load``; nothing where ``name`` is bound to another load."""
        if not isinstance(load, TensorLoad):
            return
        if str(load.ty.dtype) != dtype:
            self._note(bound, lambda: f"expected {name} of {dtype}, found {load} of {load.ty.dtype}")
        elif name in bound.operands:
            if same_place(bound.operands[name], load):
                yield bound
            else:
                self._note(bound, lambda: f"expected {name} at {bound.operands[name]}, found {load}")
        elif not self.accept(name, load):
            self._note(bound, lambda: f"{load} cannot be {name}")
        else:
            yield replace(bound, operands={**bound.operands, name: load})

    def bind_scalar(self, variable: tirx.Var, value: tirx.Expr | None, bound: Bound) -> Iterator[Bound]:
        """Yields ``bound`` with a scalar bound to ``value``; nothing where it has loads or contradicts ``bound``."""
        name, declared = self.scalars[variable]
        if isinstance(value, tirx.Cast) and str(value.value.ty.dtype) == declared:
            value = value.value  # what the variable's place makes of the scalar
        if value is None or has_loads(value) or is_float(str(value.ty.dtype)) != is_float(str(variable.ty.dtype)):
            return
        if name not in bound.scalars:
            yield replace(bound, scalars={**bound.scalars, name: value})
        elif equal(bound.scalars[name], value):
            yield bound
        else:
            self._note(bound, lambda: f"expected {name} to be {bound.scalars[name]} again, found {value}")

    def _note(self, bound: Bound, reason: Callable[[], str], *, of_leaf: bool = True) -> None:
        """Store the reason of the attempt that bound most names: a leaf's first, else the last, which is the widest."""
        progress = (bound.count, of_leaf)
        if progress > self._progress or (progress == self._progress and not of_leaf):
            self._progress, self._reason = progress, reason

    def _matches(self, pattern: Any, found: Any, bound: Bound) -> Iterator[Bound]:
        found = as_less_than(found)
        pattern = as_less_than(pattern)
        if isinstance(found, tirx.IntImm):
            yield from self._unchanged(pattern, found, bound)
        if isinstance(pattern, TensorLoad):
            yield from self.bind_operand(*self.operands[pattern.source], found, bound)
        elif isinstance(pattern, tirx.Var):
            yield from self.bind_scalar(pattern, found, bound)
        elif isinstance(pattern, tirx.IntImm | tirx.FloatImm):
            if equal(pattern, found):
                yield bound
        elif isinstance(pattern, tirx.Cast):
            yield from self._cast(pattern, found, bound)
        elif str(pattern.ty.dtype) != str(found.ty.dtype):
            return
        elif isinstance(pattern, tirx.Select | Call):
            yield from self._call(pattern, found, bound)
        elif operation_of(pattern) and not is_float(str(pattern.ty.dtype)):
            yield from self._chain(pattern, found, bound)
            yield from self._clipped(pattern, found, bound)
        else:
            yield from self._pair(pattern, found, bound)
            yield from self._clipped(pattern, found, bound)

    def _unchanged(self, pattern: Any, found: tirx.IntImm, bound: Bound) -> Iterator[Bound]:
        """Arithmetic on one scalar that leaves the number as it is, such as keeping its low bits: then it is that."""
        if isinstance(pattern, tirx.Var | tirx.IntImm | TensorLoad) or has_loads(pattern):
            return
        used = [variable for variable in self.scalars if uses_variable(pattern, variable)]
        if (
            len(used) == 1
            and str(used[0].ty.dtype) == str(found.ty.dtype)
            and equal(substitute(pattern, used[0], found), found)
        ):
            yield from self.bind_scalar(used[0], found, bound)

    def _all(self, pairs: list[tuple[Any, Any]], bound: Bound) -> Iterator[Bound]:
        """Every pair matches."""
        if not pairs:
            yield bound
            return
        for way in self.match(*pairs[0], bound):
            yield from self._all(pairs[1:], way)

    def _cast(self, pattern: Any, found: Any, bound: Bound) -> Iterator[Bound]:
        if str(pattern.ty.dtype) != str(found.ty.dtype):
            return
        if isinstance(found, tirx.Cast):
            yield from self.match(pattern.value, found.value, bound)
        elif (constant := uncast(found, str(pattern.value.ty.dtype))) is not None and not has_loads(pattern):
            yield from self.match(pattern.value, constant, bound)

    def _call(self, pattern: Any, found: Any, bound: Bound) -> Iterator[Bound]:
        name, arguments = call_parts(pattern)
        other, others = call_parts(found)
        if name == other and len(arguments) == len(others):
            yield from self._all(list(zip(arguments, others, strict=True)), bound)

    def _pair(self, pattern: Any, found: Any, bound: Bound) -> Iterator[Bound]:
        """Two sides, where no chain is: floats, comparisons and shifts; or one, where TVM's simplification negates."""
        kind = type(pattern)
        if kind is tirx.Not is type(found):
            yield from self.match(pattern.a, found.a, bound)
        if type(found) is kind and hasattr(pattern, "b"):
            yield from self._all([(pattern.a, found.a), (pattern.b, found.b)], bound)
            if kind in _COMMUTATIVE:
                yield from self._all([(pattern.a, found.b), (pattern.b, found.a)], bound)
        if kind in _SHIFTS and type(found) is _SHIFTS[kind] and isinstance(found.b, tirx.IntImm):
            other_way = tirx.const(-int(found.b), "int32")
            yield from self._all([(pattern.a, found.a), (pattern.b, other_way)], bound)
        yield from self._without(pattern, found, bound)

    def _without(self, pattern: Any, found: Any, bound: Bound) -> Iterator[Bound]:
        """``found`` is one side alone: the scalar on the other side changes nothing."""
        nothing = {tirx.Mul: 1.0, tirx.Add: -0.0, tirx.Sub: 0.0, tirx.RShift: 0, tirx.LShift: 0}.get(type(pattern))
        if nothing is None:
            return
        sides = [(pattern.a, pattern.b), (pattern.b, pattern.a)]
        for value, idle in sides if type(pattern) in _COMMUTATIVE else sides[:1]:
            if idle in self.scalars:
                for way in self.match(value, found, bound):
                    yield from self.bind_scalar(idle, tirx.const(nothing, str(pattern.ty.dtype)), way)

    def _chain(self, pattern: Any, found: Any, bound: Bound) -> Iterator[Bound]:
        """Terms of an integer chain in any order; what no term takes goes to a scalar."""
        operation = operation_of(pattern)
        expected, given = terms_of(pattern, operation), terms_of(found, operation)
        if expected.constant == given.constant:
            for way, left in self._assigned(list(expected.signed), list(given.signed), bound):
                if not left:
                    yield way
        scalars = [(sign, term) for sign, term in expected.signed if term in self.scalars]
        others = [(sign, term) for sign, term in expected.signed if term not in self.scalars]
        try:
            rest = rest_without(given, expected.constant)
        except LookupError:
            return
        for way, left in self._assigned(others, list(given.signed), bound):
            yield from self._shared(operation, scalars, left, rest, str(pattern.ty.dtype), way)

    def _assigned(self, expected: list[Any], given: list[Any], bound: Bound) -> Iterator[tuple[Bound, list[Any]]]:
        """Every expected term has a given one of its own; with those, what is left."""
        if not expected:
            yield bound, given
            return
        sign, term = expected[0]
        for at, (found_sign, found) in enumerate(given):
            if sign == found_sign:
                for way in self.match(term, found, bound):
                    yield from self._assigned(expected[1:], given[:at] + given[at + 1 :], way)

    def _shared(
        self, operation: Any, scalars: list[Any], left: list[Any], rest: int | None, dtype: str, bound: Bound
    ) -> Iterator[Bound]:
        """One of the scalars is what is left, and the others change nothing."""
        identity = IDENTITY[operation]
        for taker in range(len(scalars)):
            candidates = [bound]
            for at, (sign, variable) in enumerate(scalars):
                terms = [(sign * other, term) for other, term in left] if at == taker else []
                constant = identity if at != taker else rest if rest is None else sign * rest
                value = _joined(operation, terms, constant, dtype)
                candidates = [way for before in candidates for way in self.bind_scalar(variable, value, before)]
            yield from candidates

    def _clipped(self, pattern: Any, found: Any, bound: Bound) -> Iterator[Bound]:
        """``min(max(x, lo), hi)`` is ``max(min(x, hi), lo)`` if ``lo`` is not above ``hi``."""
        kind = type(pattern)
        other = _CLIPS.get(kind)
        if other is None or type(found) is not other:
            return
        for (x, inner), outer in clips(pattern, other):
            for (found_x, found_inner), found_outer in clips(found, kind):
                low, high = (found_outer, found_inner) if kind is tirx.Min else (found_inner, found_outer)
                if is_ascending(low, high):
                    yield from self._all([(x, found_x), (inner, found_outer), (outer, found_inner)], bound)


def _joined(operation: Any, terms: list[tuple[int, tirx.Expr]], constant: int | None, dtype: str) -> tirx.Expr | None:
    try:
        return join(operation, terms, constant, dtype)
    except (ValueError, RuntimeError):  # a constant that the type cannot hold
        return None
