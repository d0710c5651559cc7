"""Layer norm of rows as regions: int8 times two weights in the accumulators, then the passes and the stores.

Products with weighted identities bring the data there twice: what is stored is so many times what the deviation is of,
as the store leaves deviations, and whole ones would be few levels. A weight beyond int8 takes several products.
"""

from tvm import relax, tirx

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.kinds.region_kind import PackedOperands, PackedRegion, PackRequest, PlanRequest, Refusal
from accel.lowering.kinds.rows.row_expression import layer_norm_function
from accel.lowering.kinds.rows.row_kind import EPILOGUE, RowKind, row_tiling
from accel.lowering.kinds.rows.row_schedule import Product, RowBoxes, schedule_rows
from accel.lowering.kinds.rows.row_tiling import layer_norm_tiles
from accel.lowering.layout import tiled_layout
from accel.lowering.layout.operand_layout import OperandLayout
from accel.region.kinds import Region, TilingOption
from accel.region.row_layer_norm import RowLayerNorm
from accel.region.shapes import PackedActivation


class LayerNormKind(RowKind[RowLayerNorm]):
    """Layer norm of the rows of a matrix of int8, without gains and offsets."""

    function = "layer_norm"
    shape = RowLayerNorm
    operators = frozenset({"layer_norm"})

    def plan(self, request: PlanRequest) -> list[TilingOption[RowLayerNorm]] | Refusal:
        """The way to run a composite, or why there is none."""
        norm, (rows, columns) = request.composite.norm, request.composite.result
        assert norm is not None
        cut = layer_norm_tiles(request.capabilities, rows, columns)
        if isinstance(cut, str):
            return Refusal(cut)
        data = PackedActivation.dense(1, cut.blocks, 1, rows)
        shape = RowLayerNorm(data, columns, cut.rows, norm)
        return [TilingOption(0.0, Region(shape, EPILOGUE, row_tiling(cut, rows)))]

    def pack(self, request: PackRequest[RowLayerNorm], operands: PackedOperands) -> PackedRegion[RowLayerNorm]:
        """The region over its data as they lie, and the weighted identities."""
        region, norm = request.region, request.region.shape.norm
        data, packed = operands.lanes(request.call.args[0], OperandLayout(region.shape.data))
        factors = tiled_layout.diagonals([part for parts in norm.factors for part in parts], operands.gemm)
        laid = Region(region.shape.over(packed), region.epilogue, region.tiling)
        return PackedRegion(laid, [data, relax.const(factors)], request.composite, request.composite.result)

    def expression(self, region: Region[RowLayerNorm], gemm: Contraction) -> tirx.PrimFunc:
        """What a region computes, as tensor expressions; its parameters are the arguments, then the result."""
        return layer_norm_function(region, gemm)

    def schedule(
        self, function: tirx.PrimFunc, region: Region[RowLayerNorm], capabilities: Capabilities
    ) -> tirx.PrimFunc:
        """The function as the nests of its steps, with their pragmas."""
        stored, summed = map(len, region.shape.norm.factors)
        products: list[list[Product]] = [
            [(at, "data") for at in range(stored)],
            [(stored + at, "data") for at in range(summed)],
        ]
        return schedule_rows(function, region, capabilities, self.function, RowBoxes(products, together=True))
