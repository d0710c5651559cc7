"""Elementwise work as regions: sums, maxima, minima and products of operands, each times a weight."""

import math
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from tvm import te, tirx

from accel.accelerator.instructions import Copy
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion, clip_bounds
from accel.lowering.analysis.epilogue_planning import narrowing_epilogues, steps_per_instruction, with_bias
from accel.lowering.analysis.lanewise_capabilities import (
    identity_obstacle,
    initial_accumulators,
    lane_capabilities,
    load_obstacle,
)
from accel.lowering.analysis.store_mismatch import store_mismatch
from accel.lowering.ir.epilogue_arithmetic import apply_pair
from accel.lowering.kinds.lanewise.lanewise_kind import LanewiseKind
from accel.lowering.kinds.lanewise.lanewise_tiling import lanewise_tiling
from accel.lowering.kinds.lanewise.summed_loads import schedule_summed_loads
from accel.lowering.kinds.layers.layer_options import packed_image
from accel.lowering.kinds.region_kind import PlanRequest, Refusal
from accel.region.elementwise import PAIRS, Elementwise, can_weight, line_of
from accel.region.epilogue import Epilogue
from accel.region.kinds import Region, TilingOption
from accel.region.shapes import PackedActivation

_MOST_LOADS = 3  # of which a sum may be made
_LEAST_LINE = 3  # times which it has as many columns as blocks are apart
_LEAST_BLOCKS = 2  # of channels: of one a load takes so little that it waits for memory
_MAX_OPERANDS = 127  # what a weight can be
_NAMES = {"sum": "sum", "max": "maximum", "min": "minimum", "product": "product"}


class ElementwiseKind(LanewiseKind[Elementwise]):
    """Several operands of one size combined; additions too, where they can be no contraction."""

    shape = Elementwise
    operators = frozenset({"add", "elementwise"})

    def plan(self, request: PlanRequest) -> list[TilingOption[Elementwise]] | Refusal:
        """The way to run a composite, or why there is none."""
        if not request.capabilities.small:
            title = request.capabilities.accelerator.title
            return Refusal(f"no instruction of {title} does it: they are as large as a layer", defers=True)
        bordered = request.use.wants_border(request.capabilities)
        added = added_by_loads(request.composite, request.capabilities, bordered=bordered)
        if added is not None:
            return [TilingOption(0.0, added)]
        region = _region(request.composite, request.capabilities, bordered=bordered)
        return Refusal(region) if isinstance(region, str) else [TilingOption(0.0, region)]

    def schedule(
        self, function: tirx.PrimFunc, region: Region[Elementwise], capabilities: Capabilities
    ) -> tirx.PrimFunc:
        """The function as the nests of its steps, with their pragmas."""
        if region.shape.apart:
            return schedule_summed_loads(function, region, capabilities)
        return super().schedule(function, region, capabilities)

    def combine(self, operands: list[te.Tensor], shape: Elementwise, extents: tuple[int, ...]) -> te.Tensor:
        """The operands from the left."""

        def element(*at: Any) -> Any:
            values = [operand(*at) for operand in operands]
            return reduce(lambda value, other: apply_pair(value, shape.pair_op, other), values)

        return te.compute(extents, element, name="combined")


def _region(composite: CompositeRegion, capabilities: Capabilities, *, bordered: bool) -> Region[Elementwise] | str:
    epilogue = _ending(composite, capabilities)
    obstacle = load_obstacle(capabilities) or _obstacle(composite, capabilities)
    if obstacle or isinstance(epilogue, str):
        return obstacle or str(epilogue)
    gemm = capabilities.gemm
    if len(composite.result) == 4:
        n, c, h, w = composite.result
        packed = PackedActivation(math.ceil(n / gemm.rows), math.ceil(c / gemm.out_channels), h, w, h, w)
    else:
        m, k = composite.result
        rows = math.ceil(m / gemm.rows)
        packed = PackedActivation(1, math.ceil(k / gemm.out_channels), 1, rows, 1, rows)
    inputs = (packed,) * len(composite.weights)
    shape = Elementwise(inputs, composite.weights, composite.combination, direct=bool(identity_obstacle(capabilities)))
    tiling = lanewise_tiling(shape, capabilities, epilogue, bordered=bordered)
    if tiling is None:
        return f"no tile of it fits the scratchpads of {capabilities.accelerator.title}"
    return Region(shape, epilogue, tiling)


