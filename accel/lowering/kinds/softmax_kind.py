"""Softmax of rows as regions: int8 times a weight in the accumulators, then the passes and the stores of a function.

A product with a weighted identity brings the data there, twice where what is summed is less than what is stored.
"""

from collections.abc import Iterator

import numpy as np
from tvm import relax, tirx

from accel.accelerator.contraction import Contraction
from accel.accelerator.instructions import Operation
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.lowering.analysis.image_padding import NO_PADDING, Padding
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
from accel.lowering.kinds.rows.row_tiling import softmax_tiles
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
            rows = np.repeat(ones[None], region.shape.rows, 0)
            arguments = [data, relax.const(np.concatenate([factors, less[None]])), relax.const(rows)]
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

    def instructions(self, region: Region[RowSoftmax], capabilities: Capabilities) -> Iterator[UsedOperation]:  # noqa: ARG002
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
    softmax, (rows, columns) = composite.softmax, composite.result
    assert softmax is not None
    cut = softmax_tiles(capabilities, rows, columns, softmax.octaves)
    if isinstance(cut, str):
        return cut
    if -softmax.offset > largest_product(capabilities.gemm):
        return f"what is summed would be {-softmax.offset} less, which is no product of int8"
    shape = RowSoftmax(PackedActivation.dense(1, cut.blocks, 1, rows), columns, softmax, cut.rows)
    tiling = Tiling(cut.blocks, 1, cut.rows, 1, 1, 1, "stream", cut.contexts, cut.contexts, 1, rows)
    return Region(shape, _EPILOGUE, tiling)
