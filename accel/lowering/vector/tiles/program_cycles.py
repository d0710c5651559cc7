"""Estimated cycles of vector programs, by their tiles: the document's own costs of the instructions that a tile takes.

It is a guide, of which programs in tiles are compared: units overlap as far as buffers let them, and wait for nothing
else. What a program takes is timed where that is asked (:mod:`accel.lowering.movement.region_prices`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.accelerator.cost_ranges import BUS_CYCLES, DEFAULT_CYCLES, cost_of_one
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.target import Target
from accel.expression.syntax_tree import Statement
from accel.lowering.inject.hardware_loops import LoopAxis, hardware_loops, most_iterations
from accel.lowering.kinds.program_operations import ProgramOperations
from accel.lowering.vector.tiles.tile_overlap import cycles_of_further_tiles, units_alternate
from accel.region.affine_view import AffineView
from accel.region.kinds import Views
from accel.region.vector_program import UNIT, VectorProgram, VectorTensor, turned_axes
from accel.util.arrays import Float64

_ROOMY = 3  # copies of a buffer with which loads wait for no stores that wait for the bus
_HELD_UP = 0.25  # of what the one of them that takes less is on the bus, which they wait else
_Fields = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Form:
    """What a statement takes: statements of one form take the same.

    Attributes:
        instruction: by its number in the document.
        axes: that it walks, the target's first.
        places: of a compute instruction the axes of each operand on the chip, by its name; of a copy those of the
            tensor on the chip.
        dram: of a copy the tensor in DRAM: its axes, and of each the atoms and their strides, the innermost last.
        scalar: bytes of an element in DRAM.
    """

    instruction: int
    axes: tuple[int, ...]
    places: tuple[tuple[str, tuple[int, ...]], ...]
    dram: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()
    scalar: int = 0


@dataclass(frozen=True)
class _Step:
    """A statement as a tile does it: its form, and the buffers that it writes and reads."""

    form: _Form
    unit: str
    writes: str
    reads: tuple[str, ...]
    once: bool  # for all tiles


class ProgramCycles:
    """What the programs of a target take, estimated."""

    def __init__(self, target: Target) -> None:
        self._target, self._accelerator = target, target.accelerator
        self._operations = target.derived(ProgramOperations)
        self._numbers = {instruction.name: place for place, instruction in enumerate(self._accelerator.instructions)}
        self._costs: dict[tuple[int, _Fields], tuple[float, float]] = {}
        self._forms: dict[tuple[_Form, tuple[int, ...]], tuple[float, float]] = {}

    def of(self, program: VectorProgram, views: Views = ()) -> float:
        """Returns the cycles of a program in its tiles, whose tensors lie as ``views`` say."""
        return self.of_tiles(program, [program.tile], views)[0]

    def of_tiles(self, program: VectorProgram, tiles: Sequence[Sequence[int]], views: Views = ()) -> list[float]:
        """Returns the cycles of a program for each of some tiles, which are cut along the same axes as it is."""
        steps = sorted(self._steps(program, views), key=lambda step: not step.once)  # what all share comes first
        least = self._waited(program, [step for step in steps if not step.once], tiles)
        return [
            self._cycles(program, steps, tile, further) for tile, further in zip(tiles, least.tolist(), strict=True)
        ]

    def turned(self, program: VectorProgram) -> VectorProgram:
        """Returns a program with the last axis of each statement walked outside the others where that is faster."""
        numbers = [
            number
            for number, statement in enumerate(program.parsed)
            if isinstance(self._operations.first(statement, program).instruction, Compute)
            and self._is_turned(self._form(statement, program, {}), program.tile)
        ]
        return replace(program, turned=tuple(numbers))

    def _is_turned(self, form: _Form, tile: Sequence[int]) -> bool:
        """Whether a nest takes fewer cycles with its last axis outside, where each element of a memory is a number."""
        instruction = self._accelerator.instructions[form.instruction]
        if len(form.axes) == 1 or not isinstance(instruction, Compute) or self._lanes(instruction, form) > 1:
            return False
        turned = replace(form, axes=turned_axes(form.axes))
        return self._nest_cycles(turned, tile)[0] < self._nest_cycles(form, tile)[0]

    def _waited(self, program: VectorProgram, steps: Sequence[_Step], tiles: Sequence[Sequence[int]]) -> Float64:
        """What each further tile takes where units wait for one another within a tile, by tiles; else nothing."""
        if program.contexts == 1 or not units_alternate(steps):
            return np.zeros(len(tiles))
        cycles = [[self._form_cycles(step.form, tile)[0] for tile in tiles] for step in steps]
        return cycles_of_further_tiles(steps, np.array(cycles), program.contexts)

    def _cycles(self, program: VectorProgram, steps: Sequence[_Step], tile: Sequence[int], least: float) -> float:
        """The cycles of a program, each of whose further tiles takes ``least`` at least."""
        counts = [extent // part for extent, part in zip(program.extents, tile, strict=True)]
        first = self._tile(steps, tile, program)
        total = first.alone + (math.prod(counts) - 1) * max(first.further, least)
        rest = [extent % part or part for extent, part in zip(program.extents, tile, strict=True)]
        shorter = [axis for axis, part in enumerate(rest) if part != tile[axis]]
        if shorter:
            times = math.prod(count for axis, count in enumerate(counts) if axis not in shorter)
            total += times * self._tile([step for step in steps if not step.once], rest, program).further
        return total

    def _tile(self, steps: Sequence[_Step], tile: Sequence[int], program: VectorProgram) -> "_TileCycles":
        """What a tile of a program takes: alone, and behind others."""
        contexts = program.contexts
        units: dict[str, float] = {}
        ready: dict[str, float] = {}
        read: dict[str, float] = {}
        begun: dict[str, float] = {}
        busy: dict[str, float] = {}
        bus: dict[str, float] = {}
        latency: dict[str, float] = {}
        for step in steps:
            cycles, beats = self._form_cycles(step.form, tile)
            buffers = (step.writes, *step.reads)
            start = max(
                units.get(step.unit, 0.0), read.get(step.writes, 0.0), *(ready.get(name, 0.0) for name in buffers)
            )
            end = units[step.unit] = ready[step.writes] = start + cycles
            for name in step.reads:
                read[name] = max(read.get(name, 0.0), end)
            if not step.once:
                begun.setdefault(step.writes, start)
                busy[step.unit] = busy.get(step.unit, 0.0) + cycles
                bus[step.unit] = bus.get(step.unit, 0.0) + beats
                if beats:
                    latency[step.unit] = max(latency.get(step.unit, 0.0), cycles - beats)
        held = [(max(ready[name], read.get(name, 0.0)) - start) / contexts for name, start in begun.items()]
        waits = max([*held, sum(bus.values())])
        if contexts < _ROOMY and sum(map(bool, bus.values())) > 1:
            waits += min(filter(None, bus.values())) * _HELD_UP
        if program.loads_again:  # short loads wait for stores, and one of them at a time for its answer
            beats = sum(bus.values())
            waits = max([waits, *(busy[unit] + beats - bus[unit] - each for unit, each in latency.items())])
        further = max(*busy.values(), waits)
        return _TileCycles(max(units.values()), further)

    def _form_cycles(self, form: _Form, tile: Sequence[int]) -> tuple[float, float]:
        """The cycles of a statement of a tile in its better order, and those on a bus that units share."""
        key = form, tuple(tile)
        if key not in self._forms:
            turned = self._is_turned(form, tile)
            self._forms[key] = self._nest_cycles(replace(form, axes=turned_axes(form.axes)) if turned else form, tile)
        return self._forms[key]

    def _nest_cycles(self, form: _Form, tile: Sequence[int]) -> tuple[float, float]:
        """The cycles of a statement of a tile, and those on a bus that units share."""
        instruction = self._accelerator.instructions[form.instruction]
        if isinstance(instruction, Copy):
            times, fields = self._copied(instruction, form, tile)
        else:
            assert isinstance(instruction, Compute)
            times, fields = self._computed(instruction, form, tile)
        key = form.instruction, fields
        if key not in self._costs:
            self._costs[key] = self._cost(instruction, dict(fields))
        cycles, beats = self._costs[key]
        return times * max(cycles, beats), times * beats

    def _cost(self, instruction: Compute | Copy, fields: Mapping[str, int]) -> tuple[float, float]:
        accelerator = self._accelerator
        cycles = cost_of_one(instruction.cycles or DEFAULT_CYCLES, instruction, accelerator, fields)
        cycles = max(math.ceil(cycles), 1)
        if not isinstance(instruction, Copy) or instruction.unit not in accelerator.dram.shared_by:
            return cycles, 0
        return cycles, math.ceil(cost_of_one(instruction.bus_cycles or BUS_CYCLES, instruction, accelerator, fields))

    def _computed(self, instruction: Compute, form: _Form, tile: Sequence[int]) -> tuple[int, _Fields]:
        """How many instructions a nest takes, and the extents of each one's loops."""
        lanes = self._lanes(instruction, form)
        strides = {name: _strides(axes, tile, lanes) for name, axes in form.places}
        loops = [
            LoopAxis(extent, tuple(own.get(axis, 0) for own in strides.values()))
            for axis in form.axes
            if (extent := _elements(axis, form.axes, tile, lanes)) > 1
        ]
        merged, chosen = hardware_loops(loops, instruction, list(strides), self._accelerator)
        times = math.prod(axis.extent for number, axis in enumerate(merged) if number not in chosen.values())
        fields: dict[str, int] = {}
        for number, loop in enumerate(instruction.loops):
            extent = merged[chosen[number]].extent if number in chosen else 1
            pieces = -(-extent // most_iterations(loop, instruction, self._accelerator))
            times *= pieces
            fields |= dict.fromkeys((loop.extent, *loop.repeated_in), -(-extent // pieces))
        return times, tuple(fields.items())

    def _lanes(self, instruction: Compute, form: _Form) -> int:
        """How many numbers an element of its memories has."""
        memories = (self._accelerator.memory(instruction.operands[name].memory) for name, _ in form.places)
        return max((memory.element_count for memory in memories), default=1)

    def _copied(self, copy: Copy, form: _Form, tile: Sequence[int]) -> tuple[int, _Fields]:
        """How many instructions a copy takes, and the rows and columns of each."""
        memory = self._accelerator.memory(copy.memory)
        walked = _walked(form, tile, memory.element_count)
        names, fields = copy.copy_fields, dict[str, int]()
        columns = walked.pop()[0] if names.columns is not None and walked and walked[-1][1] == 1 else 1
        rows, times = 1, 1
        if names.rows is not None and walked:
            rows = walked.pop()[0]
            most = (1 << self._accelerator.bits(copy, names.rows)) - 1
            pieces = -(-rows // min(most, copy.max_rows or most))
            rows, times = -(-rows // pieces), pieces
        left = sorted((extent for extent, _ in walked), reverse=True)
        further, left = left[: len(copy.dimensions)], left[len(copy.dimensions) :]
        for dimension, extent in zip(copy.dimensions, [*further, *[1] * len(copy.dimensions)], strict=False):
            fields[dimension.extent] = extent
        moved = rows * columns * math.prod(further)
        for name, extent in ((names.rows, rows), (names.columns, columns)):
            if name is not None:
                fields[name] = extent
        if copy.blocks is not None:
            fields[copy.blocks.scalars] = columns * memory.element_count
        fields |= {"elements": moved, "bytes": moved * memory.element_count * form.scalar}
        return times * math.prod(left), tuple(fields.items())

    def _steps(self, program: VectorProgram, views: Views) -> Iterator[_Step]:
        """The statements but for those that change nothing."""
        lying = dict(zip((tensor.name for tensor in program.in_dram), views, strict=False))
        for statement in program.parsed:
            if statement.changes_nothing:
                continue
            instruction = self._operations.first(statement, program).instruction
            form = self._form(statement, program, lying)
            yield _Step(
                form,
                instruction.unit,
                statement.target.name,
                tuple(name for name in statement.operands if program.tensor(name).memory),
                statement.target.name in program.shared,
            )

    def _form(self, statement: Statement, program: VectorProgram, lying: Mapping[str, AffineView | None]) -> _Form:
        instruction = self._operations.first(statement, program).instruction
        number, axes = self._numbers[instruction.name], program.axes_of(statement)
        if isinstance(instruction, Compute):
            operands = self._operations.operands(statement, program)
            tables = {table.name for table in statement.looked_up}
            places = tuple(
                (name, program.tensor(access.name).axes)
                for name, access in operands.items()
                if access.name not in tables and name in instruction.operands
            )
            return _Form(number, axes, places)
        tensors = [program.tensor(name) for name in (statement.target.name, *statement.operands)]
        dram = next(tensor for tensor in tensors if not tensor.memory)
        chip = next(tensor for tensor in tensors if tensor.memory)
        atoms = _atoms(program, dram, lying.get(dram.name))
        return _Form(number, axes, (("sram", chip.axes),), atoms, np.dtype(dram.dtype).itemsize)


@dataclass(frozen=True)
class _TileCycles:
    """Cycles of a tile by itself, and how many more each further one takes."""

    alone: float
    further: float


def _elements(axis: int, axes: Sequence[int], tile: Sequence[int], lanes: int) -> int:
    """How many elements of a memory a tile has along an axis, of which the last has ``lanes`` numbers side by side."""
    return -(-tile[axis] // lanes) if axis == axes[-1] else tile[axis]


def _strides(axes: Sequence[int], tile: Sequence[int], lanes: int) -> dict[int, int]:
    """How far apart neighbours along each axis of a buffer are, in elements."""
    found, stride = dict[int, int](), 1
    for axis in reversed(axes):
        found[axis] = stride
        stride *= _elements(axis, axes, tile, lanes)
    return found


def _atoms(
    program: VectorProgram, tensor: VectorTensor, view: AffineView | None
) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
    """How a tensor in DRAM lies: of each axis the atoms, and how far apart neighbours along them are."""
    shape = program.dram_shape(tensor)
    if view is None:
        atoms: list[tuple[int, ...]] = [(extent,) for extent in shape]
        strides = iter([math.prod(shape[place + 1 :]) for place in range(len(shape))])
    else:
        atoms, strides = list(view.atoms), iter(view.strides)
    placed = [tuple((extent, next(strides)) for extent in own) for own in atoms]
    return tuple((axis, own) for axis, own in zip(tensor.axes, placed, strict=True) if axis != UNIT)


def _walked(form: _Form, tile: Sequence[int], lanes: int) -> list[tuple[int, int]]:
    """The loops of a copy as its tensor lies on the chip: extents, and steps in DRAM; in elements, of ``lanes``."""
    atoms, loops = dict(form.dram), list[tuple[int, int]]()
    ((_, chip),) = form.places
    for axis in chip:
        left, own = tile[axis], list[tuple[int, int]]()
        for extent, stride in reversed(atoms.get(axis, ())):
            part = min(left, extent)
            left = -(-left // part)
            own.append((part, stride))
        loops += reversed(own)
    if lanes > 1 and loops:
        loops[-1] = -(-loops[-1][0] // lanes), 1
        loops[:-1] = [(extent, -(-stride // lanes)) for extent, stride in loops[:-1]]
    merged = list[tuple[int, int]]()
    for extent, stride in loops:
        if extent == 1:
            continue
        if merged and merged[-1][1] == stride * extent:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return merged
