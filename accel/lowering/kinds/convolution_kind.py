"""Convolutions and dense layers as regions: sums of products over channels and taps, and their epilogue."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from tvm import ir, relax, te, tirx
from tvm.s_tir import Schedule

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion, largest_addend
from accel.lowering.analysis.dataflow import CompositeUse
from accel.lowering.analysis.epilogue_planning import plan_epilogue
from accel.lowering.analysis.image_padding import NO_PADDING, Padding
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.lowering.kinds.contraction.convolution_forms import convolution_forms
from accel.lowering.kinds.contraction.convolution_tiling import PricedConvolution, PricedTiling
from accel.lowering.kinds.contraction.epilogue_stages import (
    EpilogueWay,
    accumulated,
    constant_line,
    inner,
    line_shape,
    operand_name,
    padded_data,
    placeholder,
    stage_name,
    with_epilogue,
)
from accel.lowering.kinds.contraction.image_parts import ImageParts, parts_of, sums_tiling
from accel.lowering.kinds.contraction.stored_windows import with_stored_windows
from accel.lowering.kinds.contraction.tile_schedule import (
    TileLoops,
    copy_in,
    load_pragma,
    named_block,
    schedule_tiles,
    start_accumulators,
)
from accel.lowering.kinds.dram_places import in_images
from accel.lowering.kinds.layers.layer_options import layer_convolutions
from accel.lowering.kinds.layers.layer_schedule import schedule_layer_sums
from accel.lowering.kinds.layers.layer_tilings import Scheduled, layer_operations
from accel.lowering.kinds.region_kind import (
    JoinedCall,
    PackedOperands,
    PackedRegion,
    PackRequest,
    PlanRequest,
    Refusal,
    UsedOperation,
)
from accel.lowering.kinds.used_operations import contraction_operations, stores_of_windows
from accel.lowering.layout import tiled_layout
from accel.lowering.layout.operand_layout import layout_as_read
from accel.lowering.layout.packed_constants import (
    bias_constant,
    bias_operands,
    channel_multipliers,
    convolution_weights,
    factor_operands,
    rounding_operands,
    stack_bias,
    stack_bias_constant,
    weighted_identities,
)
from accel.region.epilogue import Epilogue, with_bias_by_product
from accel.region.kinds import Region, TilingOption
from accel.region.shapes import Convolution, PackedActivation, StoredWindows
from accel.region.slides import slides_over
from accel.region.tilings import BORDER_WORTH, LAYER_WORTH, TilingCost

_OPTIONS_KEPT = 8  # tilings of each shape and epilogue: a few of other tiles are timed with their neighbours
_PATCHES = {
    "rows": "patches of the image out as the rows of a matrix",
    "channels": "patches of the image out as the channels of its pixels",
    "rows of taps": "rows of taps of the image out as the channels of its pixels",
    "columns of taps": "columns of taps of the image out as the channels of its pixels",
}


class ConvolutionKind:
    """Convolutions over tiles, and what else can be seen as one: dense layers, depthwise ones, averages."""

    shape = Convolution
    operators = frozenset({"conv2d", "dense", "matmul"})

    def plan(self, request: PlanRequest) -> list[TilingOption[Convolution]] | Refusal:
        """The ways to run a composite, the cheapest first; or why there is none."""
        composite, use, capabilities = request.composite, request.use, request.capabilities
        found = contraction_options(composite, use, capabilities, request.cost)
        limit = math.inf if isinstance(found, str) else LAYER_WORTH * found[0].cycles
        layers = layer_convolutions(composite, use, capabilities, _scheduled(capabilities), limit)
        if isinstance(found, str) and isinstance(layers, str):
            return Refusal(found if capabilities.small else layers)
        options = [each for each in (found, layers) if not isinstance(each, str)]
        return sorted(itertools.chain(*options), key=lambda option: option.cycles)

    def pack(self, request: PackRequest[Convolution], operands: PackedOperands) -> PackedRegion[Convolution]:
        """The region over its data as they lie; one with a residual addition behind it takes the other operand too."""
        if request.composite.op == "matmul":
            return _packed_stack(request.call, request.composite, request.region, operands)
        if request.joined is None:
            return _packed(request.call, request.composite, request.region, operands)
        if request.region.shape.pooled is not None:
            both = _both(request.joined.composite, request.composite)
            return _packed(request.joined.call, both, request.region, operands)
        return _packed_with_addition(request, request.joined, operands)

    def expression(self, region: Region[Convolution], gemm: Contraction) -> tirx.PrimFunc:
        """``out = store(epilogue(conv(data, weights)))`` as a PrimFunc.

        Parameters are data, weights ``[out_blocks, blocks of a group, kh, kw, *tile]``, what
        :func:`accel.lowering.kinds.contraction.epilogue_stages.with_epilogue` adds, then one result a plane,
        ``[batch, out_blocks, pitch_h, pitch_w, *tile of dst]``. Where the store takes windows it takes them of the sums
        of each tile, which are as many as these lie on.
        """
        return self._expression(region, gemm, parts_of(region))

    def _expression(self, region: Region[Convolution], gemm: Contraction, parts: ImageParts | None) -> tirx.PrimFunc:
        """The function of a region; the sums are those of the parts of an image, if there are any."""
        conv, epilogue, tiling = region.shape, region.epilogue, region.tiling
        if parts is not None:
            tiling = parts.tiling
        data = placeholder("data", conv.data, gemm.data)
        blocks = (1, 1, 1, 1) if conv.uniform else (conv.out_blocks, conv.reduced_blocks, *conv.kernel)
        shape = (*blocks, *gemm.weights.shape)
        weights = te.placeholder(shape, gemm.weights.memory.dtype, name="weights")
        rows, columns = tiling.out_pitch_h, tiling.out_pitch_w
        padded = padded_data(data, conv, rows, columns) if parts is None else data
        (sh, sw), (dh, dw) = conv.strides, conv.dilation
        axes = [
            te.reduce_axis((0, extent), name)
            for extent, name in zip(
                (conv.reduced_blocks, *conv.kernel, gemm.in_channels), ("ci", "kh", "kw", "i"), strict=True
            )
        ]
        ci, kh, kw, lane = axes

        def product(n: tirx.Var, c: tirx.Var, y: Any, x: Any, m: tirx.Expr, o: tirx.Expr) -> tirx.Expr:
            if parts is not None:
                y, x = parts.place(0, y), parts.place(1, x)
            block = ci if conv.groups == 1 else c // conv.group_blocks * conv.reduced_blocks + ci
            element = padded[n, block, y * sh + kh * dh, x * sw + kw * dw, *inner(gemm.data, m=m, k=lane)]
            place = (0, 0, 0, 0) if conv.uniform else (c, ci, kh, kw)
            weight = weights[*place, *inner(gemm.weights, n=o, k=lane)]
            return element.astype(gemm.sum_dtype) * weight.astype(gemm.sum_dtype)

        outer = (conv.data.batch, conv.out_blocks, rows, columns)
        sums, arguments = accumulated(outer, product, axes, epilogue, gemm)
        line = constant_line(tiling, conv, gemm)
        way = EpilogueWay(conv.addend, line, parts if conv.pooled is not None else None)
        return with_epilogue([data, weights], sums, arguments, epilogue, gemm, way)

    def padding_of_data(self, region: Region[Convolution]) -> Padding:
        """Zeros where the loads cannot pad; patches of an image have them already."""
        return NO_PADDING if region.shape.unfolded is not None else Padding(region.shape.host_padding, 0)

    def activations(self, region: Region[Convolution]) -> dict[str, PackedActivation]:
        """The data, and what the epilogue adds."""
        conv, grouped = region.shape, region.epilogue.grouped
        found = {"data": conv.data}
        for number, steps in enumerate(grouped):
            if steps[0][0] == "add_operand" and conv.addend is not None:
                found[operand_name(stage_name(number, steps))] = conv.addend
        return found

    def schedule(
        self, function: tirx.PrimFunc, region: Region[Convolution], capabilities: Capabilities
    ) -> tirx.PrimFunc:
        """The function tiled, with its buffers in the accelerator's scopes and its nests under pragmas."""
        conv = region.shape
        groups = conv.groups if conv.group_blocks > 1 else 1
        if region.tiling.layer:
            return schedule_layer_sums(function, region, capabilities, groups)
        parts = parts_of(region)
        if parts is None:
            return schedule_tiles(function, region, capabilities, _place, groups)
        sums = replace(region, shape=replace(conv, pooled=None), tiling=parts.tiling)
        tiles = schedule_tiles(self._expression(sums, capabilities.gemm, parts), sums, capabilities, _place, groups)
        return with_stored_windows(tiles, function, parts, region.epilogue, capabilities)

    def instructions(self, region: Region[Convolution], capabilities: Capabilities) -> Iterator[UsedOperation]:
        """What a tile uses, in its order."""
        if region.tiling.layer:
            return layer_operations(region, _scheduled(capabilities), capabilities)
        used = contraction_operations(region.epilogue, capabilities)
        if region.shape.pooled is None:
            return used
        return itertools.chain(
            (each for each in used if each.role != "store"), stores_of_windows(region.epilogue, capabilities)
        )

    def host_layout(self, region: Region[Convolution]) -> list[str]:
        """Unfolding patches, and padding that the loads cannot make."""
        found, conv = [], region.shape
        if conv.unfolded is not None:
            found.append(f"the host lays the {_PATCHES[conv.patches]}")
        if any(conv.host_padding):
            found.append("the host pads the data: the loads cannot")
        return found


