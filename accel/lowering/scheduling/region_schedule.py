"""Schedule: tile each region, place its buffers in the accelerator's scopes, and mark nests with pragmas.

After it every nest that an instruction will replace carries that instruction's pragma, and the loops whose
iterations may overlap carry ``pragma_contexts``: the copies of each buffer that lives inside.
"""

from typing import Any

from tvm import ir, tirx
from tvm.s_tir import Schedule

from accel.accelerator.document import Accelerator
from accel.accelerator.memories import Memory
from accel.errors import CompileError
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA, map_regions
from accel.lowering.packing.epilogue_stages import stage_name
from accel.lowering.scheduling.lanewise_schedule import schedule_lanewise
from accel.region.epilogue import SUMS, TENSOR_OPS, Epilogue
from accel.region.kinds import Region
from accel.region.shapes import LEVEL_BITS, Addition, Convolution

_FIRST, _LAST = -2, -1  # TVM's words for the first and last place of a loop's body where a block may stand

Handle = Any  # a LoopRV or SBlockRV of tvm.s_tir


def schedule(module: ir.IRModule, accelerator: Accelerator) -> ir.IRModule:
    """Schedule every PrimFunc that pack marked as a region of the accelerator."""
    able = Capabilities.of(accelerator)

    def scheduled(function: tirx.PrimFunc, region: Region) -> tirx.PrimFunc:
        if region.shape.kind in ("pooling", "elementwise"):
            return schedule_lanewise(function, region, able)
        sch = Schedule(ir.IRModule({"main": function}))
        tile = _tile_loops(sch, region)
        if region.shape.kind == "convolution":
            _place_convolution(sch, region, tile, able)
        else:
            _place_addition(sch, region, tile, able)
        _place_epilogue(sch, region, tile, able)
        sch.annotate(tile.inner, CONTEXTS_PRAGMA, region.tiling.result_contexts)
        return sch.mod["main"]

    return map_regions(module, scheduled)


class _Tile:
    """The loops over output tiles: of channel groups, the innermost of all, and how deep that one is."""

    def __init__(self, channels: Handle, pixels: Handle, inner: Handle, depth: int) -> None:
        self.channels = channels
        self.pixels = pixels
        self.inner = inner
        self.depth = depth


def _load_pragma(able: Capabilities, memory: Memory, dtype: str) -> str:
    pragma = able.load(memory.name, dtype)
    if pragma is None:
        raise CompileError(f"the accelerator has no load of {dtype} into {memory.name}", field=INSTRUCTIONS)
    return pragma


def _tile_loops(sch: Schedule, region: Region) -> _Tile:
    """Cut the accumulation's output loops; the tile's own loops follow the outer ones."""
    shape, tiling = region.shape, region.tiling
    n, c, y, x, b, o = sch.get_loops(sch.get_sblock("accumulate"))[:6]
    c_tile, c_in = sch.split(c, [None, tiling.out_blocks])
    y_tile, y_in = sch.split(y, [None, tiling.out_rows])
    x_tile, x_in = sch.split(x, [None, tiling.out_columns])
    groups = []
    if isinstance(shape, Convolution) and shape.groups > 1 and shape.group_blocks > 1:
        group, c_tile = sch.split(c_tile, [shape.groups, None])  # the data's block is affine in these two
        groups = [group]
    outer = [n, y_tile, x_tile, c_tile] if tiling.order == "data" else [*groups, c_tile, n, y_tile, x_tile]
    sch.reorder(*outer, c_in, y_in, x_in, b, o)
    return _Tile(c_tile, x_tile, outer[-1], len(outer))


