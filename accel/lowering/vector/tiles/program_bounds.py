"""What a vector program needs however it is cut: lanes, and bytes over the bus; the measure of its tiles and orders.

A unit does one instruction at a time, and each iteration takes its share of the fastest that the instruction can be,
whatever the extents of its loops. Each operand is read and each result written once. A program that takes as long as
the largest of these loses nothing to tiles, latencies, pipelines and waits.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel.accelerator.cost_ranges import BUS_CYCLES, DEFAULT_CYCLES, cost_fields, cost_of_one, costs_of_dram
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.target import Target
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import Literal, Statement, walk
from accel.lowering.inject.hardware_loops import most_iterations
from accel.lowering.kinds.program_operations import ProgramOperations
from accel.region.vector_program import UNIT, VectorProgram
from accel.util.arrays import Float64

_MOST_TILES = 256  # that are thought of


@dataclass(frozen=True)
class ProgramBound:
    """Cycles that no tiles of a program go below.

    Attributes:
        units: of each unit: of what computes for all iterations, of what copies for one copy of each tensor.
        bus: on a bus that units share, all copies together; 0 where they share none.
        latency: of the shortest load, before its first element.
        moved: cycles of the shortest load without that, and of the shortest store.
        begins: beside its iterations of each instruction that computes, those of all statements.
        computes: of the busiest unit that computes, with what is loaded.
    """

    units: Mapping[str, float]
    bus: float
    latency: float
    moved: float
    begins: float
    computes: float

    @property
    def cycles(self) -> float:
        """The largest of all."""
        return max([*self.units.values(), self.bus])

    @property
    def in_tiles(self) -> float:
        """The same for a program of equal tiles, of which the first has a load and the last a store alone.

        The more there are the less is loaded and stored alone, and the more instructions begin.
        """
        tiles = np.arange(1, _MOST_TILES + 1)
        alone = self.latency + self.moved / tiles
        return max(self.cycles, float((alone + self.computes + (tiles - 1) * self.begins).min()))


def program_bound(program: VectorProgram, target: Target) -> ProgramBound:
    """Returns the bound of a program, its statements being what they are."""
    accelerator, operations = target.accelerator, target.derived(ProgramOperations)
    units: dict[str, float] = {}
    computing: dict[str, float] = {}
    latencies: dict[str, list[float]] = {"load": [], "store": []}
    moving: dict[str, list[float]] = {"load": [], "store": []}
    bus = begins = 0.0
    for statement in program.parsed:
        if statement.changes_nothing:
            continue
        meaning = operations.first(statement, program)
        instruction = meaning.instruction
        if isinstance(instruction, Copy):
            cycles, beats = _copied(statement, program, instruction, accelerator)
            least, _ = _cost_of_copy(instruction, 1, accelerator)
            latencies[instruction.direction].append(least)
            moving[instruction.direction].append(cycles - least)
            bus += beats
        else:
            assert isinstance(instruction, Compute)
            written = meaning.typed.statement.target.name
            cycles, begin = _computed(statement, program, instruction, written, accelerator)
            if statement.accesses:  # what needs no load may be done ahead
                computing[instruction.unit] = computing.get(instruction.unit, 0.0) + cycles
                begins += begin
        units[instruction.unit] = units.get(instruction.unit, 0.0) + cycles
    latency = sum(min(each, default=0.0) for each in latencies.values())
    moved = sum(min(each, default=0.0) for each in moving.values())
    return ProgramBound(units, bus, latency, moved, begins, max(computing.values(), default=0.0))


def _copied(statement: Statement, program: VectorProgram, copy: Copy, accelerator: Accelerator) -> tuple[float, float]:
    """Cycles of one copy of a whole tensor, and those on a bus that units share."""
    names = (statement.target.name, *statement.operands)
    tensor = next(each for each in map(program.tensor, names) if not each.memory)
    scalars = math.prod(program.extents[axis] for axis in tensor.axes if axis != UNIT)
    return _cost_of_copy(copy, scalars * np.dtype(tensor.dtype).itemsize, accelerator)


def _cost_of_copy(copy: Copy, nbytes: int, accelerator: Accelerator) -> tuple[float, float]:
    """Cycles of a copy of so many bytes in one row, and those on a bus that units share."""
    size = copy.dram_bytes(accelerator.memory(copy.memory))
    known: dict[str, float] = {"bytes": nbytes, "elements": -(-nbytes // size)}
    known |= {name: 1 for name in (copy.copy_fields.rows, *(each.extent for each in copy.dimensions)) if name}
    known |= {name: -(-nbytes // size) for name in (copy.copy_fields.columns,) if name}
    cycles = max(cost_of_one(copy.cycles or DEFAULT_CYCLES, copy, accelerator, known), 1.0)
    shares = copy.unit in accelerator.dram.shared_by
    beats = cost_of_one(copy.bus_cycles or BUS_CYCLES, copy, accelerator, known) if shares else 0.0
    return max(cycles, beats), beats


def _computed(
    statement: Statement, program: VectorProgram, instruction: Compute, written: str, accelerator: Accelerator
) -> tuple[float, float]:
    """Cycles of all iterations of a statement, each at the fastest that the instruction can be, and of its beginning.

    A loop in which the target stays is over what is reduced, and has no more iterations than that.
    """
    every = math.prod(program.extents[axis] for axis in program.axes_of(statement))
    reduced = math.prod(program.extents[int(axis[1:])] for axis in statement.reduced)
    cost = parse_cost(instruction.cycles or DEFAULT_CYCLES)
    numbers = [int(node.value) for node in walk(cost.tree) if isinstance(node, Literal) and node.value > 1]
    names, of_dram = cost_fields(accelerator, instruction), costs_of_dram(accelerator)

    def costs(most: Sequence[int]) -> tuple[Float64, Float64]:
        """The costs of instructions by the extents of their loops, and their iterations."""
        options = [sorted({*_extents(each, numbers)}) for each in most]
        grid = np.array(list(itertools.product(*options)), np.float64).reshape(-1, len(options)).T
        columns: dict[str, Float64] = {name: np.full(1, number) for name, number in of_dram.items()}
        for loop, extents in zip(instruction.loops, grid, strict=True):
            columns |= dict.fromkeys((loop.extent, *loop.repeated_in), extents)
        known = {name: columns.get(names.get(name, name), np.zeros(1)) for name in cost.names}
        return cost.evaluate(known), np.asarray(grid.prod(axis=0))

    widest = [most_iterations(loop, instruction, accelerator) for loop in instruction.loops]
    stays = [not loop.moves(written) for loop in instruction.loops]
    wide = [min(most, reduced) if stay else most for most, stay in zip(widest, stays, strict=True)]
    own_loops = [min(most, reduced if stay else every // reduced) for most, stay in zip(widest, stays, strict=True)]
    of_wide, of_own = costs(wide), costs(own_loops)
    fastest = float((of_wide[0] / of_wide[1]).min())
    begin = max(float((of_own[0] - fastest * of_own[1]).min()), 0.0)
    element = accelerator.memory(instruction.operands[written].memory).element_count
    return every * fastest / element + begin, begin


def _extents(most: int, numbers: list[int]) -> Iterator[int]:
    """Extents at which an iteration may be at its fastest: powers of two, and multiples of a cost's numbers."""
    yield most
    yield from (1 << bit for bit in range(most.bit_length()) if 1 << bit <= most)
    yield from (most // number * number for number in numbers if number <= most)
