"""A nest that stores the largest values of windows becomes stores that take them from an image on the chip.

What it stores is ``max(f(image[place]), f(image[place + step]), ...)``, the same of each element of a window: the
places say how large the window is and how wide the image, and the loops how far windows lie apart.
"""

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy, WindowAxis
from accel.accelerator.memories import Memory
from accel.accelerator.semantics import Semantics, scalar_field
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.lowering.inject.operation_matching import OperationMatch, matching_operations
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import AffineAccess, AffineNest, constant_value, simplify
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.tir_walk import loads_of


@dataclass(frozen=True)
class _Axis:
    """A loop over windows: its extent, and its steps on the chip and in DRAM, elements."""

    variable: tirx.Var
    extent: int
    sram: int
    dram: int


@dataclass(frozen=True)
class _Window:
    """The elements of a window, rows by columns, and elements from one of its rows to the next."""

    rows: int
    columns: int
    pitch: int


def inject_windows(nest: AffineNest, known: list[Semantics], target: Target) -> tirx.Stmt:
    """The store for ``nest``, inside the loops that are neither rows nor columns of windows.

    Raises:
        CompileError: no such store, or a shape that its fields cannot say.
    """
    values, misfits = _values(nest.store.value), list[str]()
    for choice in matching_operations(_with_value(nest.store, values[0]), known, target, misfits):
        try:
            return _made(nest, values, choice, target)
        except CompileError as error:
            misfits.append(error.detail)
    why = misfits[0] if misfits else "it makes something else of an element"
    raise CompileError(f"no instruction stores the largest of windows to {nest.store.buffer.name}: {why}", INSTRUCTIONS)


def _with_value(store: tirx.BufferStore, value: tirx.Expr) -> tirx.BufferStore:
    return tirx.BufferStore(store.buffer, value, store.indices)


def _values(value: tirx.Expr) -> list[tirx.Expr]:
    """What the largest is taken of; a maximum with a constant is part of what is made of an element."""
    if isinstance(value, tirx.Max) and all(next(iter(loads_of(each)), None) is not None for each in (value.a, value.b)):
        return _values(value.a) + _values(value.b)
    return [value]


def _made(nest: AffineNest, values: list[tirx.Expr], choice: OperationMatch, target: Target) -> tirx.Stmt:
    copy, accelerator = choice.meaning.instruction, target.accelerator
    assert isinstance(copy, Copy)
    memory = accelerator.memory(copy.memory)
    source = choice.operands["sram"].source
    reads = [_read(nest, value, source) for value in values]
    alike = all(
        any(
            other.operands["sram"].source == source and _same(choice, other)
            for other in matching_operations(_with_value(nest.store, value), [choice.meaning], target)
        )
        for value in values[1:]
    )
    if not alike or len({read.strides for read in reads}) > 1:
        raise CompileError("the elements of a window are not treated alike", field=INSTRUCTIONS)
    size = memory.element_count
    first = min(reads, key=lambda read: _distance(read, reads[0]))
    window = _window([_distance(read, first) for read in reads], size)
    axes = _axes(nest, first, nest.target, memory)
    fields: dict[str, Any] = {
        scalar_field(accelerator, copy, name): value for name, value in choice.scalars.items()
    } | {name: tirx.const(value, "int32") for name, value in choice.meaning.operation.when.items()}
    return _Windows(copy, memory, accelerator, window).statement(first, nest.target, axes, fields)


def _same(one: OperationMatch, other: OperationMatch) -> bool:
    """Whether both have the same numbers in fields."""
    return one.scalars.keys() == other.scalars.keys() and all(
        str(value) == str(other.scalars[name]) for name, value in one.scalars.items()
    )


def _read(nest: AffineNest, value: tirx.Expr, source: tirx.Var) -> AffineAccess:
    loads = list(loads_of(value))
    if len(loads) != 1 or loads[0].source != source:
        raise CompileError("an element of a window is made of several", field=INSTRUCTIONS)
    return nest.access(loads[0].source, loads[0].indices)


def _distance(read: AffineAccess, first: AffineAccess) -> int:
    distance = constant_value(simplify(read.base - first.base))
    if distance is None:
        raise CompileError("the elements of a window do not lie at fixed places", field=INSTRUCTIONS)
    return distance