def _place_convolution(sch: Schedule, region: Region, tile: _Tile, able: Capabilities) -> None:
    gemm, tiling = able.gemm, region.tiling
    block = sch.get_sblock("accumulate")
    c, y, x, b, o, ci, kh, kw, i = sch.get_loops(block)[tile.depth :]
    ci_step, ci_in = sch.split(ci, [None, tiling.in_blocks])
    kh_step, kh_in = sch.split(kh, [None, tiling.kernel_rows])
    kw_step, kw_in = sch.split(kw, [None, tiling.kernel_columns])
    sch.reorder(ci_step, kh_step, kw_step, c, y, x, ci_in, kh_in, kw_in, b, o, i)
    step = sch.fuse(ci_step, kh_step, kw_step)
    sch.annotate(c, gemm.instruction.pragma, 1)
    sch.annotate(step, CONTEXTS_PRAGMA, tiling.operand_contexts)
    sch.set_scope(block, 0, gemm.dst.memory.scope)

    data, weights = gemm.data.memory, gemm.weights.memory
    padded = _named_block(sch, "padded")
    if padded is None:
        padded = sch.cache_read(block, 0, data.scope)
    else:
        sch.set_scope(padded, 0, data.scope)
    _copy_in(sch, padded, tile.pixels if tiling.order == "data" else step, _load_pragma(able, data, data.dtype))
    kernel = sch.cache_read(block, 1, weights.scope)
    where = tile.channels if tiling.order == "weights" else step
    if isinstance(region.shape, Convolution) and region.shape.uniform:
        where = None
    _copy_in(sch, kernel, where, _load_pragma(able, weights, weights.dtype))
    for loop in _staying(region, tile):
        sch.annotate(loop, CONTEXTS_PRAGMA, tiling.operand_contexts)
    _start(sch, block, step, tile.depth, region.epilogue, able)


def _staying(region: Region, tile: _Tile) -> list[Handle]:
    """The loops around those of a tile in whose iterations an operand stays; the tile's own has its contexts."""
    if region.tiling.order == "data":
        return [tile.pixels]
    stays = region.tiling.order == "weights" or region.epilogue.has_product
    return [tile.channels] if stays else []


def _named_block(sch: Schedule, name: str) -> Handle | None:
    """The block called ``name``, or None: the schedule itself has no such question."""
    root = sch.get_sblock("root")
    found = [block for block in sch.get_child_blocks(root) if sch.get(block).name_hint == name]
    return found[0] if found else None


def _copy_in(sch: Schedule, block: Handle, loop: Handle | None, pragma: str, *, first: bool = False) -> None:
    """Move a copy into ``loop`` (None: it stays at the top) and mark its whole nest.

    It goes before what reads it, or, if it shall come ``first``, to the head of the body.
    """
    depth = 0
    if loop is not None:
        # a reduction loop holds the block deeper than its own position among the outer loops
        sch.compute_at(block, loop, preserve_unit_loops=True, index=_FIRST if first else _LAST)
        depth = len(sch.get_loops(block)) - len(sch.get(block).iter_vars)
    sch.annotate(sch.get_loops(block)[depth], pragma, 1)


def _start(sch: Schedule, block: Handle, step: Handle, depth: int, epilogue: Epilogue, able: Capabilities) -> None:
    """The nest that gives the accumulators their first value: zeros by the contraction, the bias by a load."""
    init = sch.decompose_reduction(block, step)
    results = able.gemm.dst.memory
    zeros = epilogue.start == "zero"
    pragma = able.gemm.instruction.pragma if zeros else _load_pragma(able, results, results.dtype)
    nest = sch.get_loops(init)[depth]
    sch.unannotate(nest, able.gemm.instruction.pragma)  # the nest that it was taken from has it already
    sch.annotate(nest, pragma, 1)


def _place_addition(sch: Schedule, region: Region, tile: _Tile, able: Capabilities) -> None:
    gemm = able.gemm
    block = sch.get_sblock("accumulate")
    c, y, x, b, o, operand, i = sch.get_loops(block)[tile.depth :]
    sch.reorder(operand, c, y, x, b, o, i)
    sch.annotate(c, gemm.instruction.pragma, 1)
    sch.set_scope(block, 0, gemm.dst.memory.scope)
    data, weights = gemm.data.memory, gemm.weights.memory
    shape = region.shape
    assert isinstance(shape, Addition)
    more = [_place_level(sch, level, tile, able) for level in range(1, len(shape.levels))]
    for index in (0, 1):
        # both loads come before both contractions, so that they run ahead together
        copy = sch.cache_read(block, index, data.scope, [block, *more])
        _copy_in(sch, copy, tile.inner, _load_pragma(able, data, data.dtype))
    identities = sch.cache_read(block, 2, weights.scope, [block, *more])
    _copy_in(sch, identities, None, _load_pragma(able, weights, weights.dtype))
    sch.unroll(operand)
    _start(sch, block, operand, tile.depth, region.epilogue, able)
    for lower in more:
        init = sch.decompose_reduction(lower, sch.get_loops(lower)[tile.depth])
        # a nest of its own, for the sum so far to be taken over in place
        sch.annotate(sch.get_loops(init)[tile.depth], gemm.instruction.pragma, 1)