def added_by_loads(
    composite: CompositeRegion, capabilities: Capabilities, *, bordered: bool
) -> Region[Elementwise] | None:
    """The region of a sum of which loads add each operand onto the ones before; None where they cannot, or may not pay.

    Weights but for what all have in common must be small: an operand is loaded as often as its weight says.
    """
    memory, gemm = capabilities.gemm.dst.memory.name, capabilities.gemm
    if any(capabilities.loading(memory, "int8", adds=adds).pragma is None for adds in (False, True)):
        return None
    if not gemm.results_are_data or composite.combination != "sum" or min(composite.weights) <= 0:
        return None
    if composite.scaling is None or composite.has_bias or composite.steps:
        return None
    common = math.gcd(*composite.weights) if composite.scaling.gelu is None else 1  # its constants are of whole sums
    weights = tuple(weight // common for weight in composite.weights)
    scaling = replace(composite.scaling, scale=float(np.float32(composite.scaling.scale) * np.float32(common)))
    epilogue = Epilogue((), scaling=scaling)
    exact = common & (common - 1) == 0  # a power of two: the product with a float is as before
    if sum(weights) > _MOST_LOADS or not exact or capabilities.store("int8", scaling) is None:
        return None
    packed = packed_image(composite.result, gemm)
    if isinstance(packed, str) or packed.blocks < _LEAST_BLOCKS:
        return None
    apart = _blocks_apart(epilogue, capabilities)
    if apart and _LEAST_LINE * line_of(packed.width, apart) < min(packed.width, apart):
        apart = 0  # short lines would take a load each
    shape = Elementwise((packed,) * len(weights), weights, "sum", direct=True, onto=True, apart=apart)
    tiling = lanewise_tiling(shape, capabilities, epilogue, bordered=bordered)
    return None if tiling is None else Region(shape, epilogue, tiling)


def _blocks_apart(epilogue: Epilogue, capabilities: Capabilities) -> int:
    """Accumulators from block to block of a store that takes several; 0 where it takes one."""
    meaning = capabilities.storing(epilogue.result, epilogue.scaling).meaning
    copy = None if meaning is None else meaning.instruction
    return (copy.blocks.apart or 0) if isinstance(copy, Copy) and copy.blocks is not None else 0


def _obstacle(terms: CompositeRegion, capabilities: Capabilities) -> str:
    """What the accelerator lacks to combine the operands; empty where nothing."""
    title, direct = capabilities.accelerator.title, bool(identity_obstacle(capabilities))
    if not direct and any(abs(weight) > _MAX_OPERANDS for weight in terms.weights):
        return "the operands' scales lie more than a factor 64 apart"
    ways = lane_capabilities(capabilities, PAIRS[terms.combination], terms.weights)
    needed = len(terms.weights) > 1 and (terms.combination != "sum" or direct)
    if needed and not ways.pair and not ways.difference:
        why = capabilities.pair(PAIRS[terms.combination]).why
        return f"{title} has no {_NAMES[terms.combination]} of two accumulators{f': {why}' if why else ''}"
    if not direct:
        return ""
    for weight in terms.weights:
        if weight < 0 and not can_weight(weight, ways):
            return f"{title} loads int8 into its accumulators but cannot negate it there"
        if not can_weight(weight, ways):
            return f"{title} can neither multiply its accumulators by {weight}, nor make that of shifts left and sums"
    return ""


def _ending(composite: CompositeRegion, capabilities: Capabilities) -> Epilogue | str:
    """The whole epilogue on the accelerator, or why it cannot be."""
    lacking = ""
    for epilogue in narrowing_epilogues(composite, initial_accumulators(capabilities) or "zero"):
        if capabilities.store("int8", epilogue.scaling) is None:
            continue
        found = _in_instructions(composite, epilogue, capabilities)
        if isinstance(found, Epilogue):
            return found
        lacking = lacking or found
    return lacking or store_mismatch(clip_bounds(composite), capabilities)


def _in_instructions(composite: CompositeRegion, epilogue: Epilogue, capabilities: Capabilities) -> Epilogue | str:
    """The epilogue in steps that instructions do; where accumulators begin as a load, that is of zeros."""
    if composite.has_bias:
        found = with_bias(composite, replace(epilogue, start="zero"), capabilities)
        if isinstance(found, str) or ("multiply_tensor", 0) in found.steps:
            return found if isinstance(found, str) else capabilities.lacks("multiply", 1)
        return replace(found, start=epilogue.start)
    first = epilogue.steps[:1]
    cleared = composite.combination == "sum" and epilogue.start == "bias" and not identity_obstacle(capabilities)
    if epilogue.applies_function and cleared and first and first[0][0] == "add":  # what clears sums may be any number
        epilogue = replace(epilogue, steps=epilogue.steps[1:])
    groups = steps_per_instruction(epilogue.steps, capabilities)
    return groups if isinstance(groups, str) else replace(epilogue, groups=groups)