def _window(distances: list[int], size: int) -> _Window:
    """The window whose elements lie so far, in scalars, behind its first one."""
    places = sorted(distance // size for distance in distances)
    columns = 1
    while columns < len(places) and places[columns] == columns:
        columns += 1
    pitch = places[columns] if columns < len(places) else 0
    rows = len(places) // columns
    whole = [row * pitch + column for row in range(rows) for column in range(columns)]
    if places != whole or any(distance % size for distance in distances):
        raise CompileError("the elements of a window make no rectangle", field=INSTRUCTIONS)
    return _Window(rows, columns, pitch)


def _axes(nest: AffineNest, sram: AffineAccess, dram: AffineAccess, memory: Memory) -> list[_Axis]:
    """The loops but for those within an element, which come last."""
    size, dense = memory.element_count, 1
    axes = sorted(zip(nest.variables, nest.extents, sram.strides, dram.strides, strict=True), key=lambda axis: -axis[2])
    while dense < size:
        if not axes or axes[-1][2] != dense or axes[-1][3] != dense:
            raise CompileError(f"the innermost loops do not walk one element of {memory.name}", field=INSTRUCTIONS)
        dense *= axes.pop()[1]
    if dense != size or any(s % size or d % size for _, _, s, d in axes):
        raise CompileError(f"the windows are not made of whole elements of {memory.name}", field=INSTRUCTIONS)
    return [_Axis(variable, extent, s // size, d // size) for variable, extent, s, d in axes]


class _Windows:
    """A store of windows, and the fields that it has."""

    def __init__(self, copy: Copy, memory: Memory, accelerator: Accelerator, window: _Window) -> None:
        assert copy.windows is not None
        self.copy, self.accelerator, self.window = copy, accelerator, window
        self.fields = copy.windows
        self.size = memory.element_count
        self.unit = copy.dram_bytes(memory) if copy.dram_unit == "byte" else 1
        self.values: dict[str, int] = {}

    def statement(self, sram: AffineAccess, dram: AffineAccess, axes: list[_Axis], fields: dict[str, Any]) -> tirx.Stmt:
        """The call, inside the loops that are left."""
        columns, rows, left = self._directions(axes)
        width = self.window.pitch or (rows.sram if rows else _reach(columns, self.window.columns, 1))
        across, down = self._strides(columns, rows, max(width, 1))
        self._direction(self.fields.columns, columns, self.window.columns, across)
        self._direction(self.fields.rows, rows, self.window.rows, down)
        self._set(self.fields.columns.extent, width)
        self._set(self.fields.rows.extent, _reach(rows, self.window.rows, max(width, 1)))
        stride = columns.dram if columns else rows.dram if rows else 1
        apart = rows.dram if rows else stride
        if apart % stride:
            raise CompileError("a row of windows is no whole number of strides in DRAM", field=INSTRUCTIONS)
        self._set(self.fields.pitch, apart // stride)
        assert self.copy.copy_fields.row_stride is not None
        self._set(self.copy.copy_fields.row_stride, stride * self.unit)
        sram_base, dram_base = _whole(sram.base, self.size), _whole(dram.base, self.size)
        for axis in left:
            sram_base = sram_base + axis.variable * axis.sram
            dram_base = dram_base + axis.variable * axis.dram
        operands = {
            instruction_calls.operand("sram"): sram.buffer.data,
            instruction_calls.index("sram"): simplify(sram_base),
            instruction_calls.operand("dram"): dram.buffer.data,
            instruction_calls.index("dram"): simplify(dram_base),
        }
        said = {name: tirx.const(value, "int32") for name, value in self.values.items()}
        statement = instruction_calls.call(self.copy.name, operands | said | fields)
        for axis in reversed(left):
            zero, extent = tirx.const(0, "int32"), tirx.const(axis.extent, "int32")
            statement = tirx.For(axis.variable, zero, extent, tirx.ForKind.SERIAL, statement)
        return statement

    def _directions(self, axes: list[_Axis]) -> tuple[_Axis | None, _Axis | None, list[_Axis]]:
        """The loops over columns and over rows of windows, and the others."""
        left, pitch = list(axes), self.window.pitch
        rows = next((axis for axis in reversed(axes) if pitch and axis.sram and axis.sram % pitch == 0), None)
        if rows is not None:
            left.remove(rows)
        most = self._most(self.fields.columns.stride)
        columns = next((axis for axis in reversed(left) if 0 < axis.sram <= most and axis.dram), None)
        if columns is not None:
            left.remove(columns)
        if rows is None and not pitch:  # windows of one row: the next loop says how wide the image is
            rows = next((axis for axis in reversed(left) if axis.sram and axis.dram), None)
            if rows is not None:
                left.remove(rows)
        return columns, rows, left

    def _strides(self, columns: _Axis | None, rows: _Axis | None, width: int) -> tuple[int, int]:
        """Elements from a window to that of the next column and row; a single one has the stride of the other way."""
        across, down = columns and columns.sram, rows and rows.sram // width
        return across or down or self.window.columns, down or across or self.window.rows

    def _direction(self, fields: WindowAxis, axis: _Axis | None, size: int, stride: int) -> None:
        """The fields of one direction but for the extent of the image."""
        self._set(fields.size, size)
        self._set(fields.stride, stride)
        self._set(fields.count, 1 if axis is None else axis.extent)
        if fields.before is not None:
            self._set(fields.before, 0)

    def _most(self, name: str) -> int:
        return (1 << self.accelerator.bits(self.copy, name)) - 1

    def _set(self, name: str, value: int) -> None:
        if self.values.setdefault(name, value) != value:
            raise CompileError(
                f"{name} would be {self.values[name]} and {value}: windows must be square", field=INSTRUCTIONS
            )
        if value > self._most(name):
            raise CompileError(f"{name} is {value}, and holds {self._most(name)} at most", field=INSTRUCTIONS)


def _reach(axis: _Axis | None, size: int, pitch: int) -> int:
    """Elements of the image that windows of ``size`` reach."""
    return size if axis is None else (axis.extent - 1) * (axis.sram // pitch) + size


def _whole(base: tirx.Expr, size: int) -> tirx.Expr:
    return simplify(tirx.floordiv(base, size))
