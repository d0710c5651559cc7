"""Partition: which composites the accelerator runs, with their tiling, and why the others stay on the host."""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import ir, relax

from accel.accelerator.document import Accelerator
from accel.lowering.analysis.buffer_contexts import needs_double_buffer
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import Composite, WeightedOperands, read_composite, weighted_operands_of
from accel.lowering.analysis.dataflow import CompositeUse, composite_uses, lower_bounds_of_operands
from accel.lowering.analysis.lanewise_capabilities import identity_obstacle, load_obstacle
from accel.lowering.ir.function_attributes import HOST_REASON, JOINED, REGION, dump_region
from accel.lowering.partition.autotune import Measure, TilingOption, autotune
from accel.lowering.partition.convolution_forms import convolution_forms
from accel.lowering.partition.convolution_tiling import plan_convolution
from accel.lowering.partition.elementwise_region import elementwise_region
from accel.lowering.partition.epilogue_planning import EpiloguePlan, plan_epilogue
from accel.lowering.partition.pooling_region import pooling_region
from accel.lowering.partition.residual_fusion import ResidualPair, residual_pairs
from accel.region.epilogue import Epilogue, with_bias_by_product
from accel.region.kinds import Region
from accel.region.shapes import LEVEL_BITS, Addition, Convolution, Packed, SplitWeights, split_weights
from accel.region.tilings import Tiling, TilingCost, divisors

_OPS = {"conv2d", "dense", "add", "elementwise", "max_pool"}
_OPTIONS_KEPT = 2  # tilings of each shape and epilogue
_OPERANDS = ("a", "b")
_ADDITION_MICROOPS = 8  # a block's micro-ops, at most: reset, two contractions, the passes of the epilogue
_OVERLAPPING = 4  # tiles, so that the first load and the last store are a small part of the whole


def partition(
    module: ir.IRModule,
    accelerator: Accelerator,
    cost: TilingCost,
    measure: Measure | None = None,
    host_nodes: Collection[str] = (),
) -> ir.IRModule:
    """Mark every composite with its region, or with the reason why it has none.

    Args:
        module: the integer graph.
        accelerator: the target.
        cost: prices tilings.
        measure: times regions, where prices lie close.
        host_nodes: nodes of the model that the host shall run, and with each all of its composite.
    """
    able, lowest = Capabilities.of(accelerator), lower_bounds_of_operands(module)
    uses = composite_uses(module, _OPS)
    reasons = _left_to_host(module, able, host_nodes)
    options, joined = _fused_additions(module, uses, reasons, able, cost)
    for name, use in uses.items():
        if name not in reasons and name not in joined and name not in options:
            found = _of_steps(module[name], able, lowest[name]) or _options(
                read_composite(module[name]), use, able, cost
            )
            if isinstance(found, str) and str(module[name].attrs["op"]) == "add":
                square = identity_obstacle(
                    able
                )  # why it cannot be a product; where loads widen, that is not in the way
                told = found == square or (bool(square) and not load_obstacle(able))
                found = _elementwise(module[name], able, "" if told else found)
            if isinstance(found, str):
                reasons[name] = found
            else:
                options[name] = found
    marks: dict[str, tuple[str, Any]] = {name: (HOST_REASON, reason) for name, reason in reasons.items()}
    marks |= {name: (JOINED, place) for name, place in joined.items()}
    marks |= {name: (REGION, dump_region(region)) for name, region in autotune(options, measure).items()}
    result = ir.IRModule(dict(module.functions.items()), attrs=module.attrs)
    for name, mark in marks.items():
        variable = module.get_global_var(name)
        result.update_func(variable, module[variable].with_attr(*mark))
    return result


def _left_to_host(module: ir.IRModule, able: Capabilities, host_nodes: Collection[str]) -> dict[str, str]:
    """Why the host has composites that the accelerator might run, or that it cannot."""
    reasons = {}
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function) or function.attrs is None or "op" not in function.attrs:
            continue
        if str(function.attrs["op"]) not in _OPS:
            reasons[str(variable.name_hint)] = f"{function.attrs['cause']}; {requantisation_text(able)}"
        elif not {str(node) for node in function.attrs["nodes"]}.isdisjoint(host_nodes):
            reasons[str(variable.name_hint)] = "the job's options leave it to the host"
    return reasons


