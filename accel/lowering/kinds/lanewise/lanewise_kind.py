"""What kinds of lane-wise regions share: all but which composites they plan, and how operands are combined."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Generic

import numpy as np
from tvm import relax, te, tirx

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.image_padding import Padding
from accel.lowering.kinds.lanewise.lanewise_expression import LaneShape, lanewise_function, operand_name
from accel.lowering.kinds.lanewise.lanewise_schedule import schedule_lanewise
from accel.lowering.kinds.region_kind import PackedOperands, PackedRegion, PackRequest, UsedOperation
from accel.lowering.kinds.used_operations import (
    bias_load,
    epilogue_operations,
    microop_loads,
    step_operations,
    sum_operations,
)
from accel.lowering.layout import tiled_layout
from accel.lowering.layout.operand_layout import OperandLayout
from accel.lowering.layout.packed_constants import rounding_constant, rounding_vector
from accel.region.epilogue import INT8
from accel.region.kinds import Region
from accel.region.shapes import PackedActivation


class LanewiseKind(ABC, Generic[LaneShape]):
    """Regions whose tiles are made of steps on accumulators; a kind of them plans, and combines operands."""

    @abstractmethod
    def combine(self, operands: list[te.Tensor], shape: LaneShape, extents: tuple[int, ...]) -> te.Tensor:
        """The stage of the given extents that combines operands, each times its weight and padded."""

    def pack(self, request: PackRequest[LaneShape], operands: PackedOperands) -> PackedRegion[LaneShape]:
        """The region over its operands as they lie, and what brings them into the accumulators."""
        region, composite, gemm = request.region, request.composite, operands.gemm
        shape = region.shape
        brought = [
            operands.lanes(argument, OperandLayout(packed, shape.host_padding, direct=shape.direct))
            for argument, packed in zip(request.call.args, shape.operands, strict=False)
        ]
        arguments = [operand for operand, _ in brought]
        if not shape.direct:
            arguments.append(relax.const(tiled_layout.diagonals(shape.factors, gemm)))
        if region.epilogue.has_bias:
            blocks = shape.operands[0].blocks
            rounding = rounding_vector(request.call, composite, region.epilogue, blocks * gemm.out_channels)
            arguments.append(relax.const(tiled_layout.pack_bias(rounding, blocks, gemm.dst)))
        if not shape.direct and region.epilogue.start == "bias":
            first = rounding_constant(composite, region.epilogue) if region.epilogue.applies_function else 0
            arguments.append(relax.const(np.full(gemm.dst.shape, first, np.int32)))
        shape = shape.over(tuple(packed for _, packed in brought))
        return PackedRegion(replace(region, shape=shape), arguments, composite, composite.result)

    def expression(self, region: Region[LaneShape], gemm: Contraction) -> tirx.PrimFunc:
        """What a region computes, as tensor expressions; its parameters are the arguments, then the result."""
        return lanewise_function(region, gemm, self.combine)

    def padding_of_data(self, region: Region[LaneShape]) -> Padding:
        """The least int8, where zeros will not do."""
        return Padding(region.shape.host_padding, INT8[0])

    def activations(self, region: Region[LaneShape]) -> dict[str, PackedActivation]:
        """The operands."""
        return {operand_name(number): packed for number, packed in enumerate(region.shape.operands)}

    def schedule(self, function: tirx.PrimFunc, region: Region[LaneShape], capabilities: Capabilities) -> tirx.PrimFunc:
        """The function as the nests of its steps, with their pragmas."""
        return schedule_lanewise(function, region, capabilities)

    def instructions(self, region: Region[LaneShape], capabilities: Capabilities) -> Iterator[UsedOperation]:
        """What a tile uses, in its order."""
        yield from microop_loads(capabilities)
        if not region.shape.direct:
            yield from sum_operations(region.epilogue, capabilities)
        if region.shape.direct and region.epilogue.has_bias:
            yield from bias_load(capabilities)
        yield from step_operations(region.shape, region.tiling, capabilities)
        yield from epilogue_operations(region.epilogue, capabilities)

    def host_layout(self, region: Region[LaneShape]) -> list[str]:  # noqa: ARG002
        """Nothing."""
        return []
