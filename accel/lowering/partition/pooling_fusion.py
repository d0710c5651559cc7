"""Max poolings behind their convolution: which pairs of composites become one region, whose store takes the windows.

What a tile has summed stays in the accumulators until the store of the document that takes the largest of windows
leaves these, requantised; the image of the convolution is never in DRAM.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import ir

from accel.errors import CompileError
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion, clip_bounds, read_composite
from accel.lowering.analysis.dataflow import CompositeUse, composite_calls
from accel.lowering.analysis.epilogue_planning import EpiloguePlan, plan_epilogue
from accel.lowering.analysis.window_stores import has_windows, store_of_windows, window_mismatch
from accel.lowering.ir.affine_nest import nest_of
from accel.lowering.ir.plain_loops import PLAIN_LOOPS
from accel.lowering.ir.tir_walk import pragma_nests
from accel.lowering.kinds.convolution_kind import ConvolutionKind, convolution_options
from accel.lowering.kinds.pooling_kind import pooling_cycles
from accel.lowering.kinds.region_kind import PlanRequest, Refusal
from accel.region.epilogue import Epilogue, Scaling
from accel.region.kinds import Region, TilingOption
from accel.region.shapes import Convolution, StoredWindows
from accel.region.tilings import TilingCost


@dataclass(frozen=True)
class PooledPair:
    """A convolution, which ``made`` is the name of, and the max pooling that alone reads its result.

    ``epilogue`` is that of both but for the windows, which are ``pooled``.
    """

    convolution: CompositeRegion
    made: str
    pooling: CompositeRegion
    epilogue: Epilogue
    pooled: StoredWindows


def fused_poolings(
    pairs: Mapping[str, PooledPair],
    uses: Mapping[str, CompositeUse],
    lowest: Mapping[str, int],
    reasons: Collection[str],
    capabilities: Capabilities,
    cost: TilingCost,
) -> tuple[dict[str, Sequence[TilingOption]], dict[str, int]]:
    """Poolings with a convolution in front: their options, and that it is their operand, by its name.

    Args:
        pairs: those that could be one region, by the name of the pooling.
        uses: of both.
        lowest: the least value of each pooling's data.
        reasons: what the host has.
        capabilities: what the accelerator can do.
        cost: prices tilings.
    """
    options: dict[str, Sequence[TilingOption]] = {}
    joined: dict[str, int] = {}
    for name, pair in pairs.items():
        if not {name, pair.made}.isdisjoint(reasons):
            continue
        use = replace(uses[pair.made], padded=uses[name].padded)
        found = convolution_options(pair.convolution, use, pair.epilogue, capabilities, cost, pooled=pair.pooled)
        request = PlanRequest(pair.pooling, uses[name], lowest[name], capabilities, cost)
        apart = _unfused_cycles(pair, uses[pair.made], request) if found else 0.0
        cheaper = [option for option in found if option.cycles < apart]
        sure = next((option for option in cheaper if _has_fixed_nests(option.region, capabilities)), None)
        if sure is not None:
            # none of the others is taken that was not compiled to be timed
            options[name], joined[pair.made] = [sure, *(each for each in cheaper if each.cycles > sure.cycles)], 0
    return options, joined


def _has_fixed_nests(region: Region[Convolution], capabilities: Capabilities) -> bool:
    """Whether TVM finds the extents of what the tiles of a region load, which begin where others end."""
    kind = ConvolutionKind()
    function = kind.schedule(kind.expression(region, capabilities.gemm), region, capabilities)
    lowered = PLAIN_LOOPS(ir.IRModule({"main": function}))["main"]
    try:
        for nest in pragma_nests(lowered.body, capabilities.accelerator.pragmas):
            nest_of(nest.body)
    except CompileError:
        return False
    return True


def _unfused_cycles(pair: PooledPair, use: CompositeUse, request: PlanRequest) -> float:
    """Estimated cycles of a convolution and then a pooling, each for itself; infinite if either cannot be."""
    alone = ConvolutionKind().plan(replace(request, composite=pair.convolution, use=use))
    return math.inf if isinstance(alone, Refusal) else alone[0].cycles + pooling_cycles(request)


def pooled_pairs(module: ir.IRModule, capabilities: Capabilities) -> dict[str, PooledPair]:
    """The pairs that the accelerator can run as one, by the name of the pooling's composite."""
    if not has_windows(capabilities.accelerator) or not capabilities.small or not capabilities.gemm.results_are_data:
        return {}
    calls, reads = composite_calls(module)
    found: dict[str, PooledPair] = {}
    for call in calls.values():
        if str(module[call.op].attrs["op"]) == "max_pool" and reads.get(call.args[0]) == 1:
            made = calls.get(call.args[0])
            pair = None if made is None else _pair(made, read_composite(module[call.op]), module, capabilities)
            if pair is not None:
                found[str(call.op.name_hint)] = pair
    return found


def _pair(
    made: ir.Call, pooling: CompositeRegion, module: ir.IRModule, capabilities: Capabilities
) -> PooledPair | None:
    function = module[made.op]
    if str(function.attrs["op"]) != "conv2d":
        return None
    convolution = read_composite(function)
    if not convolution.narrow or pooling.window is None:
        return None
    ending = plan_epilogue(_clipped(convolution, pooling), capabilities)
    if not isinstance(ending, EpiloguePlan) or ending.host_reason or ending.epilogue.sums:
        return None
    store, window = store_of_windows(ending.epilogue, capabilities), pooling.window
    if store is None or window_mismatch(window, store, capabilities.accelerator):
        return None
    height, width = pooling.result[2:]
    pooled = StoredWindows(window, height, width, store.name)
    if not _can_have_border(pooled, pooling.shapes[0][2:], ending.epilogue, capabilities):
        return None
    return PooledPair(convolution, str(made.op.name_hint), pooling, ending.epilogue, pooled)


def _clipped(convolution: CompositeRegion, pooling: CompositeRegion) -> CompositeRegion:
    """The convolution with the bounds of both: what is largest stays so where all is clipped."""
    bounds = dict(pooling.steps)
    low, high = clip_bounds(convolution)
    low, high = max(low, bounds.get("max", low)), min(high, bounds.get("min", high))
    if convolution.scaling is not None:
        return replace(convolution, scaling=replace(convolution.scaling, low=low, high=high))
    clip = {"max": low, "min": high}
    last = len(convolution.steps) - len(clip)  # a relu may be a step before
    steps = tuple(
        (name, clip.get(name, value) if at >= last else value) for at, (name, value) in enumerate(convolution.steps)
    )
    return replace(convolution, steps=steps)


def _can_have_border(
    pooled: StoredWindows, image: tuple[int, ...], epilogue: Epilogue, capabilities: Capabilities
) -> bool:
    """Whether windows have none, or accumulators can be loaded with what leaves as the least that there is.

    Each window has something of the image.
    """
    rows, columns = image
    borders = pooled.borders((rows, columns))
    some = all(
        before < kernel and behind < kernel
        for (before, behind), kernel in zip(borders, pooled.window.kernel, strict=True)
    )
    results = capabilities.gemm.dst.memory
    loaded = capabilities.load(results.name, results.dtype_in_dram) is not None and not epilogue.steps
    return some and (not pooled.leave((rows, columns)) or (loaded and isinstance(epilogue.scaling, Scaling)))
