"""Unification of a store of a program with one iteration of a statement: the operands for which both compute the same.

The statement's value is matched as a front end of TVM would write it.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import sym, tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_equal

from accel.expression.element_types import TensorType, bits_of, is_float, is_signed, limits
from accel.expression.matcher import Accept, Bound, Matcher, TooManySteps
from accel.expression.syntax_tree import (
    FLOAT_FUNCTIONS,
    Access,
    Binary,
    Call,
    Cast,
    Literal,
    Lookup,
    Negate,
    Scalar,
    Select,
    Statement,
)
from accel.expression.tir_terms import equal, same_place
from accel.expression.typecheck import SHIFTS, Typed, TypedExpression, check_statement

BINARY: dict[str, Any] = {
    "+": tirx.Add,
    "-": tirx.Sub,
    "*": tirx.Mul,
    "/": tirx.Div,
    "&": tirx.BitwiseAnd,
    "|": tirx.BitwiseOr,
    "^": tirx.BitwiseXor,
}
COMBINED: dict[str, Any] = {"+": tirx.Add, "min": tirx.Min, "max": tirx.Max}
COMPARISONS: dict[str, Any] = {
    "<": tirx.LT,
    "<=": tirx.LE,
    ">": tirx.GT,
    ">=": tirx.GE,
    "==": tirx.EQ,
    "!=": tirx.NE,
}
LOOKUP = "lut"
"""What a lookup in an operand is called in TIR: of the table's element for 0, and of the integer."""
Leaf = Callable[[Access | Scalar, str], tirx.Expr]


def tvm_form(node: TypedExpression, leaf: Leaf) -> tirx.Expr:
    """Returns ``node`` in TIR's own arithmetic, of which overflow is undefined; nothing is folded.

    ``leaf`` gives the expression of an access or a scalar, which must be of the type it is given.
    """
    below = [tvm_form(child, leaf) for child in node.children]
    match node.expression:
        case Literal(value):
            found = tirx.const(value, node.dtype)
        case Access() | Scalar() as named:
            found = leaf(named, node.dtype)
        case Negate() if is_float(node.dtype):
            found = tirx.Mul(below[0], tirx.const(-1.0, node.dtype))
        case Negate():
            found = tirx.Sub(tirx.const(0, node.dtype), below[0])
        case Cast():
            found = below[0] if node.children[0].dtype == node.dtype else tirx.Cast(node.dtype, below[0])
        case Select(comparison):
            found = tirx.Select(COMPARISONS[comparison](below[0], below[1]), below[2], below[3])
        case Binary(sign) if sign in SHIFTS:
            found = _shift(node, below[0], below[1], leaf)
        case Binary(sign):
            found = BINARY[sign](below[0], below[1])
        case Call() | Lookup() as called:
            found = _called(called, node.dtype, below)
    return found


def tvm_value(statement: Statement, tensors: Mapping[str, TensorType], leaf: Leaf) -> tirx.Expr:
    """Returns the right side of a statement without scalars, as :func:`tvm_form`.

    Raises:
        ExpressionError: it does not fit its tensors.
    """
    names = (statement.target.name, *statement.operands)
    types = tuple((name, tensors[name]) for name in names if name in tensors)
    return tvm_form(_typed(str(statement), replace(statement, combiner=None), types).value, leaf)


@functools.lru_cache(maxsize=4096)  # statements of like programs are asked for again and again
def _typed(text: str, statement: Statement, types: tuple[tuple[str, TensorType], ...]) -> Typed:
    """A statement with the type of each node; its ``text`` tells 1 from 1.0, and 0.0 from -0.0."""
    del text
    return check_statement(statement, dict(types), {})


def tvm_store(statement: Statement, tensors: Mapping[str, TensorType], leaf: Leaf) -> tirx.BufferStore:
    """Returns the store of a statement without scalars, as a front end of TVM would write it.

    ``leaf`` gives the load of each element, the target's too.

    Raises:
        ExpressionError: it does not fit its tensors.
    """
    own: Any = leaf(statement.target, tensors[statement.target.name].dtype)
    value = tvm_value(statement, tensors, leaf)
    if statement.combiner is not None:
        value = COMBINED[statement.combiner](own, value)
    return tirx.BufferStore(own.source, value, list(own.indices))


