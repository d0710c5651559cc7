"""Additions as regions: contractions of two operands with scaled identities, and their epilogue.

Loads into the accumulators are int32 wide; loads of data are a quarter of that, and a contraction with ``diag(m)``
moves one element a cycle.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.s_tir import Schedule

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.buffer_contexts import needs_double_buffer
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion, largest_addend
from accel.lowering.analysis.epilogue_planning import plan_epilogue
from accel.lowering.analysis.image_padding import NO_PADDING, Padding
from accel.lowering.analysis.lanewise_capabilities import identity_obstacle, load_obstacle
from accel.lowering.ir.epilogue_arithmetic import apply_steps, stored_value
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.lowering.kinds.contraction.epilogue_stages import (
    ACCUMULATE,
    Element,
    EpilogueWay,
    accumulated,
    constant_line,
    continued,
    elementwise_stage,
    inner,
    line_shape,
    placeholder,
    with_epilogue,
)
from accel.lowering.kinds.contraction.tile_schedule import (
    Handle,
    TileLoops,
    copy_in,
    load_pragma,
    place_stage,
    schedule_tiles,
    start_accumulators,
)
from accel.lowering.kinds.elementwise_kind import added_by_loads
from accel.lowering.kinds.layers.layer_options import layer_additions, packed_image
from accel.lowering.kinds.layers.layer_schedule import schedule_layer_points
from accel.lowering.kinds.layers.layer_tilings import Scheduled, layer_operations
from accel.lowering.kinds.region_kind import (
    PackedOperands,
    PackedRegion,
    PackRequest,
    PlanRequest,
    Refusal,
    UsedOperation,
)
from accel.lowering.kinds.used_operations import contraction_operations
from accel.lowering.layout.operand_layout import layout_as_read
from accel.lowering.layout.packed_constants import bias_operands, rounding_vector, weighted_identities
from accel.region.epilogue import Epilogue, with_bias_by_product
from accel.region.kinds import Region, TilingOption
from accel.region.shapes import LEVEL_BITS, Addition, PackedActivation, SplitWeights, split_weights
from accel.region.tilings import Tiling, divisors

_OPERANDS = ("a", "b")
_MICROOPS = 8  # a block's micro-ops, at most: reset, two contractions, the passes of the epilogue
_WEIGHT_MAX = 127
_OVERLAPPING = 4  # tiles, so that the first load and the last store are a small part of the whole


class AdditionKind:
    """Additions of two tensors of one shape, each times a weight."""

    shape = Addition
    operators = frozenset({"add"})

    def plan(self, request: PlanRequest) -> list[TilingOption[Addition]] | Refusal:
        """The way to run a composite, or why there is none.

        An accelerator that loads int8 into its accumulators, as it has no square contraction, adds elementwise.
        """
        composite, capabilities = request.composite, request.capabilities
        layers = layer_additions(composite, capabilities, _scheduled(capabilities))
        if not isinstance(layers, str) or not capabilities.small:
            return Refusal(layers) if isinstance(layers, str) else layers
        if added_by_loads(composite, capabilities, bordered=request.use.wants_border(capabilities)) is not None:
            return Refusal("loads add its operands, as elementwise work", defers=True)
        ending = plan_epilogue(composite, capabilities)
        if isinstance(ending, str):
            found: Region[Addition] | str = ending
        else:
            found = ending.host_reason or _region(composite, ending.epilogue, capabilities)
        if isinstance(found, Region):
            return [TilingOption(0.0, found)]
        square = identity_obstacle(capabilities)
        return Refusal(found, defers=found == square or (bool(square) and not load_obstacle(capabilities)))

    def pack(self, request: PackRequest[Addition], operands: PackedOperands) -> PackedRegion[Addition]:
        """The region over its operands as they lie, with the identities and what the sums begin with."""
        region, gemm = request.region, operands.gemm
        (first, read_a), (second, read_b) = (
            operands.data(argument, layout_as_read(packed))
            for argument, packed in zip(request.call.args, region.shape.operands, strict=False)  # what rounds is last
        )
        add, blocks = replace(region.shape, operands=(read_a.data, read_b.data)), read_a.data.blocks
        if region.tiling.layer:
            return PackedRegion(
                replace(region, shape=add), [first, second], request.composite, request.composite.result
            )
        arguments = [first, second, relax.const(weighted_identities(add.levels, gemm))]
        composite, epilogue = request.composite, region.epilogue
        rounding = rounding_vector(request.call, composite, epilogue, blocks * gemm.out_channels)
        columns = region.tiling.columns_as_blocks
        rounding, blocks = np.tile(rounding, columns), blocks * columns
        if epilogue.start == "bias" and len(add.levels) > 1:
            rounding >>= LEVEL_BITS
        line = line_shape(constant_line(region.tiling, None, gemm))
        arguments += bias_operands(rounding, epilogue, blocks, gemm, line)
        return PackedRegion(replace(region, shape=add), arguments, composite, composite.result)

    def expression(self, region: Region[Addition], gemm: Contraction) -> tirx.PrimFunc:
        """``out = store(epilogue(a * m + b * n))`` as a contraction with scaled identities, for each level one.

        Parameters are a, b, the identities ``[2 * levels, *tile]``, bias if there is one, then the result.
        """
        add, epilogue, tiling = region.shape, region.epilogue, region.tiling
        columns = tiling.columns_as_blocks
        walked = [each if columns == 1 else each.with_columns_as_blocks(columns) for each in add.operands]
        operands = [placeholder(name, packed, gemm.data) for name, packed in zip(_OPERANDS, walked, strict=True)]
        shape = (2 * len(add.levels), *gemm.weights.shape)
        identities = te.placeholder(shape, gemm.weights.memory.dtype, name="identities")
        outer = (walked[0].batch, walked[0].blocks, tiling.out_pitch_h, tiling.out_pitch_w // columns)
        if tiling.layer:
            return _at_every_point(operands, outer, region, gemm)

        def summed(level: int) -> tuple[Element, list[Any]]:
            which, lane = te.reduce_axis((0, 2), "operand"), te.reduce_axis((0, gemm.in_channels), "i")

            def product(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, m: tirx.Expr, o: tirx.Expr) -> tirx.Expr:
                place = (n, c, y, x, *inner(gemm.data, m=m, k=lane))
                element = te.if_then_else(which == 0, operands[0][place], operands[1][place])
                weight = identities[2 * level + which, *inner(gemm.weights, n=o, k=lane)]
                return element.astype(gemm.sum_dtype) * weight.astype(gemm.sum_dtype)

            return product, [which, lane]

        sums, arguments = accumulated(outer, *summed(0), epilogue, gemm)
        starts = {}
        for level in range(1, len(add.levels)):
            shifted = elementwise_stage(sums, (("shift_right", -LEVEL_BITS),), f"upper{level}")
            sums = continued(shifted, *summed(level), gemm, f"{ACCUMULATE}{level}")
            starts[str(sums.name)] = str(shifted.name)
        line = constant_line(tiling, None, gemm)
        return with_epilogue([*operands, identities], sums, arguments, epilogue, gemm, EpilogueWay(line=line), starts)

    def padding_of_data(self, region: Region[Addition]) -> Padding:  # noqa: ARG002
        """None."""
        return NO_PADDING

    def activations(self, region: Region[Addition]) -> dict[str, PackedActivation]:
        """Both operands."""
        return dict(zip(_OPERANDS, region.shape.operands, strict=True))

    def schedule(self, function: tirx.PrimFunc, region: Region[Addition], capabilities: Capabilities) -> tirx.PrimFunc:
        """The function tiled, with its buffers in the accelerator's scopes and its nests under pragmas."""
        if region.tiling.layer:
            return schedule_layer_points(function, region, capabilities)
        return schedule_tiles(function, region, capabilities, _place)

    def instructions(self, region: Region[Addition], capabilities: Capabilities) -> Iterator[UsedOperation]:
        """What a tile uses, in its order."""
        if region.tiling.layer:
            return layer_operations(region, _scheduled(capabilities), capabilities)
        return contraction_operations(region.epilogue, capabilities)

    def host_layout(self, region: Region[Addition]) -> list[str]:  # noqa: ARG002
        """Nothing."""
        return []


