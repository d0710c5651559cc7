"""Schedule of a region that sums products: its output tiles, its operands' copies, its epilogue, all under pragmas."""

from collections.abc import Callable
from typing import Any

from tvm import ir, tirx
from tvm.s_tir import Schedule

from accel.accelerator.memories import Memory
from accel.errors import CompileError
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.lowering.kinds.contraction.epilogue_stages import ACCUMULATE, stage_name
from accel.region.epilogue import SUMS, TENSOR_OPS, Epilogue
from accel.region.kinds import Region, Shape_co
from accel.region.tilings import Tiling

_FIRST, _LAST = -2, -1  # TVM's words for the first and last place of a loop's body where a block may stand

Handle = Any  # a LoopRV or SBlockRV of tvm.s_tir


class UncheckedSchedule(Schedule):  # type: ignore[misc]  # TVM's has no types
    """TVM's schedule without its checks of arguments' types at run time, which take half of a schedule's time."""


for _name, _method in vars(Schedule).items():
    if hasattr(_method, "__wrapped__"):
        setattr(UncheckedSchedule, _name, _method.__wrapped__)


class TileLoops:
    """The loops over output tiles: of channel groups, the innermost of all, and how deep that one is."""

    def __init__(self, channels: Handle, pixels: Handle, inner: Handle, depth: int) -> None:
        self.channels = channels
        self.pixels = pixels
        self.inner = inner
        self.depth = depth


def load_pragma(capabilities: Capabilities, memory: Memory, dtype: str) -> str:
    """The pragma of the load of ``dtype`` into a memory.

    Raises:
        CompileError: there is none.
    """
    pragma = capabilities.load(memory.name, dtype)
    if pragma is None:
        raise CompileError(f"the accelerator has no load of {dtype} into {memory.name}", field=INSTRUCTIONS)
    return pragma


def schedule_tiles(
    function: tirx.PrimFunc,
    region: Region[Shape_co],
    capabilities: Capabilities,
    place: Callable[[Schedule, Region[Shape_co], "TileLoops", Capabilities], None],
    groups: int = 1,
) -> tirx.PrimFunc:
    """The function in tiles; ``place`` puts the sum and the copies of its operands into the loops over them.

    Of several ``groups`` each has output blocks of its own.
    """
    sch = UncheckedSchedule(ir.IRModule({"main": function}))
    tile = tile_loops(sch, region.tiling, groups)
    place(sch, region, tile, capabilities)
    _place_epilogue(sch, region.epilogue, tile, capabilities)
    sch.annotate(tile.inner, CONTEXTS_PRAGMA, region.tiling.result_contexts)
    return sch.mod["main"]


def tile_loops(sch: Schedule, tiling: Tiling, group_count: int, block: str = ACCUMULATE) -> TileLoops:
    """Cut a block's output loops; the tile's own loops follow the outer ones."""
    n, c, y, x, b, o = sch.get_loops(sch.get_sblock(block))[:6]
    c_tile, c_in = sch.split(c, [None, tiling.out_blocks])
    y_tile, y_in = sch.split(y, [None, tiling.out_rows])
    x_tile, x_in = sch.split(x, [None, tiling.out_columns])
    groups = []
    if group_count > 1:
        group, c_tile = sch.split(c_tile, [group_count, None])  # the data's block is affine in these two
        groups = [group]
    outer = [n, y_tile, x_tile, c_tile] if tiling.order == "data" else [*groups, c_tile, n, y_tile, x_tile]
    sch.reorder(*outer, c_in, y_in, x_in, b, o)
    return TileLoops(c_tile, x_tile, outer[-1], len(outer))


def named_block(sch: Schedule, name: str) -> Handle | None:
    """The block called ``name``, or None: the schedule itself has no such question."""
    root = sch.get_sblock("root")
    found = [block for block in sch.get_child_blocks(root) if sch.get(block).name_hint == name]
    return found[0] if found else None


def copy_in(sch: Schedule, block: Handle, loop: Handle | None, pragma: str, *, first: bool = False) -> None:
    """Move a copy into ``loop`` (None: it stays at the top) and mark its whole nest.

    It goes before what reads it, or, if it shall come ``first``, to the head of the body.
    """
    depth = 0
    if loop is not None:
        # a reduction loop holds the block deeper than its own position among the outer loops
        sch.compute_at(block, loop, preserve_unit_loops=True, index=_FIRST if first else _LAST)
        depth = len(sch.get_loops(block)) - len(sch.get(block).iter_vars)
    sch.annotate(sch.get_loops(block)[depth], pragma, 1)


