"""Options of layers that instructions as large as a layer do, with their own ways to begin and to end sums."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.lowering.analysis.dataflow import CompositeUse
from accel.lowering.analysis.epilogue_planning import EpiloguePlan, narrowing_epilogues, plan_epilogue
from accel.lowering.kinds.contraction.convolution_forms import convolution_forms
from accel.lowering.kinds.layers.layer_tilings import (
    LayerCandidates,
    Scheduled,
    TileAxes,
    layer_candidates,
    layer_tilings,
)
from accel.lowering.kinds.layers.like_endings import like_ending
from accel.region.epilogue import Epilogue, Start
from accel.region.kinds import Region, TilingOption
from accel.region.shapes import Addition, Convolution, PackedActivation, split_weights
from accel.region.tilings import BORDER_WORTH, Tiling, block_choices, divisors

_OPTIONS_KEPT = 2  # tilings of each shape and epilogue


def whole_tiling(blocks: int, rows: int, columns: int) -> Tiling:
    """Returns the tiling of one tile, with blocks, rows and columns of the result; ``layer`` is for who knows it."""
    return Tiling(blocks, rows, columns, 1, 1, 1, "stream", 1, 1, rows, columns)


def layer_convolutions(
    composite: CompositeRegion,
    use: CompositeUse,
    capabilities: Capabilities,
    scheduled: Scheduled,
    limit: float = math.inf,
) -> list[TilingOption[Convolution]] | str:
    """The cheapest options of the first shapes that a layer of the document does; or why there is none.

    What must cost more than ``limit`` cycles is none.
    """
    if not capabilities.accelerator.layers:
        return f"{capabilities.accelerator.title} has no instructions as large as a layer"
    why, bordered = "", use.wants_border(capabilities)
    for alternatives in convolution_forms(composite, capabilities, from_host=use.from_host):
        found: list[TilingOption[Convolution]] = []
        for shape in alternatives:
            for epilogue, left in _endings(composite, capabilities):
                region = Region(shape, epilogue, _whole(shape), left)
                tilings = _tilings(region, capabilities, scheduled, limit, bordered=bordered)
                if isinstance(tilings, str):
                    why = why or tilings
                    continue
                found += tilings
                break  # the others are ways to say the same
        if found:
            return sorted(found, key=lambda option: option.cycles)
    return why


def layer_additions(
    composite: CompositeRegion, capabilities: Capabilities, scheduled: Scheduled
) -> list[TilingOption[Addition]] | str:
    """The cheapest options of an addition that a layer of the document does at every point; or why there is none."""
    gemm, title = capabilities.gemm, capabilities.accelerator.title
    if not capabilities.accelerator.layers:
        return f"{title} has no instructions as large as a layer"
    if gemm.in_channels != gemm.out_channels or gemm.data.memory.dtype != "int8":
        return f"its tensors do not lie in DRAM as the results of {gemm.instruction.name} do"
    if composite.has_bias or not composite.narrow:
        return "no layer adds a tensor to each channel" if composite.has_bias else "its result is int32"
    data = packed_image(composite.result, gemm)
    levels = split_weights((composite.weights[0], composite.weights[1]))
    if isinstance(data, str) or levels is None:
        return data if isinstance(data, str) else "the operands' scales lie too far apart for weights of 14 bits"
    axes, why = TileAxes(divisors(data.blocks), data.height, data.width), ""
    for epilogue in narrowing_epilogues(composite, "zero"):
        region = Region(Addition((data, data), levels), epilogue, whole_tiling(data.blocks, data.height, data.width))
        made = layer_tilings(region, axes, scheduled, capabilities, 1, dividing=True)
        if not isinstance(made, str):
            return [TilingOption(each.cycles, replace(region, tiling=each.tiling)) for each in made]
        why = why or made
    return why


def packed_image(result: tuple[int, ...], gemm: Contraction) -> PackedActivation | str:
    """Returns how a tensor lies that is as large as a result: an image, or a matrix as a row of pixels."""
    if len(result) == 4:
        n, c, h, w = result
        return PackedActivation.dense(math.ceil(n / gemm.rows), math.ceil(c / gemm.in_channels), h, w)
    if len(result) == 2:
        m, k = result
        return PackedActivation.dense(1, math.ceil(k / gemm.in_channels), 1, math.ceil(m / gemm.rows))
    return f"an addition of {len(result)}-dimensional tensors"


def _endings(composite: CompositeRegion, capabilities: Capabilities) -> Iterator[tuple[Epilogue, str]]:
    """The ways to begin sums and to end them, and why the host does the rest, if it does."""
    for epilogue in _epilogues(composite):
        yield epilogue, ""
    ending = EpiloguePlan(Epilogue(())) if capabilities.small else plan_epilogue(composite, capabilities)
    if isinstance(ending, EpiloguePlan) and ending.host_reason and not ending.epilogue.steps:
        yield ending.epilogue, ending.host_reason


def _epilogues(composite: CompositeRegion) -> Iterator[Epilogue]:
    """The ways to end sums at once; what rounds is part of what they begin as."""
    starts: tuple[Start, ...] = ("bias",) if composite.has_bias else ("bias", "zero")
    for start in starts:
        if not composite.narrow:
            yield Epilogue((), start=start, result="int32")
            continue
        for epilogue in narrowing_epilogues(composite, start):
            steps = epilogue.steps
            if start == "bias" and steps and steps[0][0] == "add":
                steps = steps[1:]
            if not steps:
                yield replace(epilogue, steps=steps, groups=())


def _whole(shape: Convolution) -> Tiling:
    of_group = shape.group_blocks if shape.group_blocks > 1 else shape.out_blocks
    whole = whole_tiling(of_group, shape.out_height, shape.out_width)
    kernel = shape.kernel
    return replace(whole, in_blocks=shape.reduced_blocks, kernel_rows=kernel[0], kernel_columns=kernel[1])


def _tilings(
    region: Region[Convolution], capabilities: Capabilities, scheduled: Scheduled, limit: float, *, bordered: bool
) -> list[TilingOption[Convolution]] | str:
    """The cheapest tilings; of a result with a border those that leave that alone, if they cost little more."""
    candidates = _candidates(region, capabilities, scheduled)
    made = candidates.cheapest(_OPTIONS_KEPT, dividing=False, limit=limit)
    if bordered and not isinstance(made, str):
        most = BORDER_WORTH * made[0].cycles
        dividing = candidates.cheapest(_OPTIONS_KEPT, dividing=True, limit=most)
        made = made if isinstance(dividing, str) else dividing
    if isinstance(made, str):
        return made
    return [TilingOption(each.cycles, replace(region, tiling=each.tiling)) for each in made]


def _candidates(region: Region[Convolution], capabilities: Capabilities, scheduled: Scheduled) -> LayerCandidates:
    """All tilings of a shape, which several layers have that end alike; all of them ask the same for it."""
    region = replace(region, epilogue=like_ending(region.epilogue, capabilities))
    conv = region.shape
    key = ("layer", conv, region.epilogue)
    if key not in capabilities.tilings:
        rows, columns = (
            (conv.strides[at], conv.padding[at], size) for at, size in enumerate((conv.data.height, conv.data.width))
        )
        axes = TileAxes(block_choices(conv), conv.out_height, conv.out_width, (rows, columns))
        capabilities.tilings[key] = layer_candidates(region, axes, scheduled, capabilities)
    return cast(LayerCandidates, capabilities.tilings[key])