def _scheduled(capabilities: Capabilities) -> Scheduled:
    """What makes the function of a region that a layer does, scheduled as its tiling says."""
    kind = AdditionKind()
    return lambda region: kind.schedule(kind.expression(region, capabilities.gemm), region, capabilities)


def _at_every_point(
    operands: list[te.Tensor], outer: tuple[int, ...], region: Region[Addition], gemm: Contraction
) -> tirx.PrimFunc:
    """``out = store(epilogue(a * m + b * n))`` as one statement; its parameters are a, b and the result."""
    epilogue, weights = region.epilogue, region.shape.weights

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, first: tirx.Var, second: tirx.Var) -> tirx.Expr:
        place = dict(zip(gemm.dst.axes, (first, second), strict=True))
        values = [each[n, c, y, x, *inner(gemm.data, m=place["m"], k=place["n"])] for each in operands]
        terms = [v.astype(gemm.sum_dtype) * tirx.const(w, gemm.sum_dtype) for v, w in zip(values, weights, strict=True)]
        return stored_value(apply_steps(terms[0] + terms[1], epilogue.steps), epilogue.result, epilogue.scaling)

    return te.create_prim_func([*operands, te.compute((*outer, *gemm.dst.shape), element, name="result0")])


def _region(composite: CompositeRegion, epilogue: Epilogue, capabilities: Capabilities) -> Region[Addition] | str:
    gemm, title = capabilities.gemm, capabilities.accelerator.title
    obstacle = identity_obstacle(capabilities)
    if obstacle:
        return obstacle
    levels = _levels(composite, capabilities)
    if isinstance(levels, str):
        return levels
    data = packed_image(composite.result, gemm)
    if isinstance(data, str):
        return data
    product = with_bias_by_product(epilogue, gemm, largest_addend(composite) + _WEIGHT_MAX)
    for each in (epilogue,) if product is None else (product, epilogue):
        tiling = _largest_tiling(data, capabilities, each, len(levels))
        if tiling is not None:
            return Region(Addition((data, data), levels), each, tiling)
    return f"no tile of it fits the scratchpads of {title}"


