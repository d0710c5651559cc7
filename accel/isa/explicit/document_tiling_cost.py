"""What a tiling costs, for the planner: the document's own costs, times how many instructions a tile takes.

It is a guide: it takes copies to be whole rectangles and hardware loops to take the longest loops of a tile.
:mod:`accel.isa.explicit.clock.timing` is the measure.
"""

import functools
import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from accel.accelerator.contraction import Contraction
from accel.accelerator.cost_ranges import BUS_CYCLES, DEFAULT_CYCLES, cost_fields
from accel.accelerator.document import Accelerator, HazardSync
from accel.accelerator.instructions import Compute, Copy, Instruction
from accel.accelerator.memories import Memory
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError
from accel.isa.explicit import tile_replay_kernel as kernel
from accel.isa.explicit.issue_order import PIPELINE, WINDOW, is_arranged, nominal_copy
from accel.isa.explicit.tile_replay import Work, replayed
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.slides import slide_of
from accel.region.tilings import Candidates, ceil_div
from accel.util.arrays import Bools, Float64, Int64


@dataclass
class _Units:
    """Cycles of each unit and of the bus that they share, and instructions of all, for each candidate (n,)."""

    cycles: dict[str, Float64] = field(default_factory=dict)
    bus: Float64 = field(default_factory=lambda: np.zeros(1))
    count: Float64 = field(default_factory=lambda: np.zeros(1))

    def add(self, each: "_Tile", times: Int64) -> None:
        """The instructions of ``each``, ``times`` over."""
        self.cycles[each.unit] = self.cycles.get(each.unit, np.zeros(1)) + times * each.cycles
        self.bus = self.bus + times * each.count * each.bus
        self.count = self.count + times * each.count


def tiling_cost(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator
) -> Float64:
    """Estimated cycles of each candidate (n,).

    Where units wait for tokens, and with two contexts of every buffer, they overlap: the busiest of them counts, or a
    cycle an instruction, and the first loads and the last store beside. Where instructions start in the order of the
    program, loads overlap with the last instructions before them alone, unless they are sent as they would start. With
    one context all cycles add up. Copies that share a bus take its cycles at least.
    """
    costs, units = _Costs(accelerator), _Units()
    used = _uses(c, conv, epilogue, gemm, costs)
    for each, count in used.counted(c, epilogue):
        units.add(each, count)
    sync = accelerator.synchronisation
    if c.contexts == 1:
        cycles = np.asarray(sum(units.cycles.values()))
    elif isinstance(sync, HazardSync) or sync.kind == "in_order":
        window, arranged = sync.window if isinstance(sync, HazardSync) else 1, is_arranged(accelerator)
        cycles = _in_window(units, c, epilogue, used, WINDOW if arranged else window)
        if arranged and sync.kind == "in_order":
            cycles = _replayed(cycles, units, c, epilogue, used, window)
    else:
        ends = used.data.cycles + used.weights.cycles + epilogue.planes * used.store.cycles
        cycles = _overlapped(units, c, ends, (used.contract.unit, used.store.unit))
    return np.asarray(np.maximum(cycles, units.bus) * np.ones(len(c.out_rows)))


def _overlapped(units: _Units, c: Candidates, ends: Float64, results: tuple[str, str]) -> Float64:
    """The cycles of units that overlap as far as contexts let them.

    ``ends`` are those of the first loads and the last store, ``results`` the units that share the result's context.
    """
    cycles, (computes, stores) = dict(units.cycles), results
    if computes != stores:
        cycles[computes] = cycles[computes] + np.where(c.result_contexts == 1, cycles[stores], 0)
    return np.asarray(functools.reduce(np.maximum, [*cycles.values(), units.count]) + ends)


