"""Type checking of a statement: the element type of every node, against the tensors and scalars of an instruction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from accel.expression.element_types import CAST_TO, CASTS, ELEMENT_TYPES, TensorType, is_float, limits, single
from accel.expression.lookup_tables import LookupTable
from accel.expression.syntax_tree import (
    FLOAT_FUNCTIONS,
    Access,
    AffineIndex,
    Binary,
    Call,
    Cast,
    Expression,
    ExpressionError,
    Literal,
    Lookup,
    Scalar,
    Select,
    Statement,
    children,
    walk,
)

SHIFTS = ("<<", ">>")
INTEGER_OPERATORS = ("&", "^", "|", *SHIFTS)


@dataclass(frozen=True)
class TypedExpression:
    """An expression with its element type; ``children`` are its subexpressions, in the order of the text."""

    dtype: str
    expression: Expression
    children: "tuple[TypedExpression, ...]"


@dataclass(frozen=True)
class Inference:
    """The names that an expression may use: tensors, scalars with their types, and tables."""

    tensors: Mapping[str, TensorType]
    scalars: Mapping[str, str]
    tables: Mapping[str, LookupTable]

    def typed(self, expression: Expression, expected: str | None = None) -> TypedExpression:
        """Returns ``expression`` as a node of type ``expected``, or of its own.

        Literals and integer scalars take the type that their place requires; nothing else is converted.

        Raises:
            ExpressionError: a type does not fit its place.
        """
        own = self._own(expression)
        dtype = expected or own or self._default(expression)
        if own not in (None, dtype):
            _refuse(expression, str(own), dtype)
        match expression:
            case Literal():
                _check_literal(expression, dtype)
            case Scalar(name) if is_float(dtype) and not is_float(self.scalars[name]):
                _refuse(expression, self.scalars[name], dtype)
        child_types = self._child_types(expression, dtype)
        pairs = zip(children(expression), child_types, strict=True)
        below = tuple(self.typed(child, want) for child, want in pairs)
        for child in below:
            if is_float(child.dtype) and isinstance(expression, Binary) and expression.operator in INTEGER_OPERATORS:
                raise ExpressionError(f"{child.expression} is float32; expected integers for '{expression.operator}'")
        if isinstance(expression, Lookup) and isinstance(expression.table, Access):
            self._check_lookup(expression.table, below[1])
        return TypedExpression(dtype, expression, below)

    def _child_types(self, expression: Expression, dtype: str) -> tuple[str | None, ...]:
        """The type that a node of type ``dtype`` requires of each child; None where the child's own type stands."""
        match expression:
            case Cast():
                return (None,)
            case Lookup(Access()):
                return (dtype, None)
            case Lookup(str() as table):
                return (self.tables[table].of,)
            case Binary(operator) if operator in SHIFTS:
                return (dtype, None)
            case Select(_, left, right):
                compared = self._join(expression, (left, right)) or self._default(left, right)
                return (compared, compared, dtype, dtype)
        return (dtype,) * len(children(expression))

    def _own(self, expression: Expression) -> str | None:
        """The type that an expression has wherever it stands; None: its place decides."""
        match expression:
            case Literal(value):
                own = "float32" if isinstance(value, float) else None
            case Scalar(name):
                own = "float32" if is_float(self.scalars[name]) else None
            case Access(name):
                own = self.tensors[name].dtype
            case Cast(to):
                own = CASTS[to]
            case Lookup(table):
                own = self.tables[table].dtype if isinstance(table, str) else self.tensors[table.name].dtype
            case Call(function) if function in FLOAT_FUNCTIONS:
                own = "float32"
            case Binary("/"):
                own = "float32"
            case Binary(operator, left) if operator in SHIFTS:
                own = self._own(left)
            case Select(then=then, otherwise=otherwise):
                own = self._join(expression, (then, otherwise))
            case _:
                own = self._join(expression, children(expression))
        return own

    def _check_lookup(self, table: Access, value: TypedExpression) -> None:
        """An operand that is a table has a number for each value of what is looked up."""
        if is_float(value.dtype):
            raise ExpressionError(f"{value.expression} is float32; {table} is by integers: cast it")
        low, high = limits(value.dtype)
        place = table.indices[-1] if table.indices else None
        if not isinstance(place, int):
            raise ExpressionError(f"found {table}; the last index of a table is where its number of 0 is, an integer")
        extent = self.tensors[table.name].shape[-1]
        if place + low < 0 or place + high >= extent:
            reach = f"{value.dtype} from {table} on goes from {place + low} to {place + high}"
            raise ExpressionError(f"{reach}; expected at least 0 and at most {extent - 1}")

    def _join(self, whole: Expression, parts: tuple[Expression, ...]) -> str | None:
        owns = {own: part for part in reversed(parts) if (own := self._own(part))}
        if len(owns) > 1:
            found = " and ".join(f"{part} is {own}" for own, part in sorted(owns.items()))
            raise ExpressionError(f"in {whole}, {found}; expected equal types: cast one of them")
        return next(iter(owns), None)

    def _default(self, *expressions: Expression) -> str:
        """The type of an expression of literals and integer scalars alone, where its place requires none."""
        names = [node.name for expression in expressions for node in walk(expression) if isinstance(node, Scalar)]
        types = sorted({self.scalars[name] for name in names})
        if len(types) > 1:
            found = " and ".join(types)
            raise ExpressionError(f"{expressions[0]} mixes scalars of {found}; expected one type: cast them")
        return types[0] if types else "int32"


