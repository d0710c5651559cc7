"""What a tiling costs, for the planner: the document's own costs, times how many instructions a tile takes.

It is a guide: it takes copies to be whole rectangles and hardware loops to take the longest loops of a tile.
:mod:`accel.isa.explicit.timing` is the measure.
"""

import functools
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from accel.accelerator.contraction import Contraction
from accel.accelerator.cost_ranges import cost_fields
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Instruction
from accel.accelerator.memories import Memory
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError
from accel.isa.explicit.costs import DEFAULT_CYCLES
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates
from accel.util.arrays import Float64, Int64


@dataclass
class _Units:
    """Cycles of each unit, and instructions of all, for each candidate (n,)."""

    cycles: dict[str, Float64] = field(default_factory=dict)
    count: Float64 = field(default_factory=lambda: np.zeros(1))

    def add(self, unit: str, count: Float64, each: Float64) -> None:
        """``count`` instructions of ``each`` cycles."""
        self.cycles[unit] = self.cycles.get(unit, np.zeros(1)) + count * each
        self.count = self.count + count


def tiling_cost(
    c: Candidates, _conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator
) -> Float64:
    """Estimated cycles of each candidate (n,).

    With two contexts of every buffer the units overlap: the busiest of them counts, or a cycle an instruction, and
    the first loads and the last store beside. Where instructions start in the order of the program, a tile's loads
    come before its arithmetic, and all cycles add up.
    """
    costs = _Costs(accelerator)
    ones = np.ones(len(c.out_rows))
    taps = c.kernel_rows * c.kernel_columns
    results, data = gemm.dst.memory, gemm.data.memory
    units = _Units()

    load = costs.copy(_copy(accelerator, data, "load"), c.data_blocks, c.data_rows, c.data_columns * gemm.data.elements)
    units.add(load.unit, c.data_loads * load.count, load.each)
    weights = costs.copy(
        _copy(accelerator, gemm.weights.memory, "load"), c.out_blocks, c.in_blocks, taps * gemm.weights.elements
    )
    units.add(weights.unit, c.weight_loads * weights.count, weights.each)

    outer, reduced = (c.out_blocks, c.out_rows, c.out_columns), (c.in_blocks, c.kernel_rows, c.kernel_columns)
    contract = costs.compute(gemm.instruction, gemm.dst.name, outer, reduced)
    units.add(contract.unit, c.tiles * c.reductions * contract.count, contract.each)
    width = c.out_columns * gemm.dst.elements
    bias = costs.copy(_copy(accelerator, results, "load"), c.out_blocks, c.out_rows, width)
    if epilogue.start == "bias":
        units.add(bias.unit, c.tiles * bias.count, bias.each)
    elif gemm.zero is not None:
        zero = costs.compute(gemm.instruction, gemm.dst.name, outer, ())
        units.add(zero.unit, c.tiles * zero.count, zero.each)
    if epilogue.sums:
        again = costs.compute(gemm.instruction, gemm.dst.name, outer, ())
        units.add(again.unit, c.tiles * epilogue.sums * again.count, again.each)
    if epilogue.adds_operand:
        other = costs.copy(
            _copy(accelerator, data, "load"), c.out_blocks, c.out_rows, c.out_columns * gemm.data.elements
        )
        units.add(other.unit, c.tiles * other.count, other.each)
    step = costs.compute(_elementwise(accelerator, gemm), None, outer, ())
    units.add(step.unit, c.tiles * epilogue.passes * step.count, step.each)

    store = costs.copy(_store(accelerator, gemm, epilogue), c.out_blocks, c.out_rows, width)
    stored = epilogue.planes * store.count * store.each
    units.add(store.unit, c.tiles * epilogue.planes * store.count, store.each)

    first = load.count * load.each + weights.count * weights.each
    return _overlapped(units, c, first + stored, (contract.unit, store.unit), accelerator) * ones


def _overlapped(
    units: _Units, c: Candidates, ends: Float64, results: tuple[str, str], accelerator: Accelerator
) -> Float64:
    """The cycles of units that overlap as far as contexts and synchronisation let them.

    ``ends`` are those of the first loads and the last store, ``results`` the units that share the result's context.
    """
    in_order = accelerator.synchronisation.kind == "in_order"
    if in_order or c.contexts == 1:
        return np.asarray(sum(units.cycles.values()))
    cycles, (computes, stores) = dict(units.cycles), results
    if c.result_contexts == 1 and computes != stores:
        cycles[computes] = cycles[computes] + cycles.pop(stores)
    return np.asarray(functools.reduce(np.maximum, [*cycles.values(), units.count]) + ends)


