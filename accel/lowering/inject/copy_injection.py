"""A nest that moves a tensor between DRAM and a scratchpad becomes two-dimensional copy instructions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir, tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.accelerator.memories import Memory
from accel.accelerator.semantics import Semantics, scalar_field
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.lowering.inject.operation_matching import OperationMatch, matching_operations, nearest_mismatch
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import AffineAccess, AffineNest, constant_value, in_loops, simplify
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.tir_walk import scope_of

_ZERO = tirx.const(0, "int32")


@dataclass(frozen=True)
class _Axis:
    """One loop of the copy: extent, and padding before and after, in elements; steps on the chip, and in DRAM.

    Steps in DRAM are what the instruction may begin at there: elements, or numbers.
    """

    variable: tirx.Var
    extent: Any  # an int but for the rows of a piece
    sram: int
    dram: int
    before: tirx.Expr | None = None
    after: tirx.Expr | None = None
    moves: tuple[int, ...] = ()  # steps of the operands that a store reads beside, elements

    @property
    def stays_outside(self) -> bool:
        """Whether an operand beside moves, which one instruction has at one place."""
        return any(self.moves)

    @property
    def padded(self) -> bool:
        return self.before is not None or self.after is not None


def inject_copy(nest: AffineNest, known: list[Semantics], target: Target) -> tirx.Stmt:
    """The copy instruction for ``nest``, inside the loops that one instruction has no dimension for.

    The nest stores one buffer from another with equal element order; a guard that yields zero outside bounds
    becomes padding.

    Raises:
        CompileError: no such copy in the accelerator, or a shape that its fields cannot say.
    """
    guard, store = _unguarded(nest.store)
    misfits: list[str] = []
    for choice in matching_operations(store, known, target, misfits):
        try:
            return _made(nest, guard, choice, target.accelerator)
        except CompileError as error:
            misfits.append(error.detail)
    why = misfits[0] if misfits else nearest_mismatch(store, known, target)
    raise CompileError(
        f"no instruction copies {store.value} to {store.buffer.name} in {scope_of(store.buffer)}: {why}",
        field=INSTRUCTIONS,
    )


def _made(nest: AffineNest, guard: tirx.Expr | None, choice: OperationMatch, accelerator: Accelerator) -> tirx.Stmt:
    copy = choice.meaning.instruction
    assert isinstance(copy, Copy)
    memory = accelerator.memory(copy.memory)
    load = choice.operands["dram" if copy.direction == "load" else "sram"]
    target, source = nest.target, nest.access(load.source, load.indices)
    sram, dram = (target, source) if copy.direction == "load" else (source, target)
    beside = _beside(nest, choice, copy, accelerator)
    grain = memory.element_count // copy.dram_steps(memory)
    axes = _with_padding(_element_axes(nest, guard, sram, dram, memory, grain, beside), nest, guard)
    fields: dict[str, Any] = {
        scalar_field(accelerator, copy, name): value for name, value in choice.scalars.items()
    } | {name: tirx.const(value, "int32") for name, value in choice.meaning.operation.when.items()}
    return _Copying(copy, memory, accelerator).statement(sram, dram, axes, fields, beside)


@dataclass(frozen=True)
class _Beside:
    """What a store reads beside: its access, the scalars of an element, and how it walks the axes of an element.

    ``inner`` are the extent and the step of each axis of the store's target, the last one first.
    """

    name: str
    access: AffineAccess
    size: int
    inner: tuple[tuple[int, int], ...]


def _beside(nest: AffineNest, choice: OperationMatch, copy: Copy, accelerator: Accelerator) -> list[_Beside]:
    typed, found = choice.meaning.typed, []
    for name in (each for each in copy.operands if each in choice.operands):
        load = choice.operands[name]
        read = next(access for access in typed.statement.accesses if access.name == name)
        steps = dict(zip(read.indices, typed.tensors[name].strides(), strict=True))
        axes = zip(typed.statement.target.indices, typed.tensors["dram"].shape, strict=True)
        inner = tuple((extent, steps.get(axis, 0)) for axis, extent in reversed(list(axes)) if extent > 1)
        size = accelerator.memory(copy.operands[name].memory).element_count
        found.append(_Beside(name, nest.access(load.source, load.indices), size, inner))
    return found


def _unguarded(store: tirx.BufferStore) -> tuple[tirx.Expr | None, tirx.BufferStore]:
    """The condition of ``if_then_else(condition, value, 0)``, if there is one, and the store of the value."""
    value = store.value
    if isinstance(value, ir.Call) and value.op.name == "prim.if_then_else" and constant_value(value.args[2]) == 0:
        return value.args[0], tirx.BufferStore(store.buffer, value.args[1], store.indices)
    return None, store


def _element_axes(
    nest: AffineNest,
    guard: tirx.Expr | None,
    sram: AffineAccess,
    dram: AffineAccess,
    memory: Memory,
    grain: int,
    beside: list[_Beside],
) -> list[_Axis]:
    """Strip the inner loops that make up one element of the memory; the rest counts in elements, ``grain`` in DRAM."""
    size, dense = memory.element_count, 1
    others = [tuple(each.access.strides[at] for each in beside) for at in range(len(nest.variables))]
    axes = list(zip(nest.variables, nest.extents, sram.strides, dram.strides, others, strict=True))
    inner = [list(each.inner) for each in beside]
    if guard is None:  # in whatever order the nest walks them; bounds count its loops
        axes.sort(key=lambda axis: -axis[2])
    while dense < size:
        if not axes or axes[-1][2] != dense or axes[-1][3] != dense:
            raise CompileError(
                f"the innermost loops do not walk one element of {memory.name} ({size} scalars)", field=INSTRUCTIONS
            )
        _, extent, _, _, steps = axes.pop()
        dense *= extent
        for walked, step, each in zip(inner, steps, beside, strict=True):
            if extent > 1 and (not walked or walked.pop(0) != (extent, step)):
                raise CompileError(
                    f"an element of {each.name} is not walked as its expression does", field=INSTRUCTIONS
                )
    if dense != size or any(s % size or d % grain for _, _, s, d, _ in axes):
        raise CompileError(f"the tile is not made of whole elements of {memory.name}", field=INSTRUCTIONS)
    return [
        _Axis(variable, extent, s // size, d // grain, moves=_elements(steps, beside))
        for variable, extent, s, d, steps in axes
    ]


def _elements(steps: tuple[int, ...], beside: list[_Beside]) -> tuple[int, ...]:
    if any(step % each.size for step, each in zip(steps, beside, strict=True)):
        raise CompileError("what a store reads beside is not made of whole elements", field=INSTRUCTIONS)
    return tuple(step // each.size for step, each in zip(steps, beside, strict=True))


def _with_padding(axes: list[_Axis], nest: AffineNest, guard: tirx.Expr | None) -> list[_Axis]:
    """Turn each bound of the guard into padding of the loop that it limits."""
    for bound in bounds_of(guard):
        axes = _apply_bound(axes, nest, difference_of(bound), bound)
    return axes


def bounds_of(guard: tirx.Expr | None) -> list[tirx.Expr]:
    """Returns the bounds that a condition is made of."""
    if guard is None:
        return []
    if isinstance(guard, tirx.And):
        return bounds_of(guard.a) + bounds_of(guard.b)
    if isinstance(guard, tirx.EQ):  # what TVM makes of two bounds that leave one value
        return [guard.a <= guard.b, guard.a >= guard.b]
    return [guard]


def difference_of(bound: tirx.Expr) -> tirx.Expr:
    """Returns an expression that is >= 0 exactly where ``bound`` holds.

    Raises:
        CompileError: it is no bound.
    """
    if isinstance(bound, tirx.LE):
        return bound.b - bound.a
    if isinstance(bound, tirx.LT):
        return bound.b - bound.a - 1
    if isinstance(bound, tirx.GE):
        return bound.a - bound.b
    if isinstance(bound, tirx.GT):
        return bound.a - bound.b - 1
    raise CompileError(f"the guard {bound} is no bound on an index", field=INSTRUCTIONS)


def _apply_bound(axes: list[_Axis], nest: AffineNest, difference: tirx.Expr, bound: tirx.Expr) -> list[_Axis]:
    line = nest.line(difference)
    limited = [i for i, step in enumerate(line.strides) if step]
    # the loops inside one element come last, and no padding cuts through an element
    if len(limited) != 1 or limited[0] >= len(axes) or abs(line.strides[limited[0]]) != 1:
        raise CompileError(f"the guard {bound} does not limit exactly one loop of the copy", field=INSTRUCTIONS)
    index = limited[0]
    axis = axes[index]
    if line.strides[index] > 0:
        padding = {"before": tirx.max(_ZERO, -line.base)}
    else:
        padding = {"after": tirx.max(_ZERO, axis.extent - 1 - line.base)}
    return [*axes[:index], _Axis(**{**vars(axis), **padding}), *axes[index + 1 :]]


class _Copying:
    """One copy instruction and the fields it has."""

    def __init__(self, copy: Copy, memory: Memory, accelerator: Accelerator) -> None:
        self.copy = copy
        self.memory = memory
        self.names = copy.copy_fields
        self.most_columns = self._most(self.names.columns, None, accelerator)
        self.most_rows = self._most(self.names.rows, copy.max_rows, accelerator)
        self.steps, self.unit = copy.dram_steps(memory), copy.step_bytes()
        name = self.names.row_stride
        self.most_stride = ((1 << accelerator.bits(copy, name)) - 1) // self.unit if name is not None else 0
        self.most = [
            (
                self._most(each.extent, each.limit, accelerator),
                self._most(each.dram_stride, None, accelerator) // self.unit,
                0 if each.sram_stride is None else self._most(each.sram_stride, None, accelerator),
            )
            for each in copy.dimensions
        ]
        blocks = copy.blocks
        self.most_apart = 0
        if blocks is not None:
            stride = blocks.stride
            self.most_apart = (1 << accelerator.bits(copy, stride)) - 1 if stride else blocks.apart or 0

    def _most(self, name: str | None, limit: int | None, accelerator: Accelerator) -> int:
        if name is None:
            return 1
        most = (1 << accelerator.bits(self.copy, name)) - 1
        return most if limit is None else min(most, limit)

    def statement(
        self,
        sram: AffineAccess,
        dram: AffineAccess,
        axes: list[_Axis],
        fields: dict[str, Any],
        beside: list[_Beside],
    ) -> tirx.Stmt:
        """The call, inside loops over the dimensions that it has not."""
        axes = self._coalesced(axes)
        columns = self._columns(axes)
        pitch = columns.extent if columns else 1
        rows = self._rows(axes, pitch)
        if any(axis.padded for axis in axes):
            raise CompileError(f"{self.copy.name} cannot pad a dimension that it has not", field=INSTRUCTIONS)
        blocks = self._blocks(axes)
        if blocks is not None and self.copy.blocks is not None and blocks.extent > self.copy.blocks.most:
            blocks, piece = _pieces(blocks, self.copy.blocks.most)
            axes = [*axes, piece]
        if rows is not None and rows.extent > self.most_rows:
            rows, piece = _pieces(rows, self.most_rows)
            axes = [*axes, piece]
        axes, further = self._dimensions(axes, pitch * _extent(rows), cut=_extent(rows) == 0)
        size = self.memory.element_count
        sram_base, dram_base = sram.first_element(size), dram.first_element(size // self.steps)
        for axis in axes:
            sram_base = sram_base + axis.variable * axis.sram
            dram_base = dram_base + axis.variable * axis.dram
        for inner in (rows, columns):
            if inner is not None and inner.before is not None:
                dram_base = dram_base + inner.before * inner.dram
        places = {"sram": (sram, sram_base), "dram": (dram, dram_base)}
        for number, each in enumerate(beside):
            place = each.access.first_element(each.size)
            for axis in axes:
                place = place + axis.variable * axis.moves[number]
            places[each.name] = each.access, place
        sizes = self._sizes(rows, columns) | self._of_dimensions(further) | self._of_blocks(blocks)
        statement = copy_call(self.copy, places, sizes | fields)
        extents = [int(axis.extent) for axis in axes]
        return in_loops([axis.variable for axis in axes], extents, statement)

    def _coalesced(self, axes: list[_Axis]) -> list[_Axis]:
        """Merge neighbouring loops that both sides walk as one, as far as the fields can count."""
        limit = None if self.names.columns is None else min(self.most_columns, self.most_rows)
        merged: list[_Axis] = []
        for axis in axes:
            outer = merged[-1] if merged else None
            if (
                outer
                and not (outer.padded or axis.padded or outer.stays_outside or axis.stays_outside)
                and outer.sram == axis.sram * axis.extent
                and outer.dram == axis.dram * axis.extent
                and (limit is None or outer.extent * axis.extent <= limit)
            ):
                merged[-1] = replace(axis, extent=outer.extent * axis.extent)
            else:
                merged.append(axis)
        return merged

    def _columns(self, axes: list[_Axis]) -> _Axis | None:
        """Take the loop that walks along rows, if the last one does."""
        if self.names.columns is None or not axes or axes[-1].extent > self.most_columns:
            return None
        last = axes[-1]
        if last.stays_outside:
            return None
        return axes.pop() if last.sram == 1 and (last.dram == self.steps or _is_single(last)) else None

    def _rows(self, axes: list[_Axis], pitch: int) -> _Axis | None:
        """Take the loop that walks from row to row, if the last one does."""
        if self.names.rows is None or not axes or axes[-1].sram != pitch or axes[-1].dram > self.most_stride:
            return None
        if axes[-1].stays_outside:
            return None
        return axes.pop() if axes[-1].extent <= self.most_rows or not axes[-1].padded else None

    def _dimensions(self, axes: list[_Axis], inside: int, *, cut: bool) -> tuple[list[_Axis], list[_Axis | None]]:
        """Take loops for the further dimensions: of those that may be taken the longest. What is left stays outside.

        Args:
            axes: the loops that are neither rows nor columns.
            inside: elements on the chip of the rectangle that is moved at every point of them.
            cut: the last of the loops is over pieces of which one is shorter.

        Returns what is left, and the loop of each dimension, None where it is once.
        """
        left, found = list(axes), list[_Axis | None]()
        for dimension, (most, dram, sram) in zip(reversed(self.copy.dimensions), reversed(self.most), strict=True):
            dense = dimension.sram_stride is None
            able = [
                axis
                for axis in (left[:-1] if cut else left)
                if not axis.stays_outside
                and 1 < axis.extent <= most
                and 0 <= axis.dram <= dram
                and (axis.sram == inside if dense else 0 <= axis.sram <= sram)
            ]
            taken = max(able, key=lambda axis: axis.extent, default=None)
            found.insert(0, taken)
            if taken is not None:
                left.remove(taken)
                inside *= taken.extent
        return left, found

    def _of_dimensions(self, further: list[_Axis | None]) -> dict[str, tirx.Expr]:
        """The fields of the further dimensions."""
        fields = {}
        for dimension, axis in zip(self.copy.dimensions, further, strict=True):
            fields[dimension.extent] = tirx.const(1 if axis is None else axis.extent, "int32")
            fields[dimension.dram_stride] = tirx.const(0 if axis is None else axis.dram * self.unit, "int32")
            if dimension.sram_stride is not None:
                fields[dimension.sram_stride] = tirx.const(0 if axis is None else axis.sram, "int32")
        return fields

    def _blocks(self, axes: list[_Axis]) -> _Axis | None:
        """Take the loop over elements that lie side by side in DRAM, if there is one."""
        for place, axis in enumerate(axes):
            if self.copy.blocks is None or axis.dram != self.steps or axis.padded or axis.stays_outside:
                continue
            if axis.sram <= self.most_apart and axis.sram >= (self.copy.blocks.apart or 0):
                return axes.pop(place)
        return None

    def _of_blocks(self, blocks: _Axis | None) -> dict[str, tirx.Expr]:
        """The fields of the blocks of each row."""
        if self.copy.blocks is None:
            return {}
        scalars = simplify(_size(blocks) * self.memory.element_count)
        apart = tirx.const(0 if blocks is None else blocks.sram, "int32")
        stride = self.copy.blocks.stride
        return {self.copy.blocks.scalars: scalars} | ({} if stride is None else {stride: apart})

    def _sizes(self, rows: _Axis | None, columns: _Axis | None) -> dict[str, Any]:
        """The fields of rows, columns, stride and padding that the instruction has."""
        names, fields = self.names, {}
        for name, axis in ((names.rows, rows), (names.columns, columns)):
            if name is not None:
                fields[name] = _size(axis)
        if names.row_stride is not None:
            fields[names.row_stride] = tirx.const((rows.dram if rows else self.steps) * self.unit, "int32")
        for inner, before, after in (
            (rows, names.pad_top, names.pad_bottom),
            (columns, names.pad_left, names.pad_right),
        ):
            if inner is not None and inner.padded and (before is None or after is None):
                raise CompileError(f"{self.copy.name} cannot pad", field=INSTRUCTIONS)
            if before is not None and after is not None:
                fields[before] = simplify(inner.before) if inner and inner.before is not None else _ZERO
                fields[after] = simplify(inner.after) if inner and inner.after is not None else _ZERO
        return fields


def _pieces(axis: _Axis, most: int) -> tuple[_Axis, _Axis]:
    """An axis beyond the instruction's most: that of one piece, and the loop over the pieces."""
    variable = tirx.Var(f"{axis.variable.name}_piece", "int32")
    count = -(-axis.extent // most)
    rest = tirx.min(tirx.const(most, "int32"), tirx.const(axis.extent, "int32") - variable * most)
    extent: Any = most if axis.extent % most == 0 else simplify(rest)
    return (
        _Axis(axis.variable, extent, axis.sram, axis.dram, moves=axis.moves),
        _Axis(variable, count, axis.sram * most, axis.dram * most, moves=tuple(step * most for step in axis.moves)),
    )


def _extent(rows: _Axis | None) -> int:
    """The extent of rows on the chip; 0 where they are cut into pieces of which one is shorter."""
    if rows is None:
        return 1
    return rows.extent if isinstance(rows.extent, int) else 0


def _is_single(axis: _Axis) -> bool:
    """One element and otherwise padding: its step in DRAM, of a dimension of extent 1, does not matter."""
    return axis.padded and constant_value(_size(axis)) == 1


def _size(axis: _Axis | None) -> tirx.Expr:
    """Elements that come from DRAM along this axis: its extent less the padding."""
    if axis is None:
        return tirx.const(1, "int32")
    if not axis.padded:
        return tirx.const(axis.extent, "int32") if isinstance(axis.extent, int) else axis.extent
    return simplify(
        axis.extent - (_ZERO if axis.before is None else axis.before) - (_ZERO if axis.after is None else axis.after)
    )


def copy_call(copy: Copy, places: Mapping[str, tuple[AffineAccess, tirx.Expr]], fields: Mapping[str, Any]) -> tirx.Stmt:
    """The statement that calls a copy, given what each operand is an access of, and where it begins."""
    operands: dict[str, Any] = {}
    for name, (access, base) in places.items():
        operands[instruction_calls.operand(name)] = access.buffer.data
        operands[instruction_calls.index(name)] = simplify(base)
    return instruction_calls.call(copy.name, {**operands, **fields})