def start_accumulators(
    sch: Schedule, block: Handle, step: Handle, depth: int, epilogue: Epilogue, capabilities: Capabilities
) -> None:
    """The nest that gives the accumulators their first value: zeros by the contraction, the bias by a load."""
    init = sch.decompose_reduction(block, step)
    results = capabilities.gemm.dst.memory
    zeros = epilogue.start == "zero"
    pragma = (
        capabilities.gemm.instruction.pragma if zeros else load_pragma(capabilities, results, results.dtype_in_dram)
    )
    nest = sch.get_loops(init)[depth]
    sch.unannotate(nest, capabilities.gemm.instruction.pragma)  # the nest that it was taken from has it already
    sch.annotate(nest, pragma, 1)


def _place_epilogue(sch: Schedule, epilogue: Epilogue, tile: TileLoops, capabilities: Capabilities) -> None:
    """Compute every stage and every result inside the tile, in the order in which they use the accumulators."""
    results = capabilities.gemm.dst.memory
    for number, steps in enumerate(epilogue.grouped):
        label = stage_name(number, steps)
        pragma = capabilities.gemm.instruction.pragma if steps[0][0] in SUMS else capabilities.steps(steps).pragma
        block = place_stage(sch, label, tile, results, pragma)
        if any(name in TENSOR_OPS for name, _ in steps):
            bias = sch.cache_read(block, 1, results.scope)
            copy_in(sch, bias, tile.channels, load_pragma(capabilities, results, results.dtype_in_dram))
    for plane in range(epilogue.planes):
        if plane:
            shift = capabilities.step("shift_right", 8)
            place_stage(sch, f"plane{plane}_shift_right", tile, results, shift)
        result = sch.get_sblock(f"result{plane}")
        sch.reverse_compute_at(result, tile.inner, preserve_unit_loops=True)
        pragma = capabilities.store(epilogue.result, epilogue.scaling)
        sch.annotate(sch.get_loops(result)[tile.depth], _known(pragma, f"store{plane}"), 1)
        for role, name in () if epilogue.factors is None else epilogue.factors.operands:
            memory = capabilities.accelerator.memory(name)
            reads = [str(region.source.name) for region in sch.get(result).reads]
            copied = sch.cache_read(result, reads.index(role), memory.scope)
            copy_in(sch, copied, tile.channels, load_pragma(capabilities, memory, "int32"))
    for number, steps in enumerate(epilogue.grouped):
        if steps[0][0] in SUMS:  # last, as a stage is placed behind what one block writes
            _place_sum(sch, stage_name(number, steps), tile, capabilities, whole=steps[0][0] == "add_operand")


def _place_sum(sch: Schedule, label: str, tile: TileLoops, capabilities: Capabilities, *, whole: bool) -> None:
    """A contraction on top of what the accumulators hold, and the loads of its operands; ``whole``: of a tensor.

    The loads come before those of the accumulation, whose tokens then say that these are done too.
    """
    gemm = capabilities.gemm
    data, weights = gemm.data.memory, gemm.weights.memory
    block = sch.get_sblock(label)
    copy = sch.cache_read(block, 0, data.scope)
    copy_in(sch, copy, tile.inner if whole else None, load_pragma(capabilities, data, data.dtype), first=True)
    kernel = sch.cache_read(block, 1, weights.scope)
    copy_in(
        sch, kernel, None if whole else tile.channels, load_pragma(capabilities, weights, weights.dtype), first=True
    )
    sch.decompose_reduction(block, sch.get_loops(block)[tile.depth])


def _known(pragma: str | None, what: str) -> str:
    if pragma is None:
        raise CompileError(f"the accelerator has no instruction for {what}", field=INSTRUCTIONS)
    return pragma


def place_stage(sch: Schedule, name: str, tile: TileLoops, memory: Memory, pragma: str | None) -> Handle:
    """Compute the stage ``name`` inside the tile, in a memory and under a pragma.

    Raises:
        CompileError: nothing does it, as there is no pragma.
    """
    block = sch.get_sblock(name)
    sch.reverse_compute_at(block, tile.inner, preserve_unit_loops=True)
    sch.set_scope(block, 0, memory.scope)
    sch.annotate(sch.get_loops(block)[tile.depth], _known(pragma, name), 1)
    return block