def _fused_additions(
    module: ir.IRModule,
    uses: Mapping[str, CompositeUse],
    reasons: Collection[str],
    able: Capabilities,
    cost: TilingCost,
) -> tuple[dict[str, list[TilingOption]], dict[str, int]]:
    """Additions with a contraction in front: their options, and the operands that the contractions are, by name."""
    options: dict[str, list[TilingOption]] = {}
    joined: dict[str, int] = {}
    for name, pair in residual_pairs(module, able).items():
        made = str(pair.call.op.name_hint)
        if made in joined or not {name, made}.isdisjoint(reasons):
            continue
        found = _convolutions(pair.contraction, uses[made], pair.epilogue, able, cost, joined=True)
        if found and found[0].cycles < _unfused_cycles(pair, uses[made], able, cost):
            options[name], joined[made] = found, pair.place
    return options, joined


def _unfused_cycles(pair: ResidualPair, use: CompositeUse, able: Capabilities, cost: TilingCost) -> float:
    """Estimated cycles of a contraction and then an addition, each for itself; infinite if either cannot be.

    An addition is priced as a convolution with two blocks of data for each of its results, and an identity as weights.
    """
    first = _options(pair.contraction, use, able, cost)
    if isinstance(first, str):
        return math.inf
    shape = first[0].region.shape
    assert isinstance(shape, Convolution)
    result = shape.result
    data = Packed.dense(result.batch, len(_OPERANDS) * result.blocks, result.height, result.width)
    sums = replace(
        shape, data=data, kernel=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0, 0, 0),
        groups=result.blocks, uniform=True, unfolded=None,
    )  # fmt: skip
    second = plan_convolution(sums, pair.ending, able.accelerator, able.gemm, cost)
    return first[0].cycles + second[0].cycles if second else math.inf


def requantisation_text(able: Capabilities) -> str:
    """How the accelerator comes from int32 to int8, in words."""
    title = able.accelerator.title
    if able.scales:
        return f"{title} requantises to int8 by one float scale a tensor"
    if able.store("int8") is None:
        return f"{title} leaves int32, which the host requantises"
    multiplying = "multiplying, " if able.multiplies else ""
    return f"{title} requantises to int8 by {multiplying}adding and shifting"


def _of_steps(function: relax.Function, able: Capabilities, lowest: int) -> list[TilingOption] | str | None:
    """The way to run a composite that is made of steps, or why there is none; None for composites of other kinds."""
    composite = read_composite(function)
    if composite.op == "elementwise":
        return _elementwise(function, able)
    if composite.op != "max_pool":
        return None
    region = pooling_region(composite, able, lowest)
    return region if isinstance(region, str) else [TilingOption(0.0, region)]


def _elementwise(function: relax.Function, able: Capabilities, refused: str = "") -> list[TilingOption] | str:
    """Elementwise work as steps, or why not; ``refused``: why it was not done otherwise."""
    composite = read_composite(function)
    terms = WeightedOperands("sum", composite.factors) if composite.op == "add" else weighted_operands_of(function)
    region = elementwise_region(composite, terms, able)
    return (refused or region) if isinstance(region, str) else [TilingOption(0.0, region)]


def _options(composite: Composite, use: CompositeUse, able: Capabilities, cost: TilingCost) -> list[TilingOption] | str:
    """The ways to run a composite, the cheapest first, or why there is none."""
    ending = plan_epilogue(composite, able)
    if isinstance(ending, str):
        return ending
    if composite.op == "add":
        region = ending.host_reason or _addition(composite, ending, able)
        return region if isinstance(region, str) else [TilingOption(0.0, region)]
    found = _convolutions(composite, use, ending.epilogue, able, cost)
    finished = [replace(option, region=replace(option.region, host_reason=ending.host_reason)) for option in found]
    return finished or f"no tile of it fits the scratchpads of {able.accelerator.title}"