def _levels(composite: CompositeRegion, capabilities: Capabilities) -> SplitWeights | str:
    """The weights of an addition as int8, or why they cannot be."""
    first, second = composite.weights
    levels = split_weights((first, second))
    if levels is None:
        return "the operands' scales lie too far apart for weights of 14 bits"
    if len(levels) > 1 and capabilities.step("shift_right", -LEVEL_BITS) is None:
        title = capabilities.accelerator.title
        return f"the operands' scales need weights of 14 bits, and {title} has no shift left on its accumulators"
    return levels


def _largest_tiling(
    image: PackedActivation, capabilities: Capabilities, epilogue: Epilogue, levels: int
) -> Tiling | None:
    """The largest tile that fits and leaves a few tiles to overlap; its extents divide the image, as nothing pads.

    All channels are alike to it: where a load takes several blocks of a row, neighbouring columns make up for those
    that the image has not.
    """
    gemm = capabilities.gemm
    columns_as_blocks = max(
        each for each in divisors(image.width) if each * image.blocks <= max(gemm.data.blocks, 1) or each == 1
    )
    packed = image.with_columns_as_blocks(columns_as_blocks)
    whole = needs_double_buffer(epilogue, capabilities.accelerator, gemm)  # a tile of one context is then all of it
    identities = levels * len(_OPERANDS) * gemm.weights.elements
    data = gemm.data.memory.depth - (identities if gemm.weights.memory == gemm.data.memory else 0)
    tiles, results = data // gemm.data.elements - epilogue.products, gemm.dst.memory.depth // gemm.dst.elements
    capacity = tiles // 2
    table = gemm.instruction.microops
    microops = capabilities.accelerator.memory(table.memory).depth if table is not None else None
    kernels = (gemm.weights.memory.depth - identities) // gemm.weights.elements
    if kernels < 0 or capacity < 1:
        return None
    total = packed.blocks * packed.height * packed.width
    shared = len({each.memory.holder for each in (gemm.data, gemm.weights, gemm.dst)}) < len(
        {each.memory.name for each in (gemm.data, gemm.weights, gemm.dst)}
    )

    def fit_together(contexts: int, blocks: int, pixels: int) -> bool:
        """Whether data, weights and results fit beside each other, where they are views of the same bytes."""
        used: dict[str, int] = {}
        for tile, elements in (
            (gemm.data, (len(_OPERANDS) * contexts * blocks * pixels + epilogue.products) * gemm.data.elements),
            (gemm.weights, identities + contexts * blocks * epilogue.products * gemm.weights.elements),
            (gemm.dst, contexts * blocks * (pixels + epilogue.tensors) * gemm.dst.elements),
        ):
            used[tile.memory.name] = used.get(tile.memory.name, 0) + elements
        return capabilities.accelerator.fits(used)

    for contexts, largest in ((2, total // _OVERLAPPING), (2, total), (1, total)):
        best = max(
            (
                (blocks * rows * columns, min(blocks, gemm.data.blocks), columns, rows, blocks)
                for columns in divisors(packed.width)
                for rows in divisors(packed.height)
                for blocks in divisors(packed.blocks)
                if blocks * rows * columns <= min(largest, capacity // contexts)
                and contexts * blocks * (rows * columns + epilogue.tensors) <= results
                and contexts * blocks * epilogue.products <= kernels
                and (contexts == 2 or not whole or (blocks * rows * columns, packed.batch) == (total, 1))
                and (microops is None or _MICROOPS * contexts * blocks <= microops)
                and (not shared or fit_together(contexts, blocks, rows * columns))
            ),
            default=None,
        )
        if best is not None:
            _, _, columns, rows, blocks = best
            return Tiling(
                blocks, rows, columns, 1, 1, 1, "stream", contexts, contexts, image.height, image.width,
                columns_as_blocks=columns_as_blocks,
            )  # fmt: skip
    return None


def _place(sch: Schedule, region: Region[Addition], tile: TileLoops, capabilities: Capabilities) -> None:
    """Load both operands and the identities, and contract level by level."""
    gemm = capabilities.gemm
    block = sch.get_sblock("accumulate")
    c, y, x, b, o, operand, i = sch.get_loops(block)[tile.depth :]
    sch.reorder(operand, c, y, x, b, o, i)
    sch.annotate(c, gemm.instruction.pragma, 1)
    sch.set_scope(block, 0, gemm.dst.memory.scope)
    data, weights = gemm.data.memory, gemm.weights.memory
    more = [_place_level(sch, level, tile, capabilities) for level in range(1, len(region.shape.levels))]
    for index in (0, 1):
        # both loads come before both contractions, so that they run ahead together
        copy = sch.cache_read(block, index, data.scope, [block, *more])
        copy_in(sch, copy, tile.inner, load_pragma(capabilities, data, data.dtype))
    identities = sch.cache_read(block, 2, weights.scope, [block, *more])
    copy_in(sch, identities, None, load_pragma(capabilities, weights, weights.dtype))
    sch.unroll(operand)
    if region.epilogue.has_product:
        sch.annotate(tile.channels, CONTEXTS_PRAGMA, region.tiling.operand_contexts)
    start_accumulators(sch, block, operand, tile.depth, region.epilogue, capabilities)
    for lower in more:
        init = sch.decompose_reduction(lower, sch.get_loops(lower)[tile.depth])
        # a nest of its own, for the sum so far to be taken over in place
        sch.annotate(sch.get_loops(init)[tile.depth], gemm.instruction.pragma, 1)


def _place_level(sch: Schedule, level: int, tile: TileLoops, capabilities: Capabilities) -> Handle:
    """A further contraction of the same operands, which begins as the sum so far, shifted left."""
    shift = capabilities.step("shift_right", -LEVEL_BITS)
    place_stage(sch, f"upper{level}", tile, capabilities.gemm.dst.memory, shift)
    block = sch.get_sblock(f"accumulate{level}")
    sch.reverse_compute_at(block, tile.inner, preserve_unit_loops=True)
    sch.set_scope(block, 0, capabilities.gemm.dst.memory.scope)
    *spatial, operand, i = sch.get_loops(block)[tile.depth :]
    sch.reorder(operand, *spatial, i)
    sch.annotate(spatial[0], capabilities.gemm.instruction.pragma, 1)
    sch.unroll(operand)
    return block