def _in_window(units: _Units, c: Candidates, epilogue: Epilogue, used: "_Uses", window: int) -> Float64:
    """The cycles of units that start nothing while ``window`` instructions before it in the program have not ended.

    The arithmetic of a step waits for its loads, and these begin when as many instructions are left of the step before.
    In order one is left: the last.
    """
    contract, passes, store = used.contract, used.passes, used.store
    steps, planes = c.tiles * c.reductions, epilogue.planes
    apart, alone = contract.unit != used.data.unit, store.unit != used.data.unit
    staying = (c.data_loads < steps, c.weight_loads < steps)
    step = (used.data, ~staying[0]), (used.weights, ~staying[1])
    # products of what comes first begin while the rest still comes, where as many instructions are looked at
    ahead = np.where(
        staying[1],
        _ahead(used.data, contract.cycles / c.out_blocks, window) * used.tile_each,
        _ahead(used.weights, contract.cycles, window),
    )
    load = _together(*step)
    begun = _together(*step, (used.start, True))  # a tile
    group = _together((used.data, True), (used.weights, c.weight_loads > 0), (used.start, True))  # tiles with all loads
    stays = np.where(c.data_loads < steps, c.data_loads, np.where(c.weight_loads < steps, c.weight_loads, 0))

    # cycles of the last instructions of a step, and of those of a tile
    behind = np.minimum(window, contract.count) * contract.each * apart
    whole = planes * store.cycles
    if window == 1:
        stored, free = whole, alone & ((c.result_contexts > 1) | (epilogue.start != "bias"))
        ending = np.asarray(store.each * free, np.float64)
    else:
        one = c.result_contexts == 1
        stored = np.where(one, whole, np.maximum(planes * store.count - window, 0) * store.each)
        left = np.maximum(window - planes * store.count, 0)
        last = np.minimum(left, epilogue.passes * passes.count)
        ending = (last * passes.each + np.minimum(left - last, contract.count) * contract.each) * apart
        ending = ending + whole * (one & alone)
        if used.start.unit == used.data.unit:  # accumulators are loaded behind the last store, all others behind them
            ending = np.where(one, 0, ending)
    tile = c.reductions * contract.cycles + used.zero.cycles + epilogue.passes * passes.cycles
    waits = c.tiles * (c.reductions - 1) * np.maximum(load - ahead - behind, 0)
    waits = waits + (c.tiles - stays) * np.maximum(begun - ahead - ending, 0)
    waits = waits + stays * np.maximum(group - ending, 0)
    waits = waits + np.minimum(group, ending)  # nothing is before the first loads
    waits = waits + used.biases * epilogue.vectors * used.bias.cycles
    total = c.tiles * (tile + epilogue.sums * used.sums.cycles + stored) + waits + whole - stored
    busiest = functools.reduce(np.maximum, [*units.cycles.values(), units.count])
    return np.asarray(np.maximum(total, busiest))


def _replayed(guess: Float64, units: _Units, c: Candidates, epilogue: Epilogue, used: "_Uses", window: int) -> Float64:
    """The cycles of candidates on a machine whose instructions are sent as they would start."""
    works = {
        kernel.START: ((used.start, 1), (used.operand, 1)),
        kernel.DATA: ((used.data, 1),),
        kernel.WEIGHTS: ((used.weights, 1),),
        kernel.PRODUCTS: ((used.contract, 1),),
        kernel.PASSES: ((used.passes, epilogue.passes), (used.zero, 1), (used.sums, epilogue.sums)),
        kernel.STORE: ((used.store, epilogue.planes),),
    }
    found = {
        kind: functools.reduce(Work.beside, there)
        for kind, each in works.items()
        if (there := [_work(tile, times) for tile, times in each if times and tile.unit])
    }
    biases = used.biases * epilogue.vectors * used.bias.cycles
    least = functools.reduce(np.maximum, units.cycles.values()) - biases
    return replayed(c, found, window, guess, least, tile_each=used.tile_each) + biases


def _work(each: "_Tile", times: int) -> Work:
    count = times * each.count
    return Work(each.unit, count, count * each.each, count * each.nominal, count * each.bus)