def _place_level(sch: Schedule, level: int, tile: _Tile, able: Capabilities) -> Handle:
    """A further contraction of the same operands, which begins as the sum so far, shifted left."""
    shift = able.step("shift_right", -LEVEL_BITS)
    _place_stage(sch, f"upper{level}", tile, able.gemm.dst.memory, shift)
    block = sch.get_sblock(f"accumulate{level}")
    sch.reverse_compute_at(block, tile.inner, preserve_unit_loops=True)
    sch.set_scope(block, 0, able.gemm.dst.memory.scope)
    *spatial, operand, i = sch.get_loops(block)[tile.depth :]
    sch.reorder(operand, *spatial, i)
    sch.annotate(spatial[0], able.gemm.instruction.pragma, 1)
    sch.unroll(operand)
    return block


def _place_epilogue(sch: Schedule, region: Region, tile: _Tile, able: Capabilities) -> None:
    """Compute every stage and every result inside the tile, in the order in which they use the accumulators."""
    results, epilogue = able.gemm.dst.memory, region.epilogue
    for number, steps in enumerate(epilogue.grouped):
        label = stage_name(number, steps)
        pragma = able.gemm.instruction.pragma if steps[0][0] in SUMS else able.steps(steps).pragma
        block = _place_stage(sch, label, tile, results, pragma)
        if any(name in TENSOR_OPS for name, _ in steps):
            bias = sch.cache_read(block, 1, results.scope)
            _copy_in(sch, bias, tile.channels, _load_pragma(able, results, results.dtype))
    for plane in range(epilogue.planes):
        if plane:
            shift = able.step("shift_right", 8)
            _place_stage(sch, f"plane{plane}_shift_right", tile, results, shift)
        result = sch.get_sblock(f"result{plane}")
        sch.reverse_compute_at(result, tile.inner, preserve_unit_loops=True)
        pragma = able.store(epilogue.result, epilogue.scaling)
        sch.annotate(sch.get_loops(result)[tile.depth], _known(pragma, f"store{plane}"), 1)
    for number, steps in enumerate(epilogue.grouped):
        if steps[0][0] in SUMS:  # last, as a stage is placed behind what one block writes
            _place_sum(sch, stage_name(number, steps), tile, able, whole=steps[0][0] == "add_operand")


def _place_sum(sch: Schedule, label: str, tile: _Tile, able: Capabilities, *, whole: bool) -> None:
    """A contraction on top of what the accumulators hold, and the loads of its operands; ``whole``: of a tensor.

    The loads come before those of the accumulation, whose tokens then say that these are done too.
    """
    gemm = able.gemm
    data, weights = gemm.data.memory, gemm.weights.memory
    block = sch.get_sblock(label)
    copy = sch.cache_read(block, 0, data.scope)
    _copy_in(sch, copy, tile.inner if whole else None, _load_pragma(able, data, data.dtype), first=True)
    kernel = sch.cache_read(block, 1, weights.scope)
    _copy_in(sch, kernel, None if whole else tile.channels, _load_pragma(able, weights, weights.dtype), first=True)
    sch.decompose_reduction(block, sch.get_loops(block)[tile.depth])


def _known(pragma: str | None, what: str) -> str:
    if pragma is None:
        raise CompileError(f"the accelerator has no instruction for {what}", field=INSTRUCTIONS)
    return pragma


def _place_stage(sch: Schedule, name: str, tile: _Tile, memory: Memory, pragma: str | None) -> Handle:
    block = sch.get_sblock(name)
    sch.reverse_compute_at(block, tile.inner, preserve_unit_loops=True)
    sch.set_scope(block, 0, memory.scope)
    sch.annotate(sch.get_loops(block)[tile.depth], _known(pragma, name), 1)
    return block
