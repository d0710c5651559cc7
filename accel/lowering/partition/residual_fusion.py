"""Residual additions behind their convolution: which pairs of composites become one region, and what it does.

The accumulators of a tile, requantised, take the other operand by a contraction with an identity, and are requantised
again; nothing between the two operators leaves the accelerator.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import ir

from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion, largest_addend, read_composite
from accel.lowering.analysis.dataflow import CompositeUse, composite_calls
from accel.lowering.analysis.epilogue_planning import composite_operators, plan_epilogue
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.kinds.contraction.convolution_tiling import plan_convolution
from accel.lowering.kinds.convolution_kind import ConvolutionKind, contraction_options, convolution_options
from accel.region.epilogue import Epilogue, EpilogueOp, Steps, with_bias_by_product
from accel.region.kinds import TilingOption
from accel.region.shapes import PackedActivation
from accel.region.tilings import TilingCost

_MOST = 127  # of a weight, and of what a channel of a sum rounds by less


@dataclass(frozen=True)
class ResidualPair:
    """A contraction, which ``made`` is the name of, and the addition that alone reads its result as operand ``place``.

    ``epilogue`` is that of both, ``ending`` that of the addition alone.
    """

    contraction: CompositeRegion
    made: str
    addition: CompositeRegion
    place: int
    epilogue: Epilogue
    ending: Epilogue


def fused_additions(
    pairs: Mapping[str, ResidualPair],
    uses: Mapping[str, CompositeUse],
    reasons: Collection[str],
    capabilities: Capabilities,
    cost: TilingCost,
) -> tuple[dict[str, Sequence[TilingOption]], dict[str, int]]:
    """Additions with a contraction in front: their options, and the operands that the contractions are, by name.

    Args:
        pairs: those that could be one region, by the name of the addition.
        uses: of the contractions.
        reasons: what the host has.
        capabilities: what the accelerator can do.
        cost: prices tilings.
    """
    options: dict[str, Sequence[TilingOption]] = {}
    joined: dict[str, int] = {}
    for name, pair in pairs.items():
        if pair.made in joined or not {name, pair.made}.isdisjoint(reasons):
            continue
        use = uses[pair.made]
        found = convolution_options(pair.contraction, use, pair.epilogue, capabilities, cost, joined=True)
        if found and found[0].cycles < _unfused_cycles(pair, use, capabilities, cost):
            options[name], joined[pair.made] = found, pair.place
    return options, joined


def _unfused_cycles(pair: ResidualPair, use: CompositeUse, capabilities: Capabilities, cost: TilingCost) -> float:
    """Estimated cycles of a contraction and then an addition, each for itself; infinite if either cannot be.

    An addition is priced as a convolution with two blocks of data for each of its results, and an identity as weights.
    """
    first = contraction_options(pair.contraction, use, capabilities, cost)
    if isinstance(first, str):
        return math.inf
    shape = first[0].region.shape
    result = shape.result
    data = PackedActivation.dense(result.batch, 2 * result.blocks, result.height, result.width)
    sums = replace(
        shape, data=data, kernel=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0, 0, 0),
        groups=result.blocks, uniform=True, unfolded=None,
    )  # fmt: skip
    answers = capabilities.target.derived(kept_answers)
    second = plan_convolution(sums, pair.ending, capabilities.accelerator, capabilities.gemm, cost, answers=answers)
    return first[0].cycles + second[0].cycles if second else math.inf


def residual_pairs(module: ir.IRModule, capabilities: Capabilities) -> dict[str, ResidualPair]:
    """The pairs that the accelerator can run as one, by the name of the addition's composite."""
    calls, reads = composite_calls(module)
    found: dict[str, ResidualPair] = {}
    for call in calls.values():
        addition = module[call.op]
        if str(addition.attrs["op"]) != "add" or call.args[0].same_as(call.args[1]):
            continue
        made = {place: calls[var] for place, var in enumerate(call.args) if reads.get(var) == 1 and var in calls}
        pairs = [_pair(before, read_composite(addition), place, module, capabilities) for place, before in made.items()]
        # of two contractions the larger hides more of what the addition loads
        best = max(pairs, key=lambda pair: -1 if pair is None else pair.contraction.macs, default=None)
        if best is not None:
            found[str(call.op.name_hint)] = best
    return found


def _pair(
    made: ir.Call, addition: CompositeRegion, place: int, module: ir.IRModule, capabilities: Capabilities
) -> ResidualPair | None:
    function = module[made.op]
    if str(function.attrs["op"]) not in ConvolutionKind.operators:
        return None
    contraction = read_composite(function)
    epilogues = _fused_epilogue(contraction, addition, place, capabilities)
    if epilogues is None:
        return None
    return ResidualPair(contraction, str(made.op.name_hint), addition, place, *epilogues)


def _fused_epilogue(
    contraction: CompositeRegion, addition: CompositeRegion, place: int, capabilities: Capabilities
) -> tuple[Epilogue, Epilogue] | None:
    """The epilogue of a contraction and then an addition, and the addition's own.

    None where the accumulators cannot stay between them.
    """
    gemm = capabilities.gemm
    square = gemm.data.memory.dtype == "int8" and gemm.in_channels == gemm.out_channels
    if not capabilities.small or not square or gemm.slides or gemm.stage:
        return None
    declared = [composite.operators for composite in capabilities.accelerator.composites]
    if declared and (*composite_operators(contraction), *composite_operators(addition)) not in declared:
        return None
    endings = [plan_epilogue(composite, capabilities) for composite in (contraction, addition)]
    if any(isinstance(ending, str) or ending.host_reason for ending in endings):
        return None
    first, second = (ending.epilogue for ending in endings if not isinstance(ending, str))
    if second.has_bias:
        second = with_bias_by_product(second, gemm, largest_addend(addition) + _MOST) or second
    if first.scaling is not None or (first.start, second.start) != ("zero", "zero"):
        return None
    ours, theirs = addition.weights[place], addition.weights[1 - place]
    scaled = _scaled(ours, capabilities)
    if scaled is None or theirs > _MOST or second.tensors:
        return None
    between: Steps = (*scaled, ("add_operand", theirs))
    steps = (*first.steps, *between, *second.steps)
    groups = (*map(len, first.grouped), *(1 for _ in between), *map(len, second.grouped))
    both = replace(second, steps=steps, groups=groups if len(groups) < len(steps) else ())
    return both, second


def _scaled(factor: int, capabilities: Capabilities) -> tuple[tuple[EpilogueOp, int], ...] | None:
    """The steps that multiply accumulators by ``factor``: a shift where that does it; None if nothing does."""
    if factor == 1:
        return ()
    shift: tuple[EpilogueOp, int] = ("shift_right", 1 - factor.bit_length())
    multiply: tuple[EpilogueOp, int] = ("multiply", factor)
    steps = [multiply] if factor & (factor - 1) else [shift, multiply]
    return next(((step,) for step in steps if capabilities.step(*step) is not None), None)