def _biases(c: Candidates, conv: Convolution) -> Int64:
    """How often a bias is loaded that an epilogue adds: for each group of channels, or each tile where data stay."""
    stacks = conv.out_blocks // c.out_blocks
    return np.where((c.data_loads < c.tiles * c.reductions) & (stacks > 1), c.tiles, stacks)


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
    """The instructions that something takes in one tile: how many (n,), the cycles of each (n,), and their unit.

    ``bus`` are the cycles of each (n,) on the bus that units share.
    """

    unit: str
    count: Float64
    each: Float64
    bus: Float64 = field(default_factory=lambda: np.zeros(1))
    nominal: Float64 = field(default_factory=lambda: np.zeros(1))

    @property
    def cycles(self) -> Float64:
        """Of all of them."""
        return self.count * self.each


_NOTHING = _Tile("", np.zeros(1), np.zeros(1))


def _together(*loads: tuple[_Tile, Bools | bool]) -> Float64:
    """Returns the cycles of the loads that are there, each unit doing its own beside the others."""
    units: dict[str, Float64] = {}
    for load, there in loads:
        units[load.unit] = units.get(load.unit, np.zeros(1)) + load.cycles * there
    return np.asarray(functools.reduce(np.maximum, units.values()))


def _ahead(load: _Tile, products: Float64, window: int) -> Float64:
    """Cycles of loads during which ``products`` of earlier ones go on."""
    return np.asarray(np.minimum((np.minimum(load.count, window) - 1) * load.each, products * (1 - 1 / load.count)))


@dataclass(frozen=True)
class _Uses:
    """What a tile takes of each: its loads, ``start`` that of its accumulators, its arithmetic and its store.

    ``tile_each``: an instruction multiplies one tile, and not all that a loop passes.
    """

    data: _Tile
    weights: _Tile
    start: _Tile
    bias: _Tile
    operand: _Tile
    contract: _Tile
    stage: _Tile
    zero: _Tile
    sums: _Tile
    passes: _Tile
    store: _Tile
    biases: Int64
    tile_each: bool

    def counted(self, c: Candidates, epilogue: Epilogue) -> list[tuple[_Tile, Int64]]:
        """Each with how often the region does it."""
        return [
            (self.data, c.data_loads), (self.weights, c.weight_loads), (self.stage, c.weight_loads),
            (self.start, c.tiles),
            (self.bias, epilogue.vectors * self.biases), (self.operand, c.tiles),
            (self.contract, c.tiles * c.reductions), (self.zero, c.tiles), (self.sums, c.tiles * epilogue.sums),
            (self.passes, c.tiles * epilogue.passes), (self.store, c.tiles * epilogue.planes),
        ]  # fmt: skip


def _uses(c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, costs: "_Costs") -> _Uses:
    accelerator, one = costs.accelerator, np.ones_like(c.out_rows)
    assert isinstance(gemm.instruction, Compute)  # a layer has a price of its own
    results, data, element = gemm.dst.memory, gemm.data.memory, gemm.dst.elements
    pixels = c.out_rows * c.out_columns
    outer, reduced = (c.out_blocks, c.out_rows, c.out_columns), (c.in_blocks, c.kernel_rows, c.kernel_columns)
    # rows that the kernel does not pass are one line of pixels
    dense = (c.data_columns == c.out_columns) & (c.data_rows - c.out_rows == c.kernel_rows - 1)
    lines = (c.out_blocks, np.where(dense, pixels, c.out_rows), np.where(dense, one, c.out_columns))
    whole = (c.out_blocks * pixels, one, one)
    start = zero = operand = _NOTHING
    load = _copy(accelerator, results, "load")
    if epilogue.start == "bias":  # the same for each pixel
        blocks, columns = np.where(pixels == 1, 1, c.out_blocks), np.where(pixels == 1, c.out_blocks, 1)
        start = costs.copy(load, blocks, pixels, columns * element)
    elif gemm.zero is not None:
        zero = costs.compute(gemm.instruction, gemm.dst.name, whole, ())
    if epilogue.adds_operand:
        shape = _result_rectangles(c, conv, gemm.data.elements)
        operand = costs.copy(_copy(accelerator, data, "load"), *shape)
    return _Uses(
        data=costs.copy(_copy(accelerator, data, "load"), *_data_rectangles(c, conv, gemm.data.elements)),
        weights=costs.copy(
            _copy(accelerator, gemm.weights_loaded_to, "load"), *_weight_rectangles(c, conv, gemm.weights.elements)
        ),
        stage=_NOTHING
        if gemm.stage is None
        else costs.compute(
            gemm.stage.instruction, None, (c.out_blocks * c.in_blocks, c.kernel_rows * c.kernel_columns), ()
        ),
        start=start,
        bias=costs.copy(load, one, one, c.out_blocks * element),
        operand=operand,
        contract=_slid(c, conv, gemm, costs)
        if gemm.slides
        else costs.compute(gemm.instruction, gemm.dst.name, lines, reduced),
        zero=zero,
        sums=costs.compute(gemm.instruction, gemm.dst.name, outer, ()),
        passes=costs.compute(_elementwise(accelerator, gemm), None, whole, ()),
        store=costs.copy(_store(accelerator, gemm, epilogue), *_result_rectangles(c, conv, element)),
        biases=_biases(c, conv),
        tile_each=not gemm.instruction.loops,
    )