def _scheduled(capabilities: Capabilities) -> Scheduled:
    """What makes the function of a region that a layer does, scheduled as its tiling says."""
    kind, gemm = ConvolutionKind(), capabilities.gemm

    def scheduled(region: Region[Convolution]) -> tirx.PrimFunc:
        function = kind.schedule(kind.expression(region, gemm), region, capabilities)
        return in_images(function, region, gemm, kind.activations(region))

    return scheduled


def contraction_options(
    composite: CompositeRegion, use: CompositeUse, capabilities: Capabilities, cost: TilingCost
) -> list[TilingOption[Convolution]] | str:
    """The ways to run a composite with its own epilogue, the cheapest first; or why there is none."""
    if not capabilities.small:
        return f"{capabilities.accelerator.title} has no instruction for a tile of it"
    ending = plan_epilogue(composite, capabilities)
    if isinstance(ending, str):
        return ending
    found = convolution_options(composite, use, ending.epilogue, capabilities, cost)
    finished = [replace(option, region=replace(option.region, host_reason=ending.host_reason)) for option in found]
    return finished or _no_tile(composite, capabilities)


def _no_tile(composite: CompositeRegion, capabilities: Capabilities) -> str:
    gemm, title = capabilities.gemm, capabilities.accelerator.title
    forms = [form for forms in convolution_forms(composite, capabilities, from_host=False) for form in forms]
    if gemm.slides and not any(slides_over(slide, form) for slide in gemm.slides for form in forms):
        does = "; ".join(f"{slide.operation} {slide.taps} taps {_range(slide.strides)} apart" for slide in gemm.slides)
        has = f"{forms[0].kernel[1]} taps a row and a stride of {forms[0].strides[1]}"
        return f"no product of {title} slides over it: it has {has}, and there are {does}"
    return f"no tile of it fits the scratchpads of {title}"