def elements_apart(place: Callable[[str], tuple[str, str]]) -> Leaf:
    """Returns loads of elements of which each has a buffer of its own; ``place`` gives type and scope of a tensor."""
    elements: dict[Access | Scalar, tirx.Expr] = {}

    def element(leaf: Access | Scalar, _dtype: str) -> tirx.Expr:
        if leaf not in elements:
            dtype, scope = place(leaf.name)
            elements[leaf] = tirx.decl_buffer((1,), dtype, leaf.name, scope=scope)[0]
        return elements[leaf]

    return element


def _shift(node: TypedExpression, value: tirx.Expr, count: tirx.Expr, leaf: Leaf) -> tirx.Expr:
    """TIR's counts are of the value's type, and not negative."""
    leftwards = isinstance(node.expression, Binary) and node.expression.operator == "<<"
    counted = node.children[1]
    if isinstance(counted.expression, Scalar):
        return (tirx.LShift if leftwards else tirx.RShift)(value, leaf(counted.expression, node.dtype))
    if not isinstance(counted.expression, Literal):
        same = counted.dtype == node.dtype
        return (tirx.LShift if leftwards else tirx.RShift)(value, count if same else tirx.Cast(node.dtype, count))
    steps = int(counted.expression.value) * (-1 if leftwards else 1)
    most = bits_of(node.dtype) - 1
    if abs(steps) > most and (steps < 0 or not is_signed(node.dtype)):
        return tirx.const(0, node.dtype)
    if isinstance(value, tirx.Cast) and isinstance(value.value, tirx.IntImm):  # TVM folds index types alone
        number, (low, high) = int(value.value), limits(node.dtype)
        shifted = number >> min(steps, most) if steps >= 0 else number << -steps
        if low <= shifted <= high:
            return tirx.const(shifted, node.dtype)
    by = tirx.const(min(abs(steps), most), node.dtype)
    return tirx.RShift(value, by) if steps >= 0 else tirx.LShift(value, by)


def _called(called: Call | Lookup, dtype: str, below: list[tirx.Expr]) -> tirx.Expr:
    if isinstance(called, Lookup):
        return tirx.call_pure_extern(dtype, LOOKUP, *below)
    return _call(called.function, dtype, below)


def _call(function: str, dtype: str, below: list[tirx.Expr]) -> tirx.Expr:
    zero = tirx.const(0, dtype)
    match function:
        case _ if function in FLOAT_FUNCTIONS:
            return _float_call(function, below[0])
        case "abs" if is_signed(dtype):
            return tirx.Select(tirx.GE(below[0], zero), below[0], tirx.Sub(zero, below[0]))
        case "abs":
            return tirx.abs(below[0]) if is_float(dtype) else below[0]
        case "relu":
            return tirx.Max(below[0], zero)
        case "clip":
            return tirx.Min(tirx.Max(below[0], below[1]), below[2])
    return COMBINED[function](*below)


def _float_call(function: str, x: tirx.Expr) -> tirx.Expr:
    if function == "recip":
        return tirx.Div(tirx.const(1.0, "float32"), x)
    return getattr(tirx, "nearbyint" if function == "rint" else function)(x)


@dataclass(frozen=True)
class Binding:
    """The loads and expressions of a store that the statement's names stand for.

    Attributes:
        operands: a load for each operand, and for the target one of the place that is written.
        scalars: an expression without loads for each scalar; a float for a float32, an integer of any type else.
        accumulates: the store combines its value with the target's; always so for ``+=``. For ``=`` with a sum both
            are tried: a store that does belongs to a nest that also writes zeros first.
    """

    operands: dict[str, TensorLoad]
    scalars: dict[str, tirx.Expr]
    accumulates: bool


@dataclass(frozen=True)
class UnificationFailure:
    """No binding exists; ``reason`` states what was expected and found in the attempt that came furthest."""

    reason: str


def unify(typed: Typed, store: tirx.BufferStore, accept: Accept) -> Binding | UnificationFailure:
    """Returns the first of :func:`bindings`, or a mismatch with the reason why there is none."""
    search = _Search(Pattern(typed), store, accept)
    return next(search.bindings(), None) or UnificationFailure(search.reason)


def bindings(typed: Typed, store: tirx.BufferStore, accept: Accept) -> Iterator[Binding]:
    """Yields every binding with which ``store`` computes one iteration of ``typed``.

    The store's loops are its caller's concern. ``accept`` is asked, with the name of an operand or of the target and
    a load of the right element type, whether the one may be the other. A search of too many steps ends.

    The order of the sides of ``+ * min max & | ^`` does not matter, for integers not that of a chain of them either;
    ``clip`` may be written with its bounds either way round if they are constants or provably in order. A scalar whose
    operation is missing stands for the number that changes nothing, as 0 does in ``x >> n``. Floats are taken to be
    numbers: the order in a minimum decides only between zeros and on NaNs.
    """
    return Pattern(typed).bindings(store, accept)


