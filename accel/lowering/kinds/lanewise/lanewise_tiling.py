"""Tile of a lane-wise region, which is made of steps on accumulators: the cheapest that fits."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from accel.accelerator.instructions import Copy
from accel.lowering.analysis.buffer_contexts import needs_double_buffer
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.lanewise_capabilities import tile_planner
from accel.lowering.analysis.window_stores import image_room, store_of_windows, tile_mismatch
from accel.region.elementwise import Elementwise, line_of
from accel.region.epilogue import Epilogue
from accel.region.kinds import lane_tile
from accel.region.tile_steps import Lanewise, Load, TilePlan, iterations_of_steps
from accel.region.tilings import BORDER_WORTH, Tiling, divisors, tile_extents

_SIDES = (("pad_top", "pad_bottom"), ("pad_left", "pad_right"))

_STORE, _READ = 16, 1.5  # cycles of the beginning of a store of windows, and of an element
_WRITES, _ANSWER = 16, 7  # writes at a time, and cycles beside the latency until there is room for others
_LOAD, _LOADS = 29, 2  # cycles of a load beside the latency, and loads at a time
_TURN = 60  # cycles from the last load of a tile to its first store, and from its last store to the next load

Tile = tuple[int, int, int]  # blocks, rows, columns


def lanewise_tiling(
    shape: Lanewise, capabilities: Capabilities, epilogue: Epilogue, *, bordered: bool
) -> Tiling | None:
    """The cheapest tile, by the iterations of its steps and the bytes of its data; None if none fits.

    The pitches of the result are its size in whole tiles; of one that is ``bordered`` no more, if that costs little.
    """
    found = _priced_tiling(shape, capabilities, epilogue, bordered=bordered)
    return None if found is None else found[1]


def lanewise_cycles(shape: Lanewise, capabilities: Capabilities, epilogue: Epilogue, *, bordered: bool) -> float:
    """The estimated cycles of the tiling that :func:`lanewise_tiling` returns; infinite if none fits."""
    found = _priced_tiling(shape, capabilities, epilogue, bordered=bordered)
    return math.inf if found is None else found[0]


def _priced_tiling(
    shape: Lanewise, capabilities: Capabilities, epilogue: Epilogue, *, bordered: bool
) -> tuple[float, Tiling] | None:
    store = _special_store(shape, epilogue, capabilities)
    key = ("lanes", shape, epilogue.unnumbered, bordered)
    if key not in capabilities.tilings:  # layers ask the same
        wanted = _Wanted(shape, epilogue.unnumbered, store)
        capabilities.tilings[key] = _tiling(wanted, capabilities, bordered=bordered)
    return cast(tuple[float, Tiling] | None, capabilities.tilings[key])


@dataclass(frozen=True)
class _Wanted:
    """What is cut into tiles: the region, without the numbers of its epilogue.

    ``store`` is its store, if that takes windows or several blocks.
    """

    shape: Lanewise
    epilogue: Epilogue
    store: Copy | None


def _special_store(shape: Lanewise, epilogue: Epilogue, capabilities: Capabilities) -> Copy | None:
    if shape.stored_windows is not None:
        return store_of_windows(epilogue, capabilities)
    if not (isinstance(shape, Elementwise) and shape.apart):
        return None
    meaning = capabilities.storing(epilogue.result, epilogue.scaling).meaning
    return meaning.instruction if meaning is not None and isinstance(meaning.instruction, Copy) else None


def _tiling(wanted: _Wanted, capabilities: Capabilities, *, bordered: bool) -> tuple[float, Tiling] | None:
    """The tiling that is taken, and its price."""
    found = _cheapest(wanted, capabilities, tile_extents)
    if not bordered or found is None:
        return found
    dividing = _cheapest(wanted, capabilities, divisors)
    return dividing if dividing is not None and dividing[0] <= BORDER_WORTH * found[0] else found


def _cheapest(
    wanted: _Wanted, capabilities: Capabilities, extents: Callable[[int], list[int]]
) -> tuple[float, Tiling] | None:
    """The cheapest tile of these extents, and its price."""
    shape, epilogue = wanted.shape, wanted.epilogue
    planned, (height, width) = tile_planner(shape, capabilities), shape.size
    whole = not shape.direct and needs_double_buffer(
        epilogue, capabilities.accelerator, capabilities.gemm
    )  # a tile of one context is all of it
    data = shape.operands[0]
    for contexts in (2, 1):
        best: tuple[float, Tiling] | None = None
        for rows in extents(height):
            for columns in extents(width):
                if not _is_copied(wanted, capabilities, (rows, columns)):
                    continue
                plan = planned(rows, columns)
                for blocks in divisors(data.blocks):
                    tile = blocks, rows, columns
                    if not _fits_scratchpads(wanted, plan, capabilities, tile, contexts):
                        break
                    if whole and contexts == 1 and (tile, data.batch) != ((data.blocks, height, width), 1):
                        continue
                    price = _price(wanted, plan, capabilities, tile, contexts)
                    if best is None or price < best[0]:
                        pitches = -(-height // rows) * rows, -(-width // columns) * columns
                        best = price, Tiling(*tile, 1, 1, 1, "stream", contexts, contexts, *pitches)
        if best is not None:
            return best
    return None


def _padding_is_loadable(shape: Lanewise, capabilities: Capabilities, rows: int, columns: int) -> bool:
    """Whether every tile has real data, and the loads can add the zeros around them."""
    copy = (
        None if shape.direct else capabilities.accelerator.copy_instruction(capabilities.gemm.data.memory.name, "load")
    )
    data = shape.operands[0]
    axes = zip(
        (rows, columns), shape.size, (data.height, data.width), shape.reach(rows, columns), shape.strides,
        shape.padding[:2], _SIDES, strict=True,
    )  # fmt: skip
    for tile, out, size, reach, stride, before, names in axes:
        last = (-(-out // tile) - 1) * tile * stride - before
        after = max(last + reach - size, 0)
        fields = [None if copy is None else getattr(copy.copy_fields, name) for name in names]
        most = [(1 << capabilities.accelerator.bits(copy, name)) - 1 if copy and name else 0 for name in fields]
        if not (before < reach and last < size and before <= most[0] and after <= most[1]):
            return False
    return True


def _is_copied(wanted: _Wanted, capabilities: Capabilities, tile: tuple[int, int]) -> bool:
    """Whether loads bring a tile of rows and columns with its padding, and a store of windows, if any, takes it."""
    (rows, columns), shape = tile, wanted.shape
    windows, accelerator = shape.stored_windows, capabilities.accelerator
    if not _padding_is_loadable(shape, capabilities, rows, columns):
        return False
    if windows is None:
        return True
    pitch = -(-shape.size[1] // columns) * columns
    return wanted.store is not None and not tile_mismatch(windows, tile, pitch, wanted.store, accelerator)


def _fits_scratchpads(wanted: _Wanted, plan: TilePlan, capabilities: Capabilities, tile: Tile, contexts: int) -> bool:
    """Whether data, accumulators, scaled identities and micro-ops have room."""
    shape, epilogue = wanted.shape, wanted.epilogue
    gemm, accelerator = capabilities.gemm, capabilities.accelerator
    blocks, rows, columns = tile
    height, width = shape.reach(rows, columns)
    own = plan.result.rows * plan.result.columns
    copies = contexts * plan.accumulators if shape.direct else contexts * own + plan.accumulators - own
    used = {gemm.dst.memory.name: blocks * (copies + epilogue.tensors) * gemm.dst.elements}
    if not shape.direct:
        data = contexts * len(shape.operands) * blocks * height * width
        for operand, count in ((gemm.data, data), (gemm.weights, len(shape.factors))):
            used[operand.memory.name] = used.get(operand.memory.name, 0) + count * operand.elements
    if not accelerator.fits(used):
        return False
    if wanted.store is not None and wanted.store.windows is not None:
        return blocks * plan.accumulators <= image_room(wanted.store, accelerator)
    table = gemm.instruction.microops
    if table is None:
        return True
    bits = min(accelerator.bits(gemm.instruction, loop.extent) for loop in gemm.instruction.loops)
    entries = sum(min(blocks, *step.extents) for step in plan.steps) + blocks * len(epilogue.grouped)
    longest = max(max(blocks, *step.extents) for step in plan.steps)
    return contexts * entries <= accelerator.memory(table.memory).depth and longest < 1 << bits


def _loaded(shape: Lanewise, capabilities: Capabilities, tile: Tile) -> float:
    """Cycles of the loads of a tile into accumulators: of each its bytes, or its share of the latency.

    A load takes rows of pixels that lie one behind the other, and several blocks of them if it can.
    """
    accelerator, gemm = capabilities.accelerator, capabilities.gemm
    meaning = capabilities.loading(gemm.dst.memory.name, "int8").meaning
    copy = None if meaning is None else meaning.instruction
    assert isinstance(copy, Copy)
    (blocks, *size), data = tile, shape.operands[0]
    height, width = shape.reach(*size)
    most = copy.max_rows or height * width
    lines = -(-height * width // most) if width == data.width else height * -(-width // most)
    if isinstance(shape, Elementwise) and shape.apart:
        lines = height * (width // line_of(width, shape.apart))
    groups = -(-blocks // (1 if copy.blocks is None else copy.blocks.most))
    bytes_moved = blocks * height * width * copy.dram_bytes(gemm.dst.memory)
    waits = lines * groups * (accelerator.dram.read_latency + _LOAD) / _LOADS
    return max(bytes_moved / accelerator.dram.bus_bytes, waits)


def _price(wanted: _Wanted, plan: TilePlan, capabilities: Capabilities, tile: Tile, contexts: int) -> float:
    """An estimate in cycles: the busiest of loads, computation and stores, which overlap with two contexts."""
    shape, steps = wanted.shape, len(wanted.epilogue.grouped)
    dram, source = capabilities.accelerator.dram, lane_tile(capabilities.gemm, direct=shape.direct)
    blocks, rows, columns = tile
    height, width = shape.reach(rows, columns)
    size = source.shape[0] * source.shape[1]
    load = 0.0
    if not shape.direct:
        load = len(shape.operands) * blocks * (dram.read_latency + height * width * size / dram.bus_bytes)
    compute = float(iterations_of_steps(plan.steps, blocks) + steps * blocks * rows * columns)
    store = blocks * rows * columns * size / dram.bus_bytes
    if steps == 0 and all(isinstance(step, Load) for step in plan.steps):
        windows = shape.stored_windows
        reads = rows * columns * (1 if windows is None else math.prod(windows.kernel))
        load = len(plan.steps) * _loaded(shape, capabilities, tile)
        together = None if wanted.store is None else wanted.store.blocks
        merged = 1 if together is None else together.most
        writes = -(-blocks // merged) * rows * columns * (dram.read_latency + _ANSWER) / _WRITES
        store = max(blocks * (_STORE + _READ * reads), writes)
        compute = (load + store + dram.read_latency + _TURN) / contexts  # as a context is loaded once it is stored
    data = shape.operands[0]
    tiles = data.batch * (data.blocks // blocks) * -(-shape.size[0] // rows) * -(-shape.size[1] // columns)
    if contexts == 1:
        return tiles * (load + compute + store)
    return tiles * max(load, compute, store) + load + store