def _range(steps: range) -> str:
    return str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"


def convolution_options(
    composite: CompositeRegion,
    use: CompositeUse,
    epilogue: Epilogue,
    capabilities: Capabilities,
    cost: TilingCost,
    *,
    joined: bool = False,
    pooled: StoredWindows | None = None,
) -> list[TilingOption[Convolution]]:
    """The cheapest options of the first shapes of which a tile fits.

    ``joined`` with the addition behind it, ``pooled`` with the max pooling whose windows the store takes.
    """
    epilogues = [epilogue]
    gemm = capabilities.gemm
    product = None if gemm.slides or gemm.stage else with_bias_by_product(epilogue, gemm, _largest_bias(composite, use))
    if product is not None and gemm.data.memory.dtype == "int8":
        epilogues.append(product)
    for alternatives in convolution_forms(composite, capabilities, from_host=use.from_host):
        tried = alternatives
        if joined:
            tried = [replace(shape, addend=shape.result) for shape in alternatives if not shape.of_rows]
        if pooled is not None:
            able = [] if gemm.slides else [shape for shape in alternatives if not shape.of_rows]
            tried = [replace(shape, pooled=pooled) for shape in able]
        found = [
            TilingOption(plan.cycles, Region(shape, each, plan.tiling))
            for shape in tried
            for each in epilogues
            # products that walk blocks step otherwise than constants, and a Gemmini's short ones must not meet that;
            # what sums go on from another has one place with it, and sums within a border have more room than they take
            if not (each.has_product and ((shape.uniform and gemm.line) or any(map(any, shape.borders))))
            for plan in _tilings(shape, each, capabilities, cost, bordered=use.wants_border(capabilities))
        ]
        if found:
            return sorted(found, key=lambda option: option.cycles)
    return []


