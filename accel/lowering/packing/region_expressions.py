"""Tensor expressions of the regions that an accelerator runs, over packed operands."""

from collections.abc import Callable
from functools import reduce
from typing import Any

from tvm import te, tirx

from accel.accelerator.contraction import Contraction, Tile
from accel.lowering.ir.epilogue_arithmetic import apply_pair, stored_value
from accel.lowering.packing.epilogue_stages import ACCUMULATE, elementwise_stage, inner, stage_name, with_epilogue
from accel.lowering.packing.tiled_layout import packed_shape
from accel.region.elementwise import PAIRS, Elementwise
from accel.region.epilogue import Epilogue
from accel.region.kinds import Region, lane_tile
from accel.region.pooling import Pooling
from accel.region.shapes import LEVEL_BITS, Addition, Convolution, Packed
from accel.region.tile_steps import Lanewise
from accel.region.tilings import Tiling


def lanewise_function(
    shape: Pooling | Elementwise, epilogue: Epilogue, tiling: Tiling, gemm: Contraction
) -> tirx.PrimFunc:
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
    result = te.compute(
        extents, lambda *at: stored_value(stage(*at), epilogue.result, epilogue.scaling), name="result0"
    )
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
        return reduce(lambda value, term: apply_pair(value, pair, term(*at)), terms[1:], terms[0](*at))

    return te.compute(extents, element, name="combined")


Element = Callable[..., Any]


def _activation(name: str, packed: Packed, tile: Tile) -> te.Tensor:
    return te.placeholder(packed_shape(packed, tile), tile.memory.dtype, name=name)


def region_function(region: Region, gemm: Contraction) -> tirx.PrimFunc:
    """What a region computes as a PrimFunc."""
    if isinstance(region.shape, Convolution):
        return convolution_function(region.shape, region.epilogue, region.tiling, gemm)
    if isinstance(region.shape, Pooling | Elementwise):
        return lanewise_function(region.shape, region.epilogue, region.tiling, gemm)
    assert isinstance(region.shape, Addition)
    return addition_function(region.shape, region.epilogue, region.tiling, gemm)


def convolution_function(conv: Convolution, epilogue: Epilogue, tiling: Tiling, gemm: Contraction) -> tirx.PrimFunc:
    """``out = store(epilogue(conv(data, weights)))`` as a PrimFunc.

    Parameters are data, weights ``[out_blocks, blocks of a group, kh, kw, *tile]``, what
    :func:`accel.lowering.packing.epilogue_stages. finished` adds, then one result a plane, ``[batch, out_blocks,
    pitch_h, pitch_w, *tile of dst]``.
    """
    data = _activation("data", conv.data, gemm.data)
    blocks = (1, 1, 1, 1) if conv.uniform else (conv.out_blocks, conv.reduced_blocks, *conv.kernel)
    shape = (*blocks, *gemm.weights.shape)
    weights = te.placeholder(shape, gemm.weights.memory.dtype, name="weights")
    rows, columns = tiling.out_pitch_h, tiling.out_pitch_w
    padded = _padded(data, conv, rows, columns)
    (sh, sw), (dh, dw) = conv.strides, conv.dilation
    axes = [
        te.reduce_axis((0, extent), name)
        for extent, name in zip(
            (conv.reduced_blocks, *conv.kernel, gemm.in_channels), ("ci", "kh", "kw", "i"), strict=True
        )
    ]
    ci, kh, kw, lane = axes

    def product(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, m: tirx.Expr, o: tirx.Expr) -> tirx.Expr:
        block = ci if conv.groups == 1 else c // conv.group_blocks * conv.reduced_blocks + ci
        element = padded[n, block, y * sh + kh * dh, x * sw + kw * dw, *inner(gemm.data, m=m, k=lane)]
        place = (0, 0, 0, 0) if conv.uniform else (c, ci, kh, kw)
        weight = weights[*place, *inner(gemm.weights, n=o, k=lane)]
        return element.astype("int32") * weight.astype("int32")

    outer = (conv.data.batch, conv.out_blocks, rows, columns)
    accumulated, arguments = _accumulated(outer, product, axes, epilogue, gemm)
    return with_epilogue([data, weights], accumulated, arguments, epilogue, gemm, conv.addend)