def _convolutions(
    composite: Composite,
    use: CompositeUse,
    epilogue: Epilogue,
    able: Capabilities,
    cost: TilingCost,
    *,
    joined: bool = False,
) -> list[TilingOption]:
    """The cheapest options of the first shapes of which a tile fits; ``joined`` with the addition behind it."""
    epilogues = [epilogue]
    product = with_bias_by_product(epilogue, able.gemm, _largest_bias(composite, use.call))
    if product is not None and able.gemm.data.memory.dtype == "int8":
        epilogues.append(product)
    for alternatives in convolution_forms(composite, able, from_host=use.from_host):
        tried = alternatives
        if joined:
            tried = [replace(shape, addend=shape.result) for shape in alternatives if not shape.of_rows]
        found = [
            TilingOption(plan.cycles, Region(shape, each, plan.tiling))
            for shape in tried
            for each in epilogues
            for plan in plan_convolution(shape, each, able.accelerator, able.gemm, cost, _OPTIONS_KEPT)
        ]
        if found:
            return sorted(found, key=lambda option: option.cycles)
    return []


def _largest_bias(composite: Composite, call: ir.Call) -> int:
    """The largest magnitude of what is added to the sums, rounding included."""
    bias = int(np.abs(call.args[2].value.numpy().astype(np.int64)).max(initial=0)) if composite.has_bias else 0
    return bias + max((immediate for name, immediate in composite.steps if name == "add"), default=0)


def _addition(composite: Composite, ending: EpiloguePlan, able: Capabilities) -> Region | str:
    gemm, title = able.gemm, able.accelerator.title
    obstacle = identity_obstacle(able)
    if obstacle:
        return obstacle
    levels = _levels(composite, able)
    if isinstance(levels, str):
        return levels
    if len(composite.result) == 4:
        n, c, h, w = composite.result
        data = Packed.dense(math.ceil(n / gemm.rows), math.ceil(c / gemm.in_channels), h, w)
    elif len(composite.result) == 2:
        m, k = composite.result
        data = Packed.dense(1, math.ceil(k / gemm.in_channels), 1, math.ceil(m / gemm.rows))
    else:
        return f"an addition of {len(composite.result)}-dimensional tensors"
    tiling = _addition_tiling(data, able, ending.epilogue, len(levels))
    if tiling is None:
        return f"no tile of it fits the scratchpads of {title}"
    return Region(Addition((data, data), levels), ending.epilogue, tiling)


def _levels(composite: Composite, able: Capabilities) -> SplitWeights | str:
    """The weights of an addition as int8, or why they cannot be."""
    levels = split_weights(composite.factors)
    if levels is None:
        return "the operands' scales lie too far apart for weights of 14 bits"
    if len(levels) > 1 and able.step("shift_right", -LEVEL_BITS) is None:
        title = able.accelerator.title
        return f"the operands' scales need weights of 14 bits, and {title} has no shift left on its accumulators"
    return levels


def _addition_tiling(packed: Packed, able: Capabilities, epilogue: Epilogue, levels: int) -> Tiling | None:
    """The largest tile that fits and leaves a few tiles to overlap; its extents divide the image, as nothing pads."""
    gemm = able.gemm
    whole = needs_double_buffer(epilogue, able.accelerator, gemm)  # a tile of one context is then all of it
    identities = levels * len(_OPERANDS) * gemm.weights.elements
    data = gemm.data.memory.depth - (identities if gemm.weights.memory == gemm.data.memory else 0)
    capacity, results = data // 2 // gemm.data.elements, gemm.dst.memory.depth // gemm.dst.elements
    table = gemm.instruction.microops
    microops = able.accelerator.memory(table.memory).depth if table is not None else None
    if gemm.weights.memory.depth < identities or capacity < 1:
        return None
    total = packed.blocks * packed.height * packed.width
    for contexts, largest in ((2, total // _OVERLAPPING), (2, total), (1, total)):
        best = max(
            (
                (blocks * rows * columns, columns, rows, blocks)
                for columns in divisors(packed.width)
                for rows in divisors(packed.height)
                for blocks in divisors(packed.blocks)
                if blocks * rows * columns <= min(largest, capacity // contexts)
                and contexts * blocks * (rows * columns + epilogue.tensors) <= results
                and (contexts == 2 or not whole or (blocks * rows * columns, packed.batch) == (total, 1))
                and (microops is None or _ADDITION_MICROOPS * contexts * blocks <= microops)
            ),
            default=None,
        )
        if best is not None:
            _, columns, rows, blocks = best
            return Tiling(blocks, rows, columns, 1, 1, 1, "stream", contexts, contexts, packed.height, packed.width)
    return None
