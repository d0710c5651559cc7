"""What a vector program needs however it is cut: lanes, bytes over the bus, and what waits for the first operands.

A unit does one instruction at a time, an instruction takes its share of the fastest that it can be for each iteration,
whatever the extents of its loops, and what it takes besides; it starts when those have ended that make what it reads.
Each operand is read and each result written once. No tiles, equal or not, and no order of instructions take less.
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
from accel.expression.syntax_tree import Binary, Literal, Statement, walk
from accel.lowering.inject.hardware_loops import most_iterations
from accel.lowering.kinds.program_operations import ProgramOperations
from accel.lowering.vector.tiles.bounds_of_arrival import Needed, bound_of_arrival, bound_of_bus
from accel.region.affine_view import AffineView
from accel.region.kinds import Views
from accel.region.vector_program import UNIT, VectorProgram, VectorTensor
from accel.util.arrays import Float64

_ROUNDING = 1e-9  # of shares that are quotients


@dataclass(frozen=True)
class ProgramBound:
    """Cycles that no program of some statements goes below.

    Attributes:
        units: of each unit: of what computes for all iterations, of what copies for one copy of each tensor.
        bus: on a bus that units share, all copies together, behind the latency of the first; 0 where they share none.
        arrival: of the unit that has the most left to do when operands have come, with the latencies of loads before
            it and of what is behind it (:func:`accel.lowering.vector.tiles.bounds_of_arrival.bound_of_arrival`).
    """

    units: Mapping[str, float]
    bus: float
    arrival: float

    @property
    def throughput(self) -> float:
        """The largest of what lanes, reads and writes need."""
        return max([*self.units.values(), self.bus])

    @property
    def cycles(self) -> float:
        """The largest of all."""
        return max(self.throughput, self.arrival)


def program_bound(program: VectorProgram, target: Target, views: Views = ()) -> ProgramBound:
    """Returns the bound of a program, its statements being what they are, and its tensors lying as ``views`` say.

    What is not side by side in DRAM is copied in as many rows, as nothing is copied that no statement names.
    """
    accelerator, operations = target.accelerator, target.derived(ProgramOperations)
    units: dict[str, float] = {}
    needed: list[Needed] = []
    lying = dict(zip((tensor.name for tensor in program.in_dram), views, strict=False))
    for statement in program.parsed:
        if _is_left_out(statement):
            continue
        meaning = operations.first(statement, program)
        instruction = meaning.instruction
        if isinstance(instruction, Copy):
            cycles, beats = _copied(statement, program, instruction, lying, accelerator)
            least, first_beats = _cost_of_copy(instruction, 1, accelerator)
            latency = least - first_beats if instruction.direction == "load" else None
            work, begin = max(cycles - least, 0.0), max(least - 1, 0.0)
            at_once = _most_at_once(lying.get(_in_dram(statement, program).name), instruction)
            cycles += (math.ceil(1 / at_once - _ROUNDING) - 1) * begin
            needed.append(Needed(statement, instruction.unit, work, begin, least, beats, latency, at_once))
        else:
            assert isinstance(instruction, Compute)
            written = meaning.typed.statement.target.name
            cycles, begin = _computed(statement, program, instruction, written, accelerator)
            needed.append(Needed(statement, instruction.unit, cycles - begin, begin, begin))
        units[instruction.unit] = units.get(instruction.unit, 0.0) + cycles
    arrival = 0.0 if program.stream is not None else bound_of_arrival(needed)
    return ProgramBound(units, bound_of_bus(needed), arrival)


def _is_left_out(statement: Statement) -> bool:
    """Whether lowering makes no instruction of a statement: of one that changes nothing, or adds zero in place."""
    value = statement.value
    if isinstance(value, Binary) and isinstance(value.right, Literal):
        neutral = {"+": 0, "-": 0, "*": 1, "/": 1}.get(value.operator)
        if neutral is not None and value.right.value == neutral:
            value = value.left
    return statement.combiner is None and value == statement.target


def _copied(
    statement: Statement,
    program: VectorProgram,
    copy: Copy,
    lying: Mapping[str, AffineView | None],
    accelerator: Accelerator,
) -> tuple[float, float]:
    """Cycles of one copy of a whole tensor, and those on a bus that units share."""
    tensor = _in_dram(statement, program)
    scalars = math.prod(program.extents[axis] for axis in tensor.axes if axis != UNIT)
    view = lying.get(tensor.name)
    rows = 1 if view is None or copy.dimensions else scalars // _side_by_side(view)
    return _cost_of_copy(copy, scalars * np.dtype(tensor.dtype).itemsize, accelerator, rows)


def _in_dram(statement: Statement, program: VectorProgram) -> VectorTensor:
    """The tensor that a copy has in DRAM."""
    names = (statement.target.name, *statement.operands)
    return next(each for each in map(program.tensor, names) if not each.memory)


def most_at_once(view: AffineView) -> float:
    """Returns the largest share of a view's elements that rows of one length at one step can be, and nothing else.

    Elements lie in runs, and runs in I blocks of J runs each, of S elements from the first to the last, with G elements
    between two blocks. As there are gaps between runs, a row lies within one. Rows of one block are 1 / I of all at
    most. Of rows in several blocks two neighbours have a gap between them, so that the step is more than G: no block
    has more than q = (S - 1) / (G + 1) + 1 of them, rounded down, which is q / J of all. Runs at one step are as many
    blocks of one run. Of what touches or lies over itself nothing is said: 1.
    """
    atoms = (atom for dimension in view.atoms for atom in dimension)
    run, levels = 1, list[tuple[int, int]]()
    for stride, extent in sorted(zip(map(abs, view.strides), atoms, strict=True)):
        if extent == 1 or stride == 0:
            continue
        if not levels and stride == run:
            run *= extent
        elif levels and stride == math.prod(levels[-1]):
            levels[-1] = levels[-1][0], levels[-1][1] * extent
        else:
            levels.append((stride, extent))
    span, spans = run, list[int]()
    for stride, extent in levels:
        if stride <= span:
            return 1.0
        spans.append(span)
        span += (extent - 1) * stride
    if len(levels) < 2:
        return 1.0
    *inner, (step, blocks) = levels
    most = (spans[-1] - 1) // (step - spans[-1] + 1) + 1
    return max(1 / blocks, min(most / math.prod(extent for _, extent in inner), 1.0))


def _most_at_once(view: AffineView | None, copy: Copy) -> float:
    """The largest share of a tensor that an instruction can copy; 1 of one that has more than rows at a step."""
    return 1.0 if view is None or copy.dimensions or copy.blocks is not None else most_at_once(view)


def _side_by_side(view: AffineView) -> int:
    """How many elements are one behind the other in the buffer, of a view at the most."""
    atoms = (atom for dimension in view.atoms for atom in dimension)
    found = 1
    for stride, extent in sorted(zip(view.strides, atoms, strict=True)):
        if extent == 1 or stride < found:
            continue
        if stride > found:
            break
        found *= extent
    return found


def _cost_of_copy(copy: Copy, nbytes: int, accelerator: Accelerator, rows: int = 1) -> tuple[float, float]:
    """Cycles of a copy of so many bytes in rows of as many, and those on a bus that units share."""
    size = copy.dram_bytes(accelerator.memory(copy.memory))
    known: dict[str, float] = {"bytes": nbytes, "elements": -(-nbytes // size)}
    known |= {each.extent: 1 for each in copy.dimensions}
    known |= {name: rows for name in (copy.copy_fields.rows,) if name}
    known |= {name: -(-nbytes // (size * rows)) for name in (copy.copy_fields.columns,) if name}
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
    possible = of_own[1] <= every
    begin = max(float((of_own[0] - fastest * of_own[1])[possible].min()), 0.0)
    memories = (accelerator.memory(operand.memory) for operand in instruction.operands.values())
    element = max(memory.element_count for memory in memories)  # a sum of one number takes in as many as another has
    return every * fastest / element + begin, begin


def _extents(most: int, numbers: list[int]) -> Iterator[int]:
    """Extents at which an iteration may be at its fastest: powers of two, and multiples of a cost's numbers."""
    yield most
    yield from (1 << bit for bit in range(most.bit_length()) if 1 << bit <= most)
    yield from (most // number * number for number in numbers if number <= most)
