"""Arrays of kernels: their parts, their elements, and room for new ones."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from llvmlite import ir

from accel.isa.kernels.kernel_types import Array
from accel.isa.native import arithmetic as on
from accel.isa.native.values import BIT, INTEGER, POINTER, Value, element_of, integer


class Calls(Protocol):
    """What translates the functions that a function calls, and the routines of C."""

    def call(self, builder: on.Builder, function: Any, arguments: Sequence[Value]) -> Value | None:
        """Call another kernel; returns its result, None where ``function`` is no kernel."""

    def routine(self, name: str, returns: ir.Type, *takes: ir.Type) -> ir.Function:
        """Returns a function of C's library, or of LLVM's own."""

    def dummy(self) -> ir.Value:
        """Returns the address of eight bytes that nothing needs."""

    def note_fault(self, builder: on.Builder, wrong: ir.Value, line: int) -> None:
        """Keep ``line`` if ``wrong``."""


class Arrays:
    """Translates what a function does with arrays.

    Attributes:
        builder: where LLVM's instructions are put.
        checked: whether indices are compared with the arrays' extents.
        rooms: where the function keeps the addresses of the arrays that it has allocated.
    """

    def __init__(self, calls: Calls, builder: on.Builder, *, checked: bool) -> None:
        self.calls, self.builder, self.checked = calls, builder, checked
        self.rooms: list[ir.Value] = []

    def slot(self, kind: ir.Type) -> ir.Value:
        """Returns room for a value, which the function has from its beginning."""
        with self.builder.goto_block(self.builder.function.entry_basic_block):
            return self.builder.alloca(kind)

    def part(self, array: Value, numbers: Sequence[Value], line: int) -> Value:
        """Returns what lies at an array's first indices: of rank 0, an element, where there are as many as extents."""
        assert isinstance(array.type, Array)
        builder, (pointer, *extents) = self.builder, array.leaves
        place = numbers[0].scalar
        for number, extent in zip(numbers[1:], extents[1:], strict=False):
            place = builder.add(builder.mul(place, extent), number.scalar)
        for extent in extents[len(numbers) :]:
            place = builder.mul(place, extent)
        element = element_of(array.type.element)
        found = builder.gep(pointer, [place], source_etype=element.memory)
        rest = array.type.rank - len(numbers)
        if self.checked:
            found = self._inside(found, [each.scalar for each in numbers], extents, line, is_element=rest == 0)
        return Value(Array(array.type.element, rest), (found, *extents[len(numbers) :]))

    def _inside(
        self,
        pointer: ir.Value,
        numbers: Sequence[ir.Value],
        extents: Sequence[ir.Value],
        line: int,
        *,
        is_element: bool,
    ) -> ir.Value:
        wrong = ir.Constant(BIT, 0)
        for number, extent in zip(numbers, extents, strict=False):
            wrong = self.builder.or_(wrong, self.builder.icmp_unsigned(">=", number, extent))
        self.calls.note_fault(self.builder, wrong, line)
        # the first decides of which type llvmlite takes it to be
        return self.builder.select(self.builder.not_(wrong), pointer, self.calls.dummy()) if is_element else pointer

    def within(self, begin: Value, end: Value, extent: ir.Value, line: int) -> tuple[Value, Value]:
        """Returns the limits of a slice of an array, nothing of it where they lie outside."""
        compare = self.builder.icmp_unsigned
        wrong = self.builder.or_(compare(">", end.scalar, extent), compare(">", begin.scalar, end.scalar))
        self.calls.note_fault(self.builder, wrong, line)
        zero = integer(0).scalar
        low, high = (self.builder.select(wrong, zero, each.scalar) for each in (begin, end))
        return Value("int64", (low,)), Value("int64", (high,))

    def loaded(self, view: Value) -> Value:
        """Returns the element that an array of rank 0 is; an array of a higher rank as it is."""
        assert isinstance(view.type, Array)
        return view if view.type.rank else on.loaded(self.builder, view.leaves[0], element_of(view.type.element))

    def fill(self, array: Value, value: Value) -> None:
        """Write a number to all elements of an array, or another array's elements."""
        assert isinstance(array.type, Array)
        builder, (pointer, *extents) = self.builder, array.leaves
        element = element_of(array.type.element)
        with self._counting(self._count(extents)) as index:
            target = builder.gep(pointer, [index], source_etype=element.memory)
            if isinstance(value.type, Array):
                other = element_of(value.type.element)
                found = on.loaded(builder, builder.gep(value.leaves[0], [index], source_etype=other.memory), other)
                on.store(builder, found, target, element)
            else:
                on.store(builder, value, target, element)

    @contextlib.contextmanager
    def _counting(self, end: ir.Value) -> Iterator[ir.Value]:
        """Repeat what is translated meanwhile for each number below ``end``."""
        builder = self.builder
        counter = self.slot(INTEGER)
        builder.store(integer(0).scalar, counter)
        test, body, done = (builder.append_basic_block(name) for name in ("test", "body", "done"))
        builder.branch(test)
        builder.position_at_end(test)
        index = builder.load(counter, typ=INTEGER)
        builder.cbranch(builder.icmp_signed("<", index, end), body, done)
        builder.position_at_end(body)
        yield index
        builder.store(builder.add(index, integer(1).scalar), counter)
        builder.branch(test)
        builder.position_at_end(done)

    def allocated(self, kind: str, extents: Sequence[Value]) -> Value:
        """Allocates an array of zeros, which lives until the function returns, or comes here again."""
        builder, element = self.builder, element_of(kind)
        room = self.slot(POINTER)
        with builder.goto_block(builder.function.entry_basic_block):
            builder.store(ir.Constant(POINTER, None), room)
        self.rooms.append(room)
        self.free(room)
        count, one = self._count([each.scalar for each in extents]), integer(element.nbytes).scalar
        taken = builder.call(self.calls.routine("calloc", POINTER, INTEGER, INTEGER), [count, one])
        builder.store(taken, room)
        return Value(Array(kind, len(extents)), (taken, *(each.scalar for each in extents)))

    def free(self, room: ir.Value) -> None:
        """Free the array of a room, if it has one."""
        routine = self.calls.routine("free", ir.VoidType(), POINTER)
        self.builder.call(routine, [self.builder.load(room, typ=POINTER)])

    def _count(self, extents: Sequence[ir.Value]) -> ir.Value:
        count = integer(1).scalar
        for each in extents:
            count = self.builder.mul(count, each)
        return count