def _tilings(
    shape: Convolution, epilogue: Epilogue, capabilities: Capabilities, cost: TilingCost, *, bordered: bool
) -> Sequence[PricedTiling]:
    """The cheapest tilings of a shape; of one with a border those that leave that alone, if they cost little more."""
    cheapest, dividing = _cheapest_tilings(shape, epilogue, capabilities, cost, bordered=bordered)
    if not cheapest or not dividing:
        return cheapest
    return dividing if dividing[0].cycles <= BORDER_WORTH * cheapest[0].cycles else cheapest


def _cheapest_tilings(
    shape: Convolution, epilogue: Epilogue, capabilities: Capabilities, cost: TilingCost, *, bordered: bool
) -> tuple[Sequence[PricedTiling], Sequence[PricedTiling]]:
    """The tilings of a shape, which several layers have, and a layer with and without what may follow it.

    Of one with a border those that leave it alone as well.
    """
    epilogue = epilogue.unnumbered
    key, found = (shape, epilogue, cost, bordered), capabilities.tilings
    if key not in found:
        answers = capabilities.target.derived(kept_answers)
        priced = PricedConvolution(shape, epilogue, capabilities.accelerator, capabilities.gemm, cost, answers)
        cheapest = priced.cheapest(_OPTIONS_KEPT, dividing=False)
        found[key] = cheapest, priced.cheapest(_OPTIONS_KEPT, dividing=True) if bordered and cheapest else []
        found[*key[:3], False] = cheapest, []
    return cast(tuple[Sequence[PricedTiling], Sequence[PricedTiling]], found[key])


def _largest_bias(composite: CompositeRegion, use: CompositeUse) -> int:
    """The largest magnitude of what is added to the sums, rounding included."""
    return use.bias + largest_addend(composite)


def _packed_with_addition(
    request: PackRequest[Convolution], joined: JoinedCall, operands: PackedOperands
) -> PackedRegion[Convolution]:
    """The region of a contraction and the addition behind it, whose other operand the epilogue adds."""
    region, addition, other = request.region, request.composite, 1 - joined.place
    assert region.shape.addend is not None
    addend, read = operands.data(request.call.args[other], layout_as_read(region.shape.addend))
    weights = relax.const(weighted_identities([[addition.weights[other]]], operands.gemm)[0])
    both = _both(joined.composite, addition)
    region = replace(region, shape=replace(region.shape, addend=read.data))
    line = line_shape(constant_line(region.tiling, region.shape, operands.gemm))
    blocks = region.shape.out_blocks
    rounding = rounding_operands(request.call, addition, region.epilogue, blocks, operands.gemm, line)
    return _packed(joined.call, both, region, operands, [addend, weights, *rounding])


def _both(first: CompositeRegion, second: CompositeRegion) -> CompositeRegion:
    """A composite that another one takes in, with the nodes and the result of both."""
    return replace(first, nodes=(*first.nodes, *second.nodes), result=second.result)


def _packed(
    call: ir.Call,
    composite: CompositeRegion,
    region: Region[Convolution],
    operands: PackedOperands,
    more: Sequence[relax.Expr] = (),
) -> PackedRegion[Convolution]:
    """The region of a contraction; ``more`` is what its epilogue takes beside the bias."""
    gemm = operands.gemm
    data, conv = operands.data(call.args[0], region.shape)
    weights = convolution_weights(call, composite, conv, gemm)
    tiles = tiled_layout.pack_weights(weights, gemm.weights)
    if conv.uniform:
        identity = tiled_layout.identities((0,), gemm).reshape(1, 1, 1, 1, *gemm.weights.shape)
        tiles = identity.transpose(tiled_layout.weight_axes_in_dram(gemm.weights))
    arguments = [data, relax.const(tiles)]
    own, _ = region.epilogue.parts
    bias = bias_constant(call, composite, own, weights, gemm)
    line = line_shape(constant_line(sums_tiling(region), conv, gemm))
    arguments += bias_operands(bias, own, conv.out_blocks, gemm, line)
    if ("multiply_tensor", 0) in own.steps:
        factors = channel_multipliers(call, composite, weights.shape[0])
        arguments.append(relax.const(tiled_layout.pack_bias(factors, conv.out_blocks, gemm.dst)))
    arguments += more
    arguments += factor_operands(call, composite, own, conv.out_blocks, gemm, bias)
    parts = parts_of(replace(region, shape=conv))
    if parts is not None and parts.bordered:
        arguments.append(relax.const(np.full(gemm.dst.shape, np.iinfo(np.int32).min, np.int32)))
    shape, image = composite.result, None
    if conv.of_rows:
        batch, channels, height, width = image = composite.result
        shape = (batch * height * width, channels)
    return PackedRegion(replace(region, shape=conv), arguments, composite, shape, image)