def _slid(c: Candidates, conv: Convolution, gemm: Contraction, costs: "_Costs") -> _Tile:
    """The instructions of a contraction that slides: those of the operation that does a candidate's tiles."""
    which = np.minimum(slide_of(c, conv, gemm), len(gemm.slides) - 1)
    counts, each, nominal = [], [], []
    for slide in gemm.slides:
        instruction = costs.accelerator.instruction(slide.instruction)
        assert isinstance(instruction, Compute)
        target = next(n for n, operand in instruction.operands.items() if operand.memory == gemm.dst.memory.name)
        outer = (c.out_blocks, c.out_rows, ceil_div(c.out_columns, slide.columns))
        reduced = (c.in_blocks, c.kernel_rows, ceil_div(c.kernel_columns, slide.taps))
        tile = costs.compute(instruction, target, outer, reduced)
        counts.append(tile.count * np.ones(len(which)))
        each.append(tile.each * np.ones(len(which)))
        nominal.append(tile.nominal * np.ones(len(which)))
    at = (which, np.arange(len(which)))
    return _Tile(gemm.instruction.unit, np.stack(counts)[at], np.stack(each)[at], nominal=np.stack(nominal)[at])


class _Rectangles(NamedTuple):
    """Rectangles in DRAM, of each candidate (n,): how many, their rows, elements of a row and from row to row."""

    planes: Int64
    rows: Int64
    columns: Int64
    pitch: Int64


