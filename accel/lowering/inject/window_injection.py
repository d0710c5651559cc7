"""A nest that stores the largest values of windows becomes stores that take them from an image on the chip.

What it stores is ``max(f(image[place]), f(image[place + step]), ...)``, the same of each element of a window: the
places say how large the window is and how wide the image, and the loops how far windows lie apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.accelerator.memories import Memory
from accel.accelerator.semantics import Semantics, scalar_field
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.lowering.inject.copy_injection import copy_call
from accel.lowering.inject.operation_matching import OperationMatch, matching_operations
from accel.lowering.ir.affine_nest import AffineAccess, AffineNest, constant_value, in_loops, simplify
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
    to = f"no instruction stores the largest of windows to {nest.store.buffer.name}"
    raise CompileError(f"{to}: {why}", field=INSTRUCTIONS)


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
    first = min(reads, key=lambda read: _distance(read, reads[0]))
    axes = _axes(nest, first, nest.target, memory)
    fields: dict[str, Any] = {
        scalar_field(accelerator, copy, name): value for name, value in choice.scalars.items()
    } | {name: tirx.const(value, "int32") for name, value in choice.meaning.operation.when.items()}
    why = "the elements of a window make no rectangle"
    windows = list(_windows([_distance(read, first) for read in reads], memory.element_count))
    for way in sorted((way for window in windows for way in _ways(window, axes)), key=lambda way: -way.windows):
        try:
            return _Storing(copy, memory, accelerator, way).statement(first, nest.target, axes, fields)
        except CompileError as error:
            why = error.detail
    raise CompileError(why, field=INSTRUCTIONS)


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


def _windows(distances: list[int], size: int) -> Iterator[_Window]:
    """The windows whose elements lie so far, in scalars, behind the first one.

    Of an image no wider than the window all lie side by side, in as many rows as one likes.
    """
    places = sorted(distance // size for distance in distances)
    if any(distance % size for distance in distances):
        return
    for columns in range(len(places), 0, -1):
        rows, pitch = len(places) // columns, places[columns] if columns < len(places) else 0
        if places == [row * pitch + column for row in range(rows) for column in range(columns)]:
            yield _Window(rows, columns, pitch)


@dataclass(frozen=True)
class _Way:
    """A way to see a nest as rows and columns of windows, None of one, on an image so many elements wide.

    ``strides`` are elements of the image from one window to the next, down and across.
    """

    window: _Window
    rows: _Axis | None
    columns: _Axis | None
    width: int
    strides: tuple[int, int]

    @property
    def counts(self) -> tuple[int, int]:
        """Rows and columns of windows."""
        rows, columns = (1 if axis is None else axis.extent for axis in (self.rows, self.columns))
        return rows, columns

    @property
    def windows(self) -> int:
        """All windows of a store."""
        return self.counts[0] * self.counts[1]

    @property
    def height(self) -> int:
        """Rows of the image."""
        return (self.counts[0] - 1) * self.strides[0] + self.window.rows


def _ways(window: _Window, axes: list[_Axis]) -> Iterator[_Way]:
    """The ways in which windows lie in an image, each within it."""
    able = [axis for axis in axes if axis.sram and axis.dram]
    for columns in (*able, None):
        across = columns.sram if columns else 0
        reach = window.columns + (columns.extent - 1) * across if columns else window.columns
        for rows in (*able, None):
            if rows is not None and rows is columns:
                continue
            # windows of one row do not say how wide the image is: as wide as makes both strides the same
            width = window.pitch or (reach if rows is None else rows.sram // (across or rows.sram))
            if width < reach or (rows is not None and rows.sram % width):
                continue
            down = rows.sram // width if rows else 0
            yield _Way(window, rows, columns, width, (down or across or window.rows, across or down or window.columns))


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


class _Storing:
    """A store of windows, and the fields that it has."""

    def __init__(self, copy: Copy, memory: Memory, accelerator: Accelerator, way: _Way) -> None:
        assert copy.windows is not None
        self.copy, self.accelerator, self.way = copy, accelerator, way
        self.fields = copy.windows
        self.size, self.steps = memory.element_count, copy.dram_steps(memory)
        self.unit = copy.element_stride(memory)
        self.values: dict[str, int] = {}

    def statement(self, sram: AffineAccess, dram: AffineAccess, axes: list[_Axis], fields: dict[str, Any]) -> tirx.Stmt:
        """The call, inside the loops that are left.

        Raises:
            CompileError: a number that no field holds.
        """
        self._set_fields()
        left = [axis for axis in axes if axis is not self.way.rows and axis is not self.way.columns]
        sram_base, dram_base = (access.first_element(self.size) for access in (sram, dram))
        for axis in left:
            sram_base = sram_base + axis.variable * axis.sram
            dram_base = dram_base + axis.variable * axis.dram
        said = {name: tirx.const(value, "int32") for name, value in self.values.items()}
        statement = copy_call(
            self.copy, {"sram": (sram, sram_base), "dram": (dram, dram_base * self.steps)}, said | fields
        )
        return in_loops([axis.variable for axis in left], [axis.extent for axis in left], statement)

    def _set_fields(self) -> None:
        way, window, stride_field = self.way, self.way.window, self.copy.copy_fields.row_stride
        assert stride_field is not None
        for fields, size, stride, count, extent in (
            (self.fields.rows, window.rows, way.strides[0], way.counts[0], way.height),
            (self.fields.columns, window.columns, way.strides[1], way.counts[1], way.width),
        ):
            numbers = {"size": size, "stride": stride, "count": count, "extent": extent, "before": 0}
            for role, name in fields.fields.items():
                self._set(name, numbers[role])
        stride = way.columns.dram if way.columns else way.rows.dram if way.rows else 1
        apart = way.rows.dram if way.rows else stride
        if apart % stride:
            raise CompileError("a row of windows is no whole number of strides in DRAM", field=INSTRUCTIONS)
        self._set(self.fields.pitch, apart // stride)
        self._set(stride_field, stride * self.unit)

    def _set(self, name: str, value: int) -> None:
        most = (1 << self.accelerator.bits(self.copy, name)) - 1
        if self.values.setdefault(name, value) != value:
            both = f"{name} would be {self.values[name]} and {value}"
            raise CompileError(f"{both}: windows must be square", field=INSTRUCTIONS)
        if value > most:
            raise CompileError(f"{name} is {value}, and holds {most} at most", field=INSTRUCTIONS)
