"""Softmax of rows as regions: int8 times a weight in the accumulators, then the passes and the stores of a function.

A product with a weighted identity brings the data there, twice where what is summed is less than what is stored.
"""

import numpy as np
from tvm import relax, tirx

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.lowering.kinds.region_kind import PackedOperands, PackedRegion, PackRequest, PlanRequest, Refusal
from accel.lowering.kinds.rows.constant_product import constant_product, largest_product
from accel.lowering.kinds.rows.row_expression import softmax_function
from accel.lowering.kinds.rows.row_kind import EPILOGUE, RowKind, row_tiling
from accel.lowering.kinds.rows.row_schedule import RowBoxes, schedule_rows
from accel.lowering.kinds.rows.row_tiling import softmax_tiles
from accel.lowering.layout import tiled_layout
from accel.lowering.layout.operand_layout import OperandLayout
from accel.region.kinds import Region, TilingOption
from accel.region.row_softmax import RowSoftmax
from accel.region.shapes import PackedActivation


class SoftmaxKind(RowKind[RowSoftmax]):
    """Softmax of the rows of a matrix of int8."""

    function = "softmax"
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

    def schedule(
        self, function: tirx.PrimFunc, region: Region[RowSoftmax], capabilities: Capabilities
    ) -> tirx.PrimFunc:
        """The function as the nests of its steps, with their pragmas."""
        softmax = region.shape.softmax
        boxes = RowBoxes([[(0, "data")], [(0, "data"), (1, "ones")]] if softmax.octaves else [[(0, "data")]])
        constants = (softmax.ln2, softmax.inverse, softmax.b, softmax.c)
        return schedule_rows(function, region, capabilities, self.function, boxes, constants)


def _region(composite: CompositeRegion, capabilities: Capabilities) -> Region[RowSoftmax] | str:
    """The region of a composite, or why there is none."""
    softmax, (rows, columns) = composite.softmax, composite.result
    assert softmax is not None
    cut = softmax_tiles(capabilities, rows, columns, softmax.octaves)
    if isinstance(cut, str):
        return cut
    if -softmax.offset > largest_product(capabilities.gemm):
        return f"what is summed would be {-softmax.offset} less, which is no product of int8"
    data = PackedActivation.dense(1, cut.blocks, 1, rows)
    return Region(RowSoftmax(data, columns, cut.rows, softmax), EPILOGUE, row_tiling(cut, rows))