def _data_rectangles(c: Candidates, conv: Convolution, element: int) -> _Rectangles:
    line = (c.data_columns == conv.data.pitch_w) & (sum(conv.padding) == 0)
    block = line & (c.data_rows == conv.data.pitch_h)
    # the blocks of several groups lie apart, but for those of whole groups
    apart = np.where(c.in_blocks < conv.reduced_blocks, c.data_blocks // c.in_blocks, 1)
    pitches = conv.data.pitch_h * conv.data.pitch_w * element, conv.data.pitch_w * element
    found = _joined(c.data_blocks // apart, c.data_rows, c.data_columns * element, line, block, pitches)
    return found._replace(planes=apart * found.planes)


def _result_rectangles(c: Candidates, conv: Convolution, element: int) -> _Rectangles:
    line = c.out_columns >= conv.out_width
    pitches = conv.out_height * conv.out_width * element, conv.out_width * element
    block = line & (c.out_rows >= conv.out_height)
    return _joined(c.out_blocks, c.out_rows, c.out_columns * element, line, block, pitches)


def _weight_rectangles(c: Candidates, conv: Convolution, element: int) -> _Rectangles:
    line = (c.kernel_rows == conv.kernel[0]) & (c.kernel_columns == conv.kernel[1])
    taps, all_taps = c.kernel_rows * c.kernel_columns, math.prod(conv.kernel)
    pitches = conv.reduced_blocks * all_taps * element, all_taps * element
    block = line & (c.in_blocks == conv.reduced_blocks)
    return _joined(c.out_blocks, c.in_blocks, taps * element, line, block, pitches)


def _joined(
    planes: Int64, rows: Int64, columns: Int64, line: Bools, block: Bools, pitches: tuple[int, int]
) -> _Rectangles:
    """Rectangles as one copy takes them: the rows of a plane are one in a ``line``, and so are planes in a ``block``.

    Planes of one row are rows of one rectangle. ``pitches`` are the elements from plane to plane, and from row to row.
    """
    planes, columns = np.where(block, 1, planes), np.where(block, planes * columns, columns)
    rows, columns = np.where(line, 1, rows), np.where(line, rows * columns, columns)
    alone = rows == 1
    return _Rectangles(np.where(alone, 1, planes), np.where(alone, planes, rows), columns, np.where(alone, *pitches))


class _Costs:
    """The document's costs at the sizes of tiles."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator

    def copy(
        self, copy: Copy | None, planes: Int64, rows: Int64,
        columns: Int64, pitch: Int64 | int = 0,
    ) -> _Tile:  # fmt: skip
        """Copies of ``planes`` rectangles of ``rows`` by ``columns`` elements, from row to row ``pitch``.

        Rows that lie farther apart than the instruction can say are copies of their own.
        """
        if copy is None:
            return _NOTHING
        names = copy.copy_fields
        wide = np.minimum(columns, self._most(copy, names.columns, None))
        high = np.minimum(rows, self._most(copy, names.rows, copy.max_rows))
        if names.row_stride is not None:
            unit = copy.element_stride(self.accelerator.memory(copy.memory))
            high = np.where(np.asarray(pitch) * unit > self._most(copy, names.row_stride, None), 1, high)
        values = {"elements": (wide * high).astype(np.float64)}
        values["bytes"] = values["elements"] * copy.dram_bytes(self.accelerator.memory(copy.memory))
        values |= {name: size for name, size in ((names.rows, high), (names.columns, wide)) if name is not None}
        left = planes, -(-rows // high)  # to further dimensions, and to instructions
        for dimension in reversed(copy.dimensions):
            longer, shorter = np.maximum(*left), np.minimum(*left)
            deep = np.minimum(longer, self._most(copy, dimension.extent, dimension.limit))
            left = -(-longer // deep), shorter
            values |= {name: values[name] * deep for name in ("elements", "bytes")}
            values[dimension.extent] = deep
        count = left[0] * left[1] * -(-columns // wide)
        each, bus = self._each(copy, copy.cycles, values), np.zeros(1)
        if copy.unit in self.accelerator.dram.shared_by:
            bus = self._each(copy, copy.bus_cycles or BUS_CYCLES, values)
        nominal = nominal_copy(values["bytes"], copy.direction)
        return _Tile(copy.unit, count.astype(np.float64), np.maximum(each, bus), bus, nominal)

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
        iterations = functools.reduce(np.multiply, [values[loop.extent] for loop in compute.loops], np.ones(1))
        each = self._each(compute, compute.cycles, values)
        return _Tile(compute.unit, count.astype(np.float64), each, nominal=iterations + PIPELINE)

    def _most(self, instruction: Instruction, name: str | None, limit: int | None) -> int:
        if name is None:
            return 1
        most = (1 << self.accelerator.bits(instruction, name)) - 1
        return max(1, most if limit is None else min(most, limit))

    def _each(
        self, instruction: Instruction, text: str | None, sizes: dict[str, Int64] | dict[str, Float64]
    ) -> Float64:
        """The cost of one instruction; fields that say nothing of its size are 0, and a cost that fails then is 1."""
        cost = parse_cost(text or DEFAULT_CYCLES)
        fields = cost_fields(self.accelerator, instruction)
        known = {name: np.float64(0.0) for name in cost.names} | {
            "bus_bytes": np.float64(self.accelerator.dram.bus_bytes),
            "read_latency": np.float64(self.accelerator.dram.read_latency),
        }
        columns = {**known, **sizes, **{name: sizes[full] for name, full in fields.items() if full in sizes}}
        try:
            return np.maximum(cost.evaluate(columns), 0)
        except ExpressionError:
            return np.ones(1)
