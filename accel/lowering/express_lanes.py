"""The tensor expressions of regions that are made of steps, over packed operands."""

from functools import reduce
from typing import Any

from tvm import te, tirx

from accel.accelerator.roles import Contraction
from accel.lowering.capabilities import combined, stored
from accel.lowering.elementwise import PAIRS, Elementwise
from accel.lowering.finish import elementwise_stage, stage_name
from accel.lowering.geometry import Epilogue, Tiling
from accel.lowering.lanes import lane_tile
from accel.lowering.pooling import Pooling
from accel.lowering.steps import Lanewise


def lanewise(shape: Pooling | Elementwise, epilogue: Epilogue, tiling: Tiling, gemm: Contraction) -> tirx.PrimFunc:
    """``out = store(epilogue(...))`` as a PrimFunc.

    Parameters are the operands ``[batch, blocks, pitch_h, pitch_w, *tile]``, the factors as diagonal matrices
    ``[factors, *tile of weights]`` unless loads bring the operands into the accumulators, zeros ``[*tile of dst]`` if
    loads clear those, and the result
    ``[batch, blocks, pitch_h, pitch_w, *tile of dst]``.
    """
    tile = lane_tile(gemm, direct=shape.direct)
    operands = [
        te.placeholder((o.batch, o.blocks, o.pitch_h, o.pitch_w, *tile.shape), "int8", name=f"x{number}")
        for number, o in enumerate(shape.operands)
    ]
    diagonals = te.placeholder((len(shape.factors), *gemm.weights.shape), gemm.weights.memory.dtype, name="diagonals")
    reach = shape.reach(tiling.out_pitch_h, tiling.out_pitch_w)
    weights = shape.weights if isinstance(shape, Elementwise) else (1,)
    brought = [
        _brought(number, operand, diagonals, shape, reach, weight, gemm)
        for number, (operand, weight) in enumerate(zip(operands, weights, strict=True))
    ]
    first = shape.operands[0]
    extents = (first.batch, first.blocks, tiling.out_pitch_h, tiling.out_pitch_w, *gemm.dst.shape)
    stage = _largest(brought[0], shape, extents) if isinstance(shape, Pooling) else _all(brought, shape, extents)
    for number, steps in enumerate(epilogue.grouped):
        stage = elementwise_stage(stage, steps, stage_name(number, steps))
    result = te.compute(extents, lambda *at: stored(stage(*at), epilogue.result, epilogue.scaling), name="result0")
    constants = [] if shape.direct else [diagonals]
    if not shape.direct and epilogue.start == "bias":
        constants.append(te.placeholder(gemm.dst.shape, gemm.dst.memory.dtype, name="zeros"))
    return te.create_prim_func([*operands, *constants, result])


def _brought(
    number: int, operand: te.Tensor, diagonals: te.Tensor, shape: Lanewise, reach: tuple[int, int], weight: int,
    gemm: Contraction,
) -> te.Tensor:  # fmt: skip
    """An operand times its weight as int32, as far as the tiles reach, with the padding."""
    packed, (top, left) = shape.operands[number], shape.padding[:2]
    outer = (packed.batch, packed.blocks, *reach)

    def inside(n: Any, c: Any, y: Any, x: Any, *inner: Any) -> Any:
        bounds = te.all(y >= top, y < top + packed.height, x >= left, x < left + packed.width)
        return te.if_then_else(bounds, operand[n, c, y - top, x - left, *inner], tirx.const(0, "int8"))

    padded = te.compute((*outer, *operand.shape[4:]), inside, name=f"padded{number}")
    lane = te.reduce_axis((0, gemm.in_channels), "i")

    def element(n: Any, c: Any, y: Any, x: Any, first: Any, second: Any) -> Any:
        if shape.direct:
            return padded[n, c, y, x, first, second].astype("int32") * tirx.const(weight, "int32")
        at = dict(zip(gemm.dst.axes, (first, second), strict=True))
        value = padded[n, c, y, x, *({"m": at["m"], "k": lane}[axis] for axis in gemm.data.axes)]
        place = [{"n": at["n"], "k": lane}[axis] for axis in gemm.weights.axes]
        factor = diagonals[shape.factors.index(weight), *place]
        return te.sum(value.astype("int32") * factor.astype("int32"), axis=lane)

    return te.compute((*outer, *gemm.dst.shape), element, name=f"brought{number}")


def _largest(data: te.Tensor, shape: Pooling, extents: tuple[int, ...]) -> te.Tensor:
    window = shape.window
    ky, kx = (te.reduce_axis((0, extent), name) for extent, name in zip(window.kernel, ("kh", "kw"), strict=True))
    (sh, sw), (dh, dw) = window.strides, window.dilation

    def element(n: Any, c: Any, y: Any, x: Any, *inner: Any) -> Any:
        return te.max(data[n, c, y * sh + ky * dh, x * sw + kx * dw, *inner], axis=[ky, kx])

    return te.compute(extents, element, name="largest")


def _all(terms: list[te.Tensor], shape: Elementwise, extents: tuple[int, ...]) -> te.Tensor:
    pair = PAIRS[shape.combination]

    def element(*at: Any) -> Any:
        return reduce(lambda value, term: combined(value, pair, term(*at)), terms[1:], terms[0](*at))

    return te.compute(extents, element, name="combined")
