"""Softmax of rows as regions: int8 times a weight in the accumulators, then the passes and the stores of a function.

A product with a weighted identity brings the data there, twice where what is summed is less than what is stored.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from tvm import relax, tirx

from accel.accelerator.contraction import Contraction
from accel.accelerator.instructions import Operation
from accel.accelerator.row_functions import RowFunction
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.lowering.analysis.image_padding import NO_PADDING, Padding
from accel.lowering.analysis.lanewise_capabilities import identity_obstacle
from accel.lowering.kinds.lanewise.lanewise_expression import operand_name
from accel.lowering.kinds.region_kind import (
    PackedOperands,
    PackedRegion,
    PackRequest,
    PlanRequest,
    Refusal,
    UsedOperation,
)
from accel.lowering.kinds.rows.constant_product import constant_product, largest_product
from accel.lowering.kinds.rows.row_tiling import fits_accumulators, row_tiles
from accel.lowering.kinds.rows.softmax_expression import softmax_function
from accel.lowering.kinds.rows.softmax_schedule import schedule_softmax
from accel.lowering.kinds.used_operations import sum_operations
from accel.lowering.layout import tiled_layout
from accel.lowering.layout.operand_layout import OperandLayout
from accel.region.epilogue import INT8, Epilogue, Scaling
from accel.region.kinds import Region, TilingOption
from accel.region.row_softmax import RowSoftmax
from accel.region.shapes import PackedActivation
from accel.region.tilings import Tiling

_EPILOGUE = Epilogue((), scaling=Scaling(1.0, *INT8))


class SoftmaxKind:
    """Softmax of the rows of a matrix of int8."""

    shape = RowSoftmax
    operators = frozenset({"softmax"})

    def plan(self, request: PlanRequest) -> list[TilingOption[RowSoftmax]] | Refusal:
        """The way to run a composite, or why there is none."""
        found = _region(request.composite, request.capabilities)
        return Refusal(found) if isinstance(found, str) else [TilingOption(0.0, found)]

    def pack(self, request: PackRequest[RowSoftmax], operands: PackedOperands) -> PackedRegion[RowSoftmax]:
        """The region over its data as they lie, the weighted identity, and what makes less of what is summed."""
        region, gemm, softmax = request.region, operands.gemm, request.region.shape.softmax
        data, packed = operands.lanes(request.call.args[0], OperandLayout(region.shape.data))
        factors = tiled_layout.diagonals((softmax.weight,), gemm)
        arguments = [data, relax.const(factors)]
        if softmax.octaves:
            ones, less = constant_product(softmax.offset, gemm)
            arguments = [data, relax.const(np.concatenate([factors, less[None]])), relax.const(ones)]
        laid = Region(region.shape.over(packed), region.epilogue, region.tiling)
        return PackedRegion(laid, arguments, request.composite, request.composite.result)

    def expression(self, region: Region[RowSoftmax], gemm: Contraction) -> tirx.PrimFunc:
        """What a region computes, as tensor expressions; its parameters are the arguments, then the result."""
        return softmax_function(region, gemm)

    def padding_of_data(self, region: Region[RowSoftmax]) -> Padding:  # noqa: ARG002
        """Nothing."""
        return NO_PADDING

    def activations(self, region: Region[RowSoftmax]) -> dict[str, PackedActivation]:
        """The data."""
        return {operand_name(0): region.shape.data}

    def schedule(
        self, function: tirx.PrimFunc, region: Region[RowSoftmax], capabilities: Capabilities
    ) -> tirx.PrimFunc:
        """The function as the nests of its steps, with their pragmas."""
        return schedule_softmax(function, region, capabilities)

    def instructions(self, region: Region[RowSoftmax], capabilities: Capabilities) -> Iterator[UsedOperation]:
        """What a tile uses, in its order."""
        yield from sum_operations(Epilogue(()), capabilities)
        store = capabilities.row_store("softmax")
        if store is not None:
            does = "dram[n] = i8(sram[n])"
            yield UsedOperation("store", store, Operation(name="softmax", does=does))

    def host_layout(self, region: Region[RowSoftmax]) -> list[str]:  # noqa: ARG002
        """Nothing."""
        return []


def _region(composite: CompositeRegion, capabilities: Capabilities) -> Region[RowSoftmax] | str:
    """The region of a composite, or why there is none."""
    title, gemm, softmax = capabilities.accelerator.title, capabilities.gemm, composite.softmax
    store = capabilities.row_store("softmax")
    if softmax is None or store is None or store.rows is None:
        return f"{title} has no store that computes softmax of rows"
    begins = gemm.zero is not None or gemm.overwrites
    weighs = not identity_obstacle(capabilities) and capabilities.small and gemm.rows == 1
    if not weighs or not begins or -softmax.offset > largest_product(gemm):
        return f"{title} cannot bring int8 times a weight into its accumulators row by row"
    if gemm.dst.blocks == 1 or not gemm.results_are_data:
        return f"the blocks of a row do not lie side by side in the DRAM of {title}"
    rows, columns = composite.result
    blocks = math.ceil(columns / gemm.out_channels)
    cut = row_tiles(rows, blocks, store)
    if cut is None:
        return f"{title} computes softmax of rows, and not of {rows} with {columns} columns: {_few(store.rows)}"
    shape = RowSoftmax(PackedActivation.dense(1, blocks, 1, rows), columns, softmax, cut)
    for contexts in (2, 1):
        if fits_accumulators(shape, contexts, store, capabilities):
            tiling = Tiling(blocks, 1, shape.rows, 1, 1, 1, "stream", contexts, contexts, 1, rows)
            return Region(shape, _EPILOGUE, tiling)
    return f"rows of {columns} columns do not fit the accumulators of {title}"


def _few(function: RowFunction) -> str:
    """What rows lack that are too short, or too few."""
    least = f"a row must have {function.least_blocks} blocks at least"
    return f"{least}, and {function.apart} of other rows come between two passes over it"
