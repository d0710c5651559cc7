"""The tensor expressions of the regions an accelerator runs, over packed operands."""

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from accel.accelerator.roles import Contraction, Tile
from accel.lowering.attributes import Region
from accel.lowering.elementwise import Elementwise
from accel.lowering.express_lanes import lanewise
from accel.lowering.finish import ACCUMULATE, elementwise_stage, finished, inner
from accel.lowering.geometry import Addition, Convolution, Epilogue, Packed, Tiling
from accel.lowering.layout import packed_shape
from accel.lowering.levels import LEVEL_BITS
from accel.lowering.pooling import Pooling

Element = Callable[..., Any]


def _activation(name: str, packed: Packed, tile: Tile) -> te.Tensor:
    return te.placeholder(packed_shape(packed, tile), tile.memory.dtype, name=name)


def region_function(region: Region, gemm: Contraction) -> tirx.PrimFunc:
    """What a region computes as a PrimFunc."""
    if isinstance(region.shape, Convolution):
        return convolution(region.shape, region.epilogue, region.tiling, gemm)
    if isinstance(region.shape, Pooling | Elementwise):
        return lanewise(region.shape, region.epilogue, region.tiling, gemm)
    return addition(region.shape, region.epilogue, region.tiling, gemm)


def convolution(conv: Convolution, epilogue: Epilogue, tiling: Tiling, gemm: Contraction) -> tirx.PrimFunc:
    """``out = store(epilogue(conv(data, weights)))`` as a PrimFunc.

    Parameters are data, weights ``[out_blocks, blocks of a group, kh, kw, *tile]``, what :func:`accel.lowering.finish.
    finished` adds, then one result a plane, ``[batch, out_blocks, pitch_h, pitch_w, *tile of dst]``.
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
    return finished([data, weights], accumulated, arguments, epilogue, gemm, conv.addend)


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


def addition(add: Addition, epilogue: Epilogue, tiling: Tiling, gemm: Contraction) -> tirx.PrimFunc:
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
    return finished([*operands, identities], accumulated, arguments, epilogue, gemm, starts=starts)


def _continued(begin: te.Tensor, product: Element, axes: list[Any], gemm: Contraction, name: str) -> te.Tensor:
    """A sum of the products that shall begin as ``begin``; TE knows of it, and puts zero there."""

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, first: tirx.Var, second: tirx.Var) -> tirx.Expr:
        indices = dict(zip(gemm.dst.axes, (first, second), strict=True))
        value = product(n, c, y, x, indices["m"], indices["n"])
        return te.sum(value, axis=axes, init=begin[n, c, y, x, first, second])

    return te.compute(begin.shape, element, name=name)
