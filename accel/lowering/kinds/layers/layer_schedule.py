"""Schedule of a region that instructions as large as a layer do: a tile is one nest, from its data to its results."""

from typing import Any

from tvm import ir, tirx

from accel.accelerator.instructions import Layer
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.kinds.contraction.epilogue_stages import ACCUMULATE
from accel.lowering.kinds.contraction.tile_schedule import UncheckedSchedule, named_block, tile_loops
from accel.region.kinds import Region
from accel.region.tilings import Tiling

TILE_LOOPS = 3
"""Loops of a tile over its result: blocks, rows and columns, from the outside in."""

_RESULT = "result0"


def layer_of(tiling: Tiling, capabilities: Capabilities) -> Layer:
    """Returns the instruction that does a whole tile of a tiling."""
    found = capabilities.accelerator.instruction(tiling.layer)
    assert isinstance(found, Layer)
    return found


def schedule_layer_sums(
    function: tirx.PrimFunc, region: Region[Any], capabilities: Capabilities, groups: int = 1, lanes: int = 1
) -> tirx.PrimFunc:
    """Sums, or maxima, whose tile is one nest: each of its results is begun, summed and ended before the next.

    The last ``lanes`` axes that are summed lie within an element.
    """
    sch = UncheckedSchedule(ir.IRModule({"main": function}))
    tile = tile_loops(sch, region.tiling, groups)
    block = sch.get_sblock(ACCUMULATE)
    padded = named_block(sch, "padded")
    if padded is not None:
        sch.compute_inline(padded)
    c, y, x, b, o, *inner = sch.get_loops(block)[tile.depth :]
    summed, within = inner[: len(inner) - lanes], inner[len(inner) - lanes :]
    sch.reorder(c, y, x, *summed, b, o, *within)
    sch.annotate(c, layer_of(region.tiling, capabilities).pragma, 1)
    sch.reverse_compute_at(sch.get_sblock(_RESULT), x, preserve_unit_loops=True)
    sch.set_scope(block, 0, capabilities.gemm.dst.memory.scope)
    sch.decompose_reduction(block, summed[0])
    return sch.mod["main"]


def schedule_layer_points(function: tirx.PrimFunc, region: Region[Any], capabilities: Capabilities) -> tirx.PrimFunc:
    """One statement at every point of the result, whose tile is one nest."""
    sch = UncheckedSchedule(ir.IRModule({"main": function}))
    tile = tile_loops(sch, region.tiling, 1, _RESULT)
    outermost = sch.get_loops(sch.get_sblock(_RESULT))[tile.depth]
    sch.annotate(outermost, layer_of(region.tiling, capabilities).pragma, 1)
    return sch.mod["main"]
