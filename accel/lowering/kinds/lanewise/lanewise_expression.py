"""Tensor expressions of lane-wise regions: operands brought into the accumulators, combined, and their epilogue."""

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from typing_extensions import TypeVar

from accel.accelerator.contraction import Contraction
from accel.lowering.ir.epilogue_arithmetic import stored_value
from accel.lowering.kinds.contraction.epilogue_stages import elementwise_stage, stage_name
from accel.region.kinds import Region, lane_tile
from accel.region.tile_steps import Lanewise

LaneShape = TypeVar("LaneShape", bound=Lanewise)

Combine = Callable[[list[te.Tensor], LaneShape, tuple[int, ...]], te.Tensor]
"""The stage of the given extents that combines operands, each times its weight and padded."""


def operand_name(number: int) -> str:
    """The parameter of an operand."""
    return f"x{number}"


def lanewise_function(region: Region[LaneShape], gemm: Contraction, combine: Combine[LaneShape]) -> tirx.PrimFunc:
    """``out = store(epilogue(combine(operands)))`` as a PrimFunc.

    Parameters are the operands ``[batch, blocks, pitch_h, pitch_w, *tile]``, the factors as diagonal matrices
    ``[factors, *tile of weights]`` unless loads bring the operands into the accumulators, what each channel adds
    ``[blocks, *tile of dst]`` if the epilogue does, zeros ``[*tile of dst]`` if loads clear accumulators, or another
    number where the store has a function of what it is added to, and the result
    ``[batch, blocks, pitch_h, pitch_w, *tile of dst]``.
    """
    shape, epilogue, tiling = region.shape, region.epilogue, region.tiling
    tile = lane_tile(gemm, direct=shape.direct)
    operands = [
        te.placeholder((o.batch, o.blocks, o.pitch_h, o.pitch_w, *tile.shape), "int8", name=operand_name(number))
        for number, o in enumerate(shape.operands)
    ]
    diagonals = te.placeholder((len(shape.factors), *gemm.weights.shape), gemm.weights.memory.dtype, name="diagonals")
    reach = shape.reach(tiling.out_pitch_h, tiling.out_pitch_w)
    brought = [
        _brought(number, operand, diagonals, shape, reach, weight, gemm)
        for number, (operand, weight) in enumerate(zip(operands, shape.weights, strict=True))
    ]
    first = shape.operands[0]
    extents = (first.batch, first.blocks, tiling.out_pitch_h, tiling.out_pitch_w, *gemm.dst.shape)
    stage = combine(brought, shape, extents)
    loaded = not shape.direct and epilogue.start == "bias"
    bias = te.placeholder((first.blocks, *gemm.dst.shape), gemm.sum_dtype, name="bias")
    for number, steps in enumerate(epilogue.grouped):
        stage = elementwise_stage(stage, steps, stage_name(number, steps), bias)
    zeros = te.placeholder(gemm.dst.shape, gemm.sum_dtype, name="zeros")
    if loaded and epilogue.applies_function:
        summed = stage
        stage = te.compute(extents, lambda *at: summed(*at) + zeros(*at[4:]), name="begun")
    result = te.compute(
        extents, lambda *at: stored_value(stage(*at), epilogue.result, epilogue.scaling), name="result0"
    )
    constants = [] if shape.direct else [diagonals]
    if epilogue.has_bias:
        constants.append(bias)
    if loaded:
        constants.append(zeros)
    return te.create_prim_func([*operands, *constants, result])


def _brought(
    number: int, operand: te.Tensor, diagonals: te.Tensor, shape: Lanewise, reach: tuple[int, int], weight: int,
    gemm: Contraction,
) -> te.Tensor:  # fmt: skip
    """An operand times its weight in accumulators, as far as the tiles reach, with the padding."""
    packed, (top, left) = shape.operands[number], shape.padding[:2]
    outer = (packed.batch, packed.blocks, *reach)

    def inside(n: Any, c: Any, y: Any, x: Any, *inner: Any) -> Any:
        bounds = te.all(y >= top, y < top + packed.height, x >= left, x < left + packed.width)
        return te.if_then_else(bounds, operand[n, c, y - top, x - left, *inner], tirx.const(0, "int8"))

    padded = te.compute((*outer, *operand.shape[4:]), inside, name=f"padded{number}")
    lane = te.reduce_axis((0, gemm.in_channels), "i")

    def element(n: Any, c: Any, y: Any, x: Any, first: Any, second: Any) -> Any:
        if shape.direct:
            return padded[n, c, y, x, first, second].astype(gemm.sum_dtype) * tirx.const(weight, gemm.sum_dtype)
        at = dict(zip(gemm.dst.axes, (first, second), strict=True))
        value = padded[n, c, y, x, *({"m": at["m"], "k": lane}[axis] for axis in gemm.data.axes)]
        place = [{"n": at["n"], "k": lane}[axis] for axis in gemm.weights.axes]
        factor = diagonals[shape.factors.index(weight), *place]
        return te.sum(value.astype(gemm.sum_dtype) * factor.astype(gemm.sum_dtype), axis=lane)

    return te.compute((*outer, *gemm.dst.shape), element, name=f"brought{number}")
