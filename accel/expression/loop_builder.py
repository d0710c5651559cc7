"""A statement as TIR loops over flat buffers: what one execution of an instruction does."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from accel.expression.element_types import held_as, is_float
from accel.expression.syntax_tree import Access, AffineIndex, Index, Literal, Lookup, Scalar, index_terms
from accel.expression.table_lookup import lookup
from accel.expression.tir_arithmetic import combine, convert, literal, operation, scalar
from accel.expression.typecheck import Typed, TypedExpression


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in a flat buffer of its element type.

    Attributes:
        buffer: one-dimensional, of the type in which a host holds the tensor's elements.
        base: the element of the buffer that is the tensor's first; its integer type is that of all index arithmetic.
        strides: elements between neighbours along each axis; row-major and dense if None.
    """

    buffer: Any
    base: tirx.Expr
    strides: tuple[tirx.Expr | int, ...] | None = None


def build_loops(
    typed: Typed,
    places: Mapping[str, Place],
    scalars: Mapping[str, tirx.Expr],
    tables: Mapping[str, Any] | None = None,
    begun: list[tirx.Stmt] | None = None,
) -> tirx.Stmt:
    """Returns one execution of ``typed``, to be compiled for the host by LLVM.

    ``places`` has the target and every operand, ``scalars`` an expression for each scalar: float32, or an integer of
    any type; ``tables`` a buffer for the numbers of each table. A sum runs in the order of the reduced axes, the last
    fastest, whatever the order of the loops.

    What executions with other bases share is put into ``begun``, if given, to run once before them all. They may write
    to nothing but the target in between.
    """
    loops = _Loops(typed, places, scalars, tables or {})
    if not typed.statement.reduced:
        return loops.elementwise()
    if loops.rows_are_dense():
        return loops.rows()
    turned = loops.turned() if begun is not None else None
    if begun is None or turned is None:
        return loops.sums()
    begun += [statement for each in turned.values() for statement in each.begin()]
    there = {name: each.place for name, each in turned.items()}
    rows = _Loops(typed, {**places, **there}, scalars, tables or {}).rows()
    return tirx.SeqStmt([*(each.fill() for each in turned.values()), rows])


_Point = dict[str, tirx.Expr]  # where on each axis
_MOST_LANES = 64  # of a vector; LLVM cuts it to the host's registers
_FEWEST_ROWS = 4  # elements of a row of floats for which operands are turned
_FEWEST_LANES = 8  # below that, a long loop is left to LLVM
_MOST_TURNED = 1 << 14  # elements of an operand that is turned, on the stack
_Body = Callable[[_Point], tirx.Stmt]


class _Turned:
    """An operand whose copy has the target's last axis last, so that rows of it are dense.

    The copy is kept as long as the operand begins at the same element of its buffer.
    """

    def __init__(self, tensor: Place, strides: Sequence[int], extents: Sequence[int], row: int) -> None:
        self._tensor, self._strides, self._extents = tensor, strides, extents
        self._type = str(tensor.base.ty.dtype)
        self._others, self._row = [axis for axis in range(len(extents)) if axis != row], row
        steps, pitch = [0] * len(extents), 1
        for axis in (row, *reversed(self._others)):
            steps[axis], pitch = pitch, pitch * extents[axis]
        copy = tirx.decl_buffer((pitch,), tensor.buffer.dtype, "turned", scope="local")
        self._held = tirx.decl_buffer((1,), self._type, "held", scope="local")
        self.place = Place(copy, self._constant(0), tuple(steps))

    def _constant(self, value: int) -> tirx.Expr:
        return tirx.const(value, self._type)

    def begin(self) -> list[tirx.Stmt]:
        """Returns what makes room for the copy, of nothing yet."""
        nothing = tirx.BufferStore(self._held, self._constant(-1), [self._constant(0)])
        return [tirx.AllocBuffer(self.place.buffer), tirx.AllocBuffer(self._held), nothing]

    def fill(self) -> tirx.Stmt:
        """Returns what copies the operand, unless the copy is of it."""
        assert self.place.strides is not None
        variables = [tirx.Var(f"axis{axis}", self._type) for axis in range(len(self._extents))]
        source, target = self._tensor.base, self.place.base
        for variable, stride, step in zip(variables, self._strides, self.place.strides, strict=True):
            source, target = source + variable * stride, target + variable * step
        body: tirx.Stmt = tirx.BufferStore(self.place.buffer, tirx.BufferLoad(self._tensor.buffer, [source]), [target])
        for axis in (*reversed(self._others), self._row):  # it is read as it lies
            extent = self._constant(self._extents[axis])
            body = tirx.For(variables[axis], self._constant(0), extent, tirx.ForKind.SERIAL, body)
        zero = self._constant(0)
        note = tirx.BufferStore(self._held, self._tensor.base, [zero])
        other = tirx.BufferLoad(self._held, [zero]) != self._tensor.base
        return tirx.IfThenElse(other, tirx.SeqStmt([body, note]), None)