def _packed_stack(
    call: ir.Call, composite: CompositeRegion, region: Region[Convolution], operands: PackedOperands
) -> PackedRegion[Convolution]:
    """The region of a stack of products of two activations, which the host lays out side by side."""
    gemm, conv = operands.gemm, region.shape
    batch, rows, columns = composite.result
    depth = conv.reduced_blocks * gemm.in_channels
    lines = conv.data.width * gemm.rows
    data = operands.laid_out(call.args[0], lambda x: tiled_layout.matrices_side_by_side(x, lines, depth))
    data, conv = operands.data(data, conv)
    weights = operands.laid_out(call.args[1], lambda w: tiled_layout.pack_weight_tensor(w, gemm.weights))
    arguments = [data, weights]
    own, _ = region.epilogue.parts
    if own.has_bias or own.start == "bias":
        bias = stack_bias(call, composite, own, gemm)
        if isinstance(bias, ir.GenericConst):
            arguments.append(relax.const(stack_bias_constant(bias.value.numpy(), gemm)))
        else:
            arguments.append(operands.laid_out(bias, lambda b: tiled_layout.pack_bias_tensor(b, gemm.dst)))
    if ("multiply_tensor", 0) in own.steps:
        factors = channel_multipliers(call, composite, conv.out_blocks * gemm.out_channels)
        arguments.append(relax.const(tiled_layout.pack_bias(factors, conv.out_blocks, gemm.dst)))
    arguments += factor_operands(call, composite, own, conv.out_blocks, gemm)
    shape = (rows, conv.out_blocks * gemm.out_channels)
    return PackedRegion(replace(region, shape=conv), arguments, composite, shape, stack=(batch, rows, columns))


def _place(sch: Schedule, region: Region[Convolution], tile: TileLoops, capabilities: Capabilities) -> None:
    """Cut the sum, and load data and weights where the tiling's order says."""
    gemm, tiling = capabilities.gemm, region.tiling
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
    padded = named_block(sch, "padded")
    if padded is None:
        padded = sch.cache_read(block, 0, data.scope)
    else:
        sch.set_scope(padded, 0, data.scope)
    copy_in(sch, padded, tile.pixels if tiling.order == "data" else step, load_pragma(capabilities, data, data.dtype))
    where = None if region.shape.uniform else tile.channels if tiling.order == "weights" else step
    if gemm.stage is None:
        kernel = sch.cache_read(block, 1, weights.scope)
        copy_in(sch, kernel, where, load_pragma(capabilities, weights, weights.dtype))
    else:
        before = gemm.stage.memory
        loaded = sch.cache_read(block, 1, before.scope)
        kernel = sch.cache_read(block, 1, weights.scope)
        copy_in(sch, kernel, where, gemm.stage.instruction.pragma)
        copy_in(sch, loaded, where, load_pragma(capabilities, before, before.dtype))
    for loop in _staying(region, tile):
        sch.annotate(loop, CONTEXTS_PRAGMA, tiling.operand_contexts)
    start_accumulators(sch, block, step, tile.depth, region.epilogue, capabilities)


def _staying(region: Region[Convolution], tile: TileLoops) -> list[Any]:
    """The loops around those of a tile in whose iterations an operand stays; the tile's own has its contexts."""
    if region.tiling.order == "data":
        return [tile.pixels]
    stays = region.tiling.order == "weights" or region.epilogue.has_product
    return [tile.channels] if stays else []