def _accumulated(
    outer: tuple[int, ...], product: Element, axes: list[Any], epilogue: Epilogue, gemm: Contraction
) -> tuple[te.Tensor, list[te.Tensor]]:
    """The sum of the products over ``axes``, beginning at zero or as the bias, which then is an argument."""
    shape = (*outer, *gemm.dst.shape)
    bias = te.placeholder((outer[1], *gemm.dst.shape), "int32", name="bias") if epilogue.start == "bias" else None

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, first: tirx.Var, second: tirx.Var) -> tirx.Expr:
        indices = dict(zip(gemm.dst.axes, (first, second), strict=True))
        value = product(n, c, y, x, indices["m"], indices["n"])
        return te.sum(value, axis=axes)

    return te.compute(shape, element, name=ACCUMULATE), [] if bias is None else [bias]


def _padded(data: te.Tensor, conv: Convolution, rows: int, columns: int) -> te.Tensor:
    """The data as far as the tiles reach, zero outside; the data itself where nothing is outside."""
    top, left = conv.padding[:2]
    height = (rows - 1) * conv.strides[0] + (conv.kernel[0] - 1) * conv.dilation[0] + 1
    width = (columns - 1) * conv.strides[1] + (conv.kernel[1] - 1) * conv.dilation[1] + 1
    inside_h = top == 0 and height <= conv.data.height
    inside_w = left == 0 and width <= conv.data.width
    if inside_h and inside_w:
        return data
    shape = (data.shape[0], data.shape[1], height, width, data.shape[4], data.shape[5])

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, b: tirx.Var, i: tirx.Var) -> tirx.Expr:
        bounds = [] if inside_h else [y >= top, y < top + conv.data.height]
        bounds += [] if inside_w else [x >= left, x < left + conv.data.width]
        value = data[n, c, y - top, x - left, b, i]
        return te.if_then_else(te.all(*bounds), value, tirx.const(0, str(data.dtype)))

    return te.compute(shape, element, name="padded")


def addition_function(add: Addition, epilogue: Epilogue, tiling: Tiling, gemm: Contraction) -> tirx.PrimFunc:
    """``out = store(epilogue(a * m + b * n))`` as a contraction with scaled identities, for each level one.

    Loads into the accumulators are int32 wide; loads of data are a quarter of that, and a
    contraction with ``diag(m)`` moves one element a cycle. Parameters are a, b, the
    identities ``[2 * levels, *tile]``, bias if there is one, then the result.
    """
    operands = [_activation(name, packed, gemm.data) for name, packed in zip("ab", add.operands, strict=True)]
    shape = (2 * len(add.levels), *gemm.weights.shape)
    identities = te.placeholder(shape, gemm.weights.memory.dtype, name="identities")
    outer = (add.operands[0].batch, add.operands[0].blocks, tiling.out_pitch_h, tiling.out_pitch_w)

    def summed(level: int) -> tuple[Element, list[Any]]:
        which, lane = te.reduce_axis((0, 2), "operand"), te.reduce_axis((0, gemm.in_channels), "i")

        def product(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, m: tirx.Expr, o: tirx.Expr) -> tirx.Expr:
            place = (n, c, y, x, *inner(gemm.data, m=m, k=lane))
            element = te.if_then_else(which == 0, operands[0][place], operands[1][place])
            weight = identities[2 * level + which, *inner(gemm.weights, n=o, k=lane)]
            return element.astype("int32") * weight.astype("int32")

        return product, [which, lane]

    accumulated, arguments = _accumulated(outer, *summed(0), epilogue, gemm)
    starts = {}
    for level in range(1, len(add.levels)):
        shifted = elementwise_stage(accumulated, (("shift_right", -LEVEL_BITS),), f"upper{level}")
        accumulated = _continued(shifted, *summed(level), gemm, f"{ACCUMULATE}{level}")
        starts[str(accumulated.name)] = str(shifted.name)
    return with_epilogue([*operands, identities], accumulated, arguments, epilogue, gemm, starts=starts)


def _continued(begin: te.Tensor, product: Element, axes: list[Any], gemm: Contraction, name: str) -> te.Tensor:
    """A sum of the products that shall begin as ``begin``; TE knows of it, and puts zero there."""

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, first: tirx.Var, second: tirx.Var) -> tirx.Expr:
        indices = dict(zip(gemm.dst.axes, (first, second), strict=True))
        value = product(n, c, y, x, indices["m"], indices["n"])
        return te.sum(value, axis=axes, init=begin[n, c, y, x, first, second])

    return te.compute(begin.shape, element, name=name)