class Pattern:
    """A statement as the expressions of TIR that a store's value is unified with; they are made once for all stores."""

    def __init__(self, typed: Typed) -> None:
        self.typed = typed
        self._buffers = {name: tirx.decl_buffer((1,), kind.dtype, name) for name, kind in typed.tensors.items()}
        self._variables: dict[tuple[str, str], tirx.Var] = {}

    @functools.cached_property
    def forms(self) -> tuple[tuple[bool, tirx.Expr], ...]:
        """The statement's value as it is written and as TVM simplifies it, with (true) and without what was there."""
        statement = self.typed.statement
        value = tvm_form(self.typed.value, self._leaf)
        written = []
        if statement.updates or statement.reduced:
            combined = COMBINED[statement.combiner or "+"]
            written.append((True, combined(self._leaf(statement.target, self.typed.dtype), value)))
        if not statement.updates:
            written.append((False, value))
        forms = []
        for accumulates, form in written:
            forms.append((accumulates, form))
            simplified = _simplified(form)
            if not structural_equal(simplified, form):
                forms.append((accumulates, simplified))
        return tuple(forms)

    def matcher(self, accept: Accept) -> Matcher:
        """Returns a matcher of the forms."""
        return Matcher(
            {buffer: (name, self.typed.tensors[name].dtype) for name, buffer in self._buffers.items()},
            {variable: (name, self.typed.scalars[name]) for (name, _), variable in self._variables.items()},
            accept,
        )

    def bindings(self, store: tirx.BufferStore, accept: Accept) -> Iterator[Binding]:
        """Yields as :func:`bindings`."""
        return _Search(self, store, accept).bindings()

    def _leaf(self, leaf: Access | Scalar, dtype: str) -> tirx.Expr:
        if isinstance(leaf, Access):
            return tirx.BufferLoad(self._buffers[leaf.name], [tirx.const(0, "int32")])
        return self._variables.setdefault((leaf.name, dtype), tirx.Var(leaf.name, dtype))


class _Search:
    def __init__(self, pattern: Pattern, store: tirx.BufferStore, accept: Accept) -> None:
        self._pattern, self._typed, self._store, self._accept = pattern, pattern.typed, store, accept
        self._name = self._typed.statement.target.name
        self._reason: Callable[[], str] | None = None

    @property
    def reason(self) -> str:
        """Why there is no binding."""
        return "" if self._reason is None else self._reason()

    def bindings(self) -> Iterator[Binding]:
        target = tirx.BufferLoad(self._store.buffer, list(self._store.indices))
        seen: list[Bound] = []
        for accumulates, form in self._pattern.forms:
            matcher = self._pattern.matcher(self._accept)
            try:
                for start in matcher.bind_operand(self._name, self._typed.dtype, target, Bound({}, {})):
                    for bound in matcher.match(form, self._store.value, start):
                        if missing := [name for name in self._names() if not bound.has(name)]:
                            self._reason = functools.partial(self._unbound, missing)
                        elif not any(_same(bound, other) for other in seen):
                            seen.append(bound)
                            yield Binding(dict(bound.operands), dict(bound.scalars), accumulates)
            except TooManySteps:
                self._reason = self._reason or self._too_many
            self._reason = self._reason or functools.partial(self._unlike, matcher)

    def _unbound(self, names: list[str]) -> str:
        return f"{self._typed.statement}: {', '.join(names)} could be anything"

    def _too_many(self) -> str:
        statement = self._typed.statement
        return f"{statement}: {statement} fits {self._store.value} in too many ways to try"

    def _unlike(self, matcher: Matcher) -> str:
        return f"{self._typed.statement}: {matcher.reason}"

    def _names(self) -> tuple[str, ...]:
        return (self._name, *self._typed.statement.operands, *self._typed.statement.value_scalars)


def _same(a: Bound, b: Bound) -> bool:
    return all(same_place(load, b.operands[name]) for name, load in a.operands.items()) and all(
        equal(value, b.scalars[name]) for name, value in a.scalars.items()
    )


def _simplified(pattern: tirx.Expr) -> tirx.Expr:
    try:
        return sym.Analyzer().simplify(pattern)
    except (ValueError, RuntimeError):  # a constant that its type cannot hold
        return pattern