def _check_literal(literal: Literal, dtype: str) -> None:
    if is_float(dtype):
        _check_single(literal)
        return
    low, high = limits(dtype)
    if not low <= literal.value <= high:
        raise ExpressionError(f"found {literal} as {dtype}; expected an integer from {low} to {high}")


def _check_single(literal: Literal) -> None:
    try:
        nearest = single(literal.value)
    except OverflowError:
        raise ExpressionError(f"found {literal} as float32; expected a number that is in range") from None
    if isinstance(literal.value, int) and nearest != literal.value:
        raise ExpressionError(f"found {literal} as float32; expected an integer that it holds, or a decimal point")


def _refuse(expression: Expression, found: str, expected: str) -> NoReturn:
    cast = CAST_TO[expected]
    what = "it or its parts" if len(children(expression)) > 1 else "it"
    raise ExpressionError(f"{expression} is {found}; expected {expected}: cast {what} with {cast}()")


@dataclass(frozen=True)
class Typed:
    """A statement that fits the tensors and scalars it names.

    Attributes:
        statement: as it was parsed.
        tensors: the target and the operands, and no other.
        scalars: element types of the scalars that the statement uses.
        extents: elements along each axis, the target's axes first, then the others, each in order of first use.
        value: the right side, with the type of every node.
        tables: those that the statement uses.
    """

    statement: Statement
    tensors: Mapping[str, TensorType]
    scalars: Mapping[str, str]
    extents: Mapping[str, int]
    value: TypedExpression
    tables: Mapping[str, LookupTable] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """The element type of the target, in which sums are computed."""
        return self.value.dtype


def check_statement(
    statement: Statement,
    tensors: Mapping[str, TensorType],
    scalars: Mapping[str, str],
    tables: Mapping[str, LookupTable] | None = None,
) -> Typed:
    """Returns ``statement`` with the type of every node, given its operands, the types of fields, and the tables.

    Raises:
        ExpressionError: an unknown name, a wrong rank, an axis of two extents, a type that does not fit its place, a
            literal out of range, or a use of the target that has no one meaning.
    """
    known = tables or {}
    _check_names(statement, tensors, scalars)
    for name in statement.tables:
        if name not in known:
            raise ExpressionError(f"found the table {name}; expected {_one_of(known)}")
    _check_target(statement)
    _check_indices(statement)
    extents = _extents(statement, tensors)
    value = Inference(tensors, scalars, known).typed(statement.value, tensors[statement.target.name].dtype)
    names = dict.fromkeys((statement.target.name, *statement.operands))
    return Typed(
        statement,
        {name: tensors[name] for name in names},
        {name: scalars[name] for name in statement.scalars},
        extents,
        value,
        {name: known[name] for name in statement.tables},
    )