def _copy(accelerator: Accelerator, memory: Memory, direction: Literal["load", "store"]) -> Copy | None:
    return accelerator.copy_instruction(memory.name, direction)


def _store(accelerator: Accelerator, gemm: Contraction, epilogue: Epilogue) -> Copy | None:
    """The store of the results, in their type in DRAM if there is one."""
    stores = [
        copy
        for copy in accelerator.instructions
        if isinstance(copy, Copy) and (copy.memory, copy.direction) == (gemm.dst.memory.name, "store")
    ]
    return next((copy for copy in stores if copy.dram_dtype == epilogue.result), stores[0] if stores else None)


def _elementwise(accelerator: Accelerator, gemm: Contraction) -> Compute | None:
    """An instruction that works on the results alone."""
    memory = gemm.dst.memory.name
    others = [i for i in accelerator.instructions if isinstance(i, Compute) and i.name != gemm.instruction.name]
    alone = (i for i in others if all(operand.memory == memory for operand in i.operands.values()))
    return next(alone, None)


@dataclass(frozen=True)
class _Tile:
    """The instructions that something takes in one tile: how many (n,), the cycles of each (n,), and their unit."""

    unit: str
    count: Float64
    each: Float64


_NOTHING = _Tile("", np.zeros(1), np.zeros(1))


class _Costs:
    """The document's costs at the sizes of tiles."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator

    def copy(
        self, copy: Copy | None, planes: Int64, rows: Int64,
        columns: Int64,
    ) -> _Tile:  # fmt: skip
        """Copies of ``planes`` rectangles of ``rows`` by ``columns`` elements."""
        if copy is None:
            return _NOTHING
        names = copy.copy_fields
        wide = np.minimum(columns, self._most(copy, names.columns, None))
        high = np.minimum(rows, self._most(copy, names.rows, copy.max_rows))
        values = {"elements": (wide * high).astype(np.float64)}
        values["bytes"] = values["elements"] * copy.dram_bytes(self._accelerator.memory(copy.memory))
        values |= {name: size for name, size in ((names.rows, high), (names.columns, wide)) if name is not None}
        count = planes * -(-columns // wide) * -(-rows // high)
        return _Tile(copy.unit, count.astype(np.float64), self._each(copy, values))

    def compute(
        self, compute: Compute | None, target: str | None, outer: tuple[Int64, ...],
        reduced: tuple[Int64, ...],
    ) -> _Tile:  # fmt: skip
        """The instructions of a nest; a loop in which ``target`` does not step can only run ``reduced`` ones."""
        if compute is None:
            return _NOTHING
        left = np.stack([*outer, *reduced])
        values: dict[str, Int64] = {}
        pieces = np.ones(left.shape[1], np.int64)
        for loop in compute.loops:
            steps = target is None or target in loop.factors or loop.steps.get(target, 0) != 0
            fits = left.copy() if steps else np.where(np.arange(len(left))[:, np.newaxis] < len(outer), 1, left)
            longest = np.argmax(fits, axis=0)
            extent = np.take_along_axis(fits, longest[np.newaxis], axis=0)[0]
            kept = np.take_along_axis(left, longest[np.newaxis], axis=0)
            np.put_along_axis(left, longest[np.newaxis], np.where(extent > 1, 1, kept), axis=0)
            piece = np.minimum(extent, self._most(compute, loop.extent, loop.limit))
            pieces = pieces * -(-extent // piece)
            values |= dict.fromkeys((loop.extent, *loop.repeated_in), piece)
        count = pieces * left.prod(axis=0)
        return _Tile(compute.unit, count.astype(np.float64), self._each(compute, values))

    def _most(self, instruction: Instruction, name: str | None, limit: int | None) -> int:
        if name is None:
            return 1
        most = (1 << self._accelerator.bits(instruction, name)) - 1
        return max(1, most if limit is None else min(most, limit))

    def _each(self, instruction: Instruction, sizes: dict[str, Int64] | dict[str, Float64]) -> Float64:
        """Cycles of one instruction; fields that say nothing of its size are 0, and a cost that fails then is 1."""
        cost = parse_cost(instruction.cycles or DEFAULT_CYCLES)
        fields = cost_fields(self._accelerator, instruction)
        known = {name: np.float64(0.0) for name in cost.names} | {
            "bus_bytes": np.float64(self._accelerator.dram.bus_bytes),
            "read_latency": np.float64(self._accelerator.dram.read_latency),
        }
        columns = {**known, **sizes, **{name: sizes[full] for name, full in fields.items() if full in sizes}}
        try:
            return np.maximum(cost.evaluate(columns), 0)
        except ExpressionError:
            return np.ones(1)
