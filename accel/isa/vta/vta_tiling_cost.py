"""What a tiling costs on VTA, for the planner: an estimate in cycles from the rules of the timing model.

Loads, arithmetic and stores of a region work on tiles at the same time. The slowest of them sets the pace, and what
the others do before its first tile and after its last comes on top. ``accel/isa/vta/timing/vta_timing.py`` is the
measure; this is only the guide.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.memories import Memory
from accel.isa.vta.document.vta_parameters import VtaParameters, parameters_of
from accel.region.epilogue import Epilogue
from accel.region.kinds import TilingOption
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates
from accel.util.arrays import Bools, Float64, Int64

_PASS = 7  # cycles that a load, a GEMM or an ALU instruction takes beside its beats or its iterations
_STORE = 3  # that a store takes beside its elements
_STORE_BURST = 3
_LAUNCH = 5  # of the first fetch beside its latency and its beats
_INSTRUCTION = 16  # bytes
# parts of a first load, of the last passes and of the end that a seam shows: fitted (docs/decisions/0211)
_SEAM_DATA, _SEAM_WEIGHTS, _SEAM_PASSES, _SEAM_END = 0.2, 0.7, 0.1, 0.2


def prices_exactly(option: TilingOption, _accelerator: Accelerator) -> bool:
    """Returns whether estimates are as good as trials, which win 0.05% of a network then (``bench/trials.py``).

    Where a layer adds an operand they are off by 2 to 4%, and where its result is a line, which takes few cycles, by
    more.
    """
    region = option.region
    plain = "add_operand" not in (op for op, _ in region.epilogue.steps)
    return plain and isinstance(region.shape, Convolution) and min(region.shape.out_height, region.shape.out_width) > 1


def tiling_cost(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator
) -> npt.NDArray[np.float64]:
    """Estimated cycles of each candidate (n,) in a launch of its own."""
    parameters = parameters_of(accelerator)
    units = _units(c, conv, epilogue, gemm, accelerator)
    tile, at_once = units.tile, np.minimum(units.fetched, parameters.fetch_burst_instructions)
    start = _LAUNCH + accelerator.dram.read_latency + _beats(accelerator) * at_once
    one = c.result_contexts == 1
    behind = np.maximum(units.compute + tile.store, tile.whole(c) + units.stores)
    paced = units.first + np.where(one, units.compute + units.stores, behind)
    overlapped = np.maximum(units.load + units.last + tile.store, paced)
    return np.asarray(start + np.where(units.alone, np.maximum(units.serial, overlapped), overlapped), dtype=np.float64)


def joined_tiling_cost(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator
) -> npt.NDArray[np.float64]:
    """Estimated cycles that each candidate (n,) adds to launches that run as one.

    Its first loads and its last store lie beside the arithmetic of its neighbours, but for a part of what is waited
    for at a seam. Where its loads set the pace what of them is data has nothing beside it while a neighbour ends; so a
    pooling, which loads nothing else, takes what it takes alone, but for biases that wait for the loads of two tiles
    which its neighbour has let come.
    """
    if conv.uniform:
        waiting = _biases_wait(c, conv, epilogue, gemm, accelerator)
        return np.asarray(np.maximum(tiling_cost(c, conv, epilogue, gemm, accelerator), waiting))
    units = _units(c, conv, epilogue, gemm, accelerator)
    loads, tile = units.loads, units.tile
    compute = units.compute + tile.clear
    paced = np.where(c.result_contexts == 1, compute + units.stores, np.maximum(compute, units.stores))
    share = c.data_loads * loads.data / units.load
    ends = (units.last + tile.store) * (_SEAM_END + (1 - _SEAM_END) * share)
    seam = _SEAM_DATA * loads.data + _SEAM_WEIGHTS * loads.weights + _SEAM_PASSES * tile.passes
    overlapped = np.maximum(units.load + ends, paced + seam)
    cycles = np.where(units.alone, np.maximum(units.serial, overlapped), overlapped)
    return np.asarray(cycles, dtype=np.float64)


def _biases_wait(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator
) -> Float64:
    """Cycles (n,) of tiles that each load a bias behind the load that their own products let begin.

    All contexts are full when the first tile is multiplied. So a load begins with the end of a tile's products, the
    bias of the next one comes behind that, and its products behind the bias: none of them beside another.
    """
    if not epilogue.tensors:
        return np.zeros(c.out_rows.shape)
    loops = _loops(c, conv)
    loads = _loads(c, conv, epilogue, gemm, accelerator, loops)
    tile = _tile(c, conv, epilogue, gemm, accelerator)
    each = c.reductions * np.maximum(loads.step, tile.step) + tile.step + tile.clear
    return np.asarray(np.where((loops.biases == c.tiles) & (c.tiles > 1), c.tiles * each, 0.0))


class _Units(NamedTuple):
    """Cycles (n,) of the units for all tiles, and of one tile; ``alone`` where they take turns, for ``serial`` cycles.

    ``first`` are those until the first product, and ``last`` those of the compute unit after the last load. ``fetched``
    are the instructions, those after the first fetch on the channel of the loads.
    """

    loads: "_Loads"
    tile: "_Tile"
    fetched: Int64
    load: Float64
    compute: Float64
    stores: Float64
    first: Float64
    last: Float64
    serial: Float64
    alone: Bools


def _units(c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator) -> _Units:
    loops = _loops(c, conv)
    loads = _loads(c, conv, epilogue, gemm, accelerator, loops)
    tile = _tile(c, conv, epilogue, gemm, accelerator)

    fetched = _instructions(c, conv, epilogue, loops, loads)
    later = _beats(accelerator) * np.maximum(fetched - parameters_of(accelerator).fetch_burst_instructions, 0)
    load = c.data_loads * loads.data + np.maximum(c.weight_loads, 1) * loads.weights + later
    load = load + loops.biases * loads.product + c.tiles * loads.operand

    compute = _compute(c, epilogue, loops, loads, tile, load)
    stores = c.tiles * tile.store
    last = tile.step + tile.passes + np.where(loops.biases == c.tiles, loads.bias, 0)
    if epilogue.tensors:  # where data stay the bias is loaded after the products, behind the loads of the next tile
        before = loads.bias + tile.passes + tile.clear + np.where(c.result_contexts == 1, tile.store, 0)
        last = last + np.where(loops.data_stay, before, 0)
    serial = load + compute + tile.clear + loads.bias + (stores if c.contexts == 1 else tile.store)
    alone = _takes_turns(c, epilogue, loops) | (c.contexts == 1)
    first = _first_loads(epilogue, loops, loads, tile)
    return _Units(loads, tile, fetched, load, compute, stores, first, last, serial, alone)


def _beats(accelerator: Accelerator) -> float:
    """Cycles of the bus for an instruction."""
    return _INSTRUCTION / accelerator.dram.bus_bytes


class _Loops(NamedTuple):
    """What the order of the loops makes of a region, for each candidate (n,).

    ``stacks`` are the groups of output blocks, ``biases`` how often a bias is loaded. Where ``data_stay`` or
    ``weights_stay`` that operand is loaded for several tiles at once.
    """

    stacks: Int64
    biases: Int64
    data_stay: Bools
    weights_stay: Bools


def _loops(c: Candidates, conv: Convolution) -> _Loops:
    stacks, steps = conv.out_blocks // c.out_blocks, c.tiles * c.reductions
    data_stay = (c.data_loads < steps) & (stacks > 1)
    weights_stay = (c.weight_loads < steps) & (not conv.uniform)
    return _Loops(stacks, np.where(data_stay, c.tiles, stacks), data_stay, weights_stay)


class _Loads(NamedTuple):
    """Cycles (n,) of a load of each operand, 0 of those that a region has not, and instructions of one of data.

    ``step`` are those of a step of the reduction: of what does not stay.
    """

    data: Float64
    weights: Float64
    product: Float64
    operand: Float64
    bias: Float64
    step: Float64
    data_pieces: Int64


def _loads(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator, loops: _Loops
) -> _Loads:
    """Each instruction takes the latency again; what lies in a line or in rows of one pitch takes one."""
    begin, none = _PASS + accelerator.dram.read_latency, np.zeros(c.out_rows.shape)

    def beats(memory: Memory, elements: Int64 | int) -> Float64:
        return np.asarray(elements * memory.element_bytes / accelerator.dram.bus_bytes)

    rectangle = (c.data_rows == 1) | ((c.data_columns == conv.data.pitch_w) & (sum(conv.padding) == 0))
    pieces = np.where(rectangle, 1, c.data_blocks)
    data = begin * pieces + beats(gemm.data.memory, c.data_blocks * c.data_rows * c.data_columns)
    tiles = 1 if conv.uniform else c.out_blocks * c.in_blocks * c.kernel_rows * c.kernel_columns
    weights = begin + beats(gemm.weights.memory, tiles) + none
    product = epilogue.products * (begin + beats(gemm.weights.memory, c.out_blocks)) + none
    operand = none
    if epilogue.adds_operand:
        results = c.out_blocks * c.out_rows * c.out_columns
        operand = begin * _result_pieces(c, conv) + beats(gemm.data.memory, results)
    bias = epilogue.tensors * (begin + beats(gemm.dst.memory, c.out_blocks))
    steps = c.tiles * c.reductions
    step = np.where(c.data_loads == steps, data, 0) + np.where(c.weight_loads == steps, weights, 0)
    return _Loads(data, weights, product, operand, bias, step + np.where(loops.data_stay, product, 0), pieces)


def _result_pieces(c: Candidates, conv: Convolution) -> Int64:
    """Instructions that move a tile of the result."""
    return np.where((c.out_rows == 1) | (c.out_columns == conv.out_width), 1, c.out_blocks)


class _Tile(NamedTuple):
    """Cycles (n,) that a tile takes: to clear it, for a step of its reduction, for its epilogue, and to store it."""

    clear: Float64
    step: Float64
    passes: Float64
    store: Float64

    def whole(self, c: Candidates) -> Float64:
        """Cycles of its arithmetic."""
        return self.clear + c.reductions * self.step + self.passes


def _tile(c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator) -> _Tile:
    parameters: VtaParameters = parameters_of(accelerator)
    results = (c.out_blocks * c.out_rows * c.out_columns).astype(np.float64)
    shifts = epilogue.planes - 1
    immediate = len(epilogue.steps) - epilogue.tensors - epilogue.sums + shifts
    two_operands = parameters.two_operand_pass_cycles * epilogue.tensors
    each = parameters.immediate_pass_cycles * immediate + two_operands + epilogue.sums
    element = 1 + -(-gemm.data.memory.element_bytes // accelerator.dram.bus_bytes)
    bursts = c.out_blocks * np.where(c.out_columns == conv.out_width, 1, c.out_rows)
    return _Tile(
        clear=_PASS + results,
        step=_PASS + results * c.in_blocks * c.kernel_rows * c.kernel_columns,
        passes=_PASS * (len(epilogue.steps) + shifts) + results * each,
        store=epilogue.planes * (_STORE + element * results + _STORE_BURST * bursts),
    )


def _instructions(c: Candidates, conv: Convolution, epilogue: Epilogue, loops: _Loops, loads: _Loads) -> Int64:
    biases = epilogue.products + epilogue.tensors
    once = c.data_loads * loads.data_pieces + c.weight_loads + loops.biases * biases
    steps = 1 + c.reductions + len(epilogue.steps) + epilogue.planes - 1
    return 2 + once + c.tiles * (steps + epilogue.planes * _result_pieces(c, conv))


def _first_loads(epilogue: Epilogue, loops: _Loops, loads: _Loads, tile: _Tile) -> Float64:
    """Cycles until the first product: of its loads, and of what is made of the accumulators meanwhile.

    A bias that follows long loads comes when they are done.
    """
    first = loads.data + loads.weights + loads.product
    if not epilogue.tensors:
        return np.maximum(first, tile.clear)
    before = np.where(loops.data_stay, 0, tile.clear + loads.bias)
    behind = ~(loops.weights_stay | loops.data_stay)
    return np.maximum(first + np.where(behind, tile.clear, 0), before)


def _compute(c: Candidates, epilogue: Epilogue, loops: _Loops, loads: _Loads, tile: _Tile, load: Float64) -> Float64:
    """Cycles of the compute unit from its first product on, with what it waits for though its loads are faster."""
    whole = tile.whole(c)
    tiles = np.asarray((c.tiles - 1) * np.maximum(whole, _late(c, loads, tile)), dtype=np.float64)
    # of the first tile no load came while another ended
    tiles = tiles + np.maximum(whole, tile.clear + tile.step + tile.passes + (c.reductions - 1) * loads.step)
    inner = c.tiles // loops.stacks

    # an operand that stays comes all at once, and the loads are at most as far ahead as there are contexts
    staying = np.where(loops.weights_stay, loads.weights, 0) + np.where(loops.data_stay, 0, loads.product)
    ahead = c.contexts * (whole - np.where(loops.data_stay, 0, loads.data) * c.reductions)
    stalls = np.where((staying > 0) & ~loops.data_stay, np.maximum(staying - ahead, 0), 0)
    tiles = tiles + (loops.stacks - 1) * stalls
    if epilogue.tensors:
        # the channel serves a bias after the load that begins with the end of the last product
        before = loads.step + np.where(loops.weights_stay & (inner <= c.contexts), loads.weights, 0)
        waits = np.maximum(before - np.where(loops.data_stay, 0, tile.passes), 0)
        stored = np.where(c.result_contexts == 1, tile.store, 0)
        paces = (c.tiles * (whole + stored) + loops.biases * loads.bias > load) & (loops.biases > 1)
        tiles = tiles + loops.biases * (loads.bias + np.where(paces, waits, 0))
    return np.asarray(tiles - tile.clear - np.where(loops.data_stay, 0, loads.bias))


def _late(c: Candidates, loads: _Loads, tile: _Tile) -> Float64:
    """Cycles of a tile whose loads are slower than its products; 0 of one where they are not.

    While the units end a tile the loads run ahead by as many steps as there are contexts. The others come one after
    the other once the first of those is done, and the last product after the last of them.
    """
    late = tile.clear + tile.passes + 2 * tile.step + (c.reductions - c.contexts) * loads.step
    return np.where((loads.step > tile.step) & (c.reductions > c.contexts), late, 0.0)


def _takes_turns(c: Candidates, epilogue: Epilogue, loops: _Loops) -> Bools:
    """Whether loads and products alternate, as the tokens of other loads do not cover those of a bias by a product.

    They do where it takes one more step until its context comes again (``accel/lowering/sync/token_insertion.py``).
    Where data stay it has the contexts of the results, and no other load has more.
    """
    if not epilogue.has_product:
        return np.zeros(c.out_rows.shape, np.bool_)
    inner = c.tiles // loops.stacks * c.reductions
    uncovered = (loops.stacks > c.contexts) & (inner > 1) & ((c.contexts - 1) * inner < c.contexts + 1)
    return np.where(loops.data_stay, c.result_contexts == 1, uncovered)