def _check_names(statement: Statement, tensors: Mapping[str, TensorType], scalars: Mapping[str, str]) -> None:
    for access in (statement.target, *statement.accesses):
        if access.name in tensors:
            continue
        if access.name in scalars:
            raise ExpressionError(f"found {access}, but {access.name} is a scalar; expected no brackets")
        raise ExpressionError(f"found the tensor {access.name}; expected {_one_of(tensors)}")
    for name in statement.scalars:
        if name in tensors and name not in scalars:
            example = "[...]" if tensors[name].shape else "[]"
            raise ExpressionError(f"found {name}, but it is a tensor; expected {name}{example}")
        if name not in scalars:
            raise ExpressionError(f"found the scalar {name}; expected {_one_of(scalars)}")
        if scalars[name] not in ELEMENT_TYPES:
            raise ExpressionError(f"the scalar {name} is {scalars[name]}; expected {_one_of(ELEMENT_TYPES)}")
    for name in statement.index_scalars:
        if is_float(scalars[name]):
            raise ExpressionError(f"the scalar {name} is float32; the step of an axis is an integer")


def _one_of(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}" if names else "none, for there are none"


def _check_target(statement: Statement) -> None:
    target = statement.target
    if target.slides:
        raise ExpressionError(f"the target {target} has an index of several parts; expected an axis or an integer")
    if len(set(target.axes)) < len(target.axes):
        raise ExpressionError(f"the target {target} repeats an axis; expected each once")
    if not statement.reads_target:
        return
    if statement.updates:
        sign = f"'{statement.combiner}='"
        raise ExpressionError(f"{sign} reads {target.name} already; expected '=' where it is on the right as well")
    if statement.reduced:
        summed = ", ".join(statement.reduced)
        raise ExpressionError(f"the sum over {summed} reads its own target {target.name}; expected other operands")


def _check_indices(statement: Statement) -> None:
    """A tensor is read at one place an iteration, and the target where it is written."""
    places: dict[str, Access] = {statement.target.name: statement.target}
    for access in statement.accesses:
        first = places.setdefault(access.name, access)
        if first != access:
            raise ExpressionError(f"found {access} beside {first}; expected the same indices everywhere")


def _extents(statement: Statement, tensors: Mapping[str, TensorType]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for access in (statement.target, *statement.accesses):
        shape = tensors[access.name].shape
        if len(access.indices) != len(shape):
            raise ExpressionError(f"{access} has {len(access.indices)} indices; expected {len(shape)}, one an axis")
        for index, extent in zip(access.indices, shape, strict=True):
            if isinstance(index, int):
                if index >= extent:
                    raise ExpressionError(f"{access} has the index {index}; expected at most {extent - 1}")
            elif isinstance(index, str) and extents.setdefault(index, extent) != extent:
                raise ExpressionError(f"axis {index} of {access} is {extent}; expected {extents[index]} as elsewhere")
    check_reach(statement, tensors, extents, {})
    return {axis: extents[axis] for axis in statement.axes}


def check_reach(
    statement: Statement, tensors: Mapping[str, TensorType], extents: Mapping[str, int], most: Mapping[str, int]
) -> None:
    """Refuses sums of axes that go beyond their tensor, given the ``most`` of fields; one of an unknown field is 1.

    Raises:
        ExpressionError: the access, and how far it goes; or an axis of which no index says the extent.
    """
    for access in statement.accesses:
        for index, size in zip(access.indices, tensors[access.name].shape, strict=True):
            if not isinstance(index, AffineIndex):
                continue
            for axis, _ in index.terms:
                if axis not in extents:
                    alone = f"expected it as an index by itself as well, of the target {statement.target} or an operand"
                    raise ExpressionError(f"nothing says how long axis {axis} of {access} is; {alone}")
            reached = index.highest(extents, {name: most.get(name, 1) for name in access.scalars})
            if reached >= size:
                held = [f"{name} = {most[name]}" for name in access.scalars if name in most]
                given = f" with {', '.join(held)}" if held else ""
                raise ExpressionError(f"{access} goes to {index} = {reached}{given}; expected at most {size - 1}")