class _Loops:
    """The loops of one statement, in each of three orders."""

    def __init__(
        self,
        typed: Typed,
        places: Mapping[str, Place],
        scalars: Mapping[str, tirx.Expr],
        tables: Mapping[str, Any],
    ) -> None:
        self._typed, self._places, self._tables = typed, places, tables
        self._scalars = {name: scalar(scalars[name], dtype) for name, dtype in typed.scalars.items()}
        self._target = typed.statement.target
        self._written, self._summed = self._target.axes, typed.statement.reduced
        self._index_type = str(places[self._target.name].base.ty.dtype)
        self._strides: dict[str, tuple[Any, ...]] = {
            name: places[name].strides or tensor.strides() for name, tensor in typed.tensors.items()
        }

    def elementwise(self) -> tirx.Stmt:
        """Returns loops of one store for each element."""

        def body(point: _Point) -> tirx.Stmt:
            if self._typed.statement.updates:
                return self._store(self._added(self._load(self._target, point), point), point)
            return self._store(self._value(point), point)

        return self._around(self._written, body, {})

    def rows(self) -> tirx.Stmt:
        """Returns loops that sum rows: the target's last axis is innermost, so that vectors of a row are added."""
        outer, row = self._written[:-1], self._written[-1:]

        def clear(point: _Point) -> tirx.Stmt:
            return self._store(self._zero(), point)

        def step(point: _Point) -> tirx.Stmt:
            return self._store(self._added(self._load(self._target, point), point), point)

        def body(point: _Point) -> tirx.Stmt:
            summed = self._around((*self._summed, *row), step, point)
            if self._typed.statement.updates:
                return summed
            return tirx.SeqStmt([self._around(row, clear, point), summed])

        return self._around(outer, body, {})

    def sums(self) -> tirx.Stmt:
        """Returns loops of one sum for each element, in a register."""
        total = tirx.decl_buffer((1,), held_as(self._typed.dtype), "total", scope="local")
        first = tirx.const(0, self._index_type)

        def body(point: _Point) -> tirx.Stmt:
            old = self._load(self._target, point) if self._typed.statement.updates else self._zero()
            summed = self._around(self._summed, step, point)
            allocated, begun = tirx.AllocBuffer(total), tirx.BufferStore(total, old, [first])
            return tirx.SeqStmt([allocated, begun, summed, self._store(tirx.BufferLoad(total, [first]), point)])

        def step(point: _Point) -> tirx.Stmt:
            return tirx.BufferStore(total, self._added(tirx.BufferLoad(total, [first]), point), [first])

        return self._around(self._written, body, {})

    def rows_are_dense(self) -> bool:
        """Returns whether every tensor is dense, or stays, along the target's last axis."""
        if not self._written or self._typed.extents[self._written[-1]] == 1:
            return False
        axis = self._written[-1]
        steps = [self._stride(access, axis) for access in self._typed.statement.accesses]
        return self._stride(self._target, axis) == 1 and all(step in (0, 1) for step in steps)

    def turned(self) -> dict[str, _Turned] | None:
        """Returns the operands whose rows are not dense, by name, as copies that are; None where rows do not help.

        They help sums of floats, whose order lets nothing but rows be added at once.
        """
        if not is_float(self._typed.dtype) or not self._written or self._stride(self._target, self._written[-1]) != 1:
            return None
        row, buffer = self._written[-1], self._places[self._target.name].buffer
        if self._typed.extents[row] < _FEWEST_ROWS:
            return None
        found: dict[str, _Turned] = {}
        indices: dict[str, tuple[Index, ...]] = {}
        for access in self._typed.statement.accesses:
            if self._places[access.name].buffer.same_as(buffer):
                return None
            if indices.setdefault(access.name, access.indices) != access.indices:
                return None
            if self._stride(access, row) in (0, 1) or access.name in found:
                continue
            copied = self._copied(access, row)
            if copied is None:
                return None
            found[access.name] = copied
        return found

    def _copied(self, access: Access, row: str) -> _Turned | None:
        """An operand as a copy; None where its indices are more than axes, or it is too large."""
        axes = [index for index in access.indices if isinstance(index, str)]
        strides = [stride for stride in self._strides[access.name] if isinstance(stride, int)]
        extents = [self._typed.extents[axis] for axis in axes]
        plain = len(set(axes)) == len(strides) == len(access.indices) and row in axes
        if not plain or math.prod(extents) > _MOST_TURNED:
            return None
        return _Turned(self._places[access.name], strides, extents, axes.index(row))

    def _stride(self, access: Access, axis: str) -> int | None:
        """Elements between neighbours along ``axis``, or None where that is not known."""
        pairs = zip(access.indices, self._strides[access.name], strict=True)
        along = [(step, stride) for index, stride in pairs for name, step in index_terms(index) if name == axis]
        known = [step * stride for step, stride in along if isinstance(step, int) and isinstance(stride, int)]
        return sum(known) if len(known) == len(along) else None

    def _around(self, axes: Sequence[str], body: _Body, point: _Point) -> tirx.Stmt:
        """Loops over ``axes``, the last innermost, around what ``body`` is at their variables."""
        if not axes:
            return body(point)
        axis, extent = axes[0], self._typed.extents[axes[0]]
        lanes = _lanes(extent) if axis in self._written[-1:] and self.rows_are_dense() else 1
        steps, lane = tirx.Var(axis, self._index_type), tirx.Var(f"{axis}_lane", self._index_type)
        place = steps if lanes == 1 else lane if lanes == extent else steps * lanes + lane
        statement = self._around(axes[1:], body, {**point, axis: place})
        if lanes > 1:
            statement = self._loop(lane, lanes, tirx.ForKind.VECTORIZED, statement)
        return statement if 1 < lanes == extent else self._loop(steps, extent // lanes, tirx.ForKind.SERIAL, statement)

    def _loop(self, variable: tirx.Var, extent: int, kind: tirx.ForKind, body: tirx.Stmt) -> tirx.Stmt:
        zero, count = tirx.const(0, self._index_type), tirx.const(extent, self._index_type)
        return tirx.For(variable, zero, count, kind, body)

    def _zero(self) -> tirx.Expr:
        return tirx.const(0, held_as(self._typed.dtype))

    def _index(self, access: Access, point: _Point) -> tirx.Expr:
        index = self._places[access.name].base
        for axis, stride in zip(access.indices, self._strides[access.name], strict=True):
            index = index + self._along(axis, point) * stride
        return index

    def _along(self, index: Index, point: _Point) -> tirx.Expr | int:
        """Where an index is; the steps of axes are numbers or scalars."""
        if isinstance(index, int):
            return index
        found: tirx.Expr | int = index.offset if isinstance(index, AffineIndex) else 0
        for axis, step in index_terms(index):
            by = tirx.Cast(self._index_type, self._scalars[step]) if isinstance(step, str) else step
            found = found + point[axis] * by
        return found

    def _load(self, access: Access, point: _Point) -> tirx.Expr:
        return tirx.BufferLoad(self._places[access.name].buffer, [self._index(access, point)])

    def _store(self, value: tirx.Expr, point: _Point) -> tirx.Stmt:
        return tirx.BufferStore(self._places[self._target.name].buffer, value, [self._index(self._target, point)])

    def _value(self, point: _Point) -> tirx.Expr:
        return self._of(self._typed.value, point)

    def _added(self, total: tirx.Expr, point: _Point) -> tirx.Expr:
        combiner = self._typed.statement.combiner or "+"
        return combine(combiner, self._typed.dtype, total, self._typed.value, self._value(point))

    def _of(self, node: TypedExpression, point: _Point) -> tirx.Expr:
        match node.expression:
            case Literal(value):
                return literal(node.dtype, value)
            case Scalar(name):
                return convert(self._scalars[name], self._typed.scalars[name], node.dtype)
            case Access() as access:
                return self._load(access, point)
            case Lookup(Access() as table, _):
                step = self._strides[table.name][-1]
                x = tirx.Cast(self._index_type, self._of(node.children[1], point))
                index = self._index(table, point) + x * step
                return tirx.BufferLoad(self._places[table.name].buffer, [index])
            case Lookup(str() as table, _):
                x = self._of(node.children[0], point)
                return lookup(self._typed.tables[table], self._tables[table], x, self._index_type)
        return operation(node, [self._of(child, point) for child in node.children])


def _lanes(extent: int) -> int:
    """How many elements of a dense row to compute at once; 1 for a plain loop."""
    common = math.gcd(extent, _MOST_LANES)
    return extent if extent <= _MOST_LANES else common if common >= _FEWEST_LANES else 1
