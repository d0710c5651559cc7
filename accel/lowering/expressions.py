"""The tensor expressions of the regions an accelerator runs, over packed operands."""

from collections.abc import Callable
from typing import Any

from tvm import ir, s_tir, te, tirx
from tvm_ffi import structural_mutate

from accel.accelerator.roles import Contraction, Tile
from accel.lowering.capabilities import elementwise, stored
from accel.lowering.geometry import Addition, Convolution, Epilogue, EpilogueOp, Packed, Tiling

Element = Callable[..., Any]


def _activation(name: str, packed: Packed, tile: Tile) -> te.Tensor:
    shape = (packed.batch, packed.blocks, packed.pitch_h, packed.pitch_w, *tile.shape)
    return te.placeholder(shape, tile.memory.dtype, name=name)


def _inner(tile: Tile, **indices: tirx.Expr) -> tuple[tirx.Expr, ...]:
    """The indices of a tile's two axes in the order in which they lie."""
    return tuple(indices[axis] for axis in tile.axes)


def convolution(conv: Convolution, epilogue: Epilogue, tiling: Tiling, gemm: Contraction) -> tirx.PrimFunc:
    """``out = store(epilogue(conv(data, weights)))`` as a PrimFunc.

    Parameters are data, weights ``[out_blocks, blocks of a group, kh, kw, *tile]``, bias ``[out_blocks, *tile of dst]``
    if there is one, then one result a plane, ``[batch, out_blocks, pitch_h, pitch_w, *tile of dst]``.
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
        element = padded[n, block, y * sh + kh * dh, x * sw + kw * dw, *_inner(gemm.data, m=m, k=lane)]
        place = (0, 0, 0, 0) if conv.uniform else (c, ci, kh, kw)
        weight = weights[*place, *_inner(gemm.weights, n=o, k=lane)]
        return element.astype("int32") * weight.astype("int32")

    outer = (conv.data.batch, conv.out_blocks, rows, columns)
    accumulated, arguments = _accumulated(outer, product, axes, epilogue, gemm)
    more, results = _finish(accumulated, epilogue)
    function = te.create_prim_func([data, weights, *arguments, *more, *results])
    return _begun_with(function, "bias") if arguments else function


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

    return te.compute(shape, element, name="accumulate"), [] if bias is None else [bias]


def _begun_with(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """The function whose sum begins as parameter ``name`` ``[out_blocks, *tile]``; a sum of TE begins at zero."""
    start = next(buffer for buffer in function.params if str(buffer.name) == name)

    def begun(block: s_tir.SBlock, _mutator: Any) -> s_tir.SBlock:
        indices = list(block.init.indices)
        first = tirx.BufferLoad(start, [indices[1], *indices[4:]])
        store = tirx.BufferStore(block.init.buffer, first, indices)
        region = tirx.BufferRegion(start, [ir.Range.from_min_extent(index, 1) for index in first.indices])
        return s_tir.SBlock(
            block.iter_vars, [*block.reads, region], block.writes, block.name_hint, block.body, store,
            block.alloc_buffers, block.match_buffers, block.annotations,
        )  # fmt: skip

    def sums(block: s_tir.SBlock, mutator: Any) -> s_tir.SBlock:
        return begun(block, mutator) if block.init is not None else mutator.default_mutate(block)

    return function.with_body(structural_mutate(function.body, (s_tir.SBlock, sums)))


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
    """``out = store(epilogue((a << shifts[0]) + (b << shifts[1])))`` as a contraction with scaled identities.

    Loads into the accumulators are int32 wide; loads of data are a quarter of that, and a
    contraction with ``diag(1 << shift)`` moves one element a cycle. Parameters are a, b, the two
    identities ``[2, *tile]``, bias if the accumulators begin as one, then the result.
    """
    operands = [_activation(name, packed, gemm.data) for name, packed in zip("ab", add.operands, strict=True)]
    identities = te.placeholder((2, *gemm.weights.shape), gemm.weights.memory.dtype, name="identities")
    which, lane = te.reduce_axis((0, 2), "operand"), te.reduce_axis((0, gemm.in_channels), "i")

    def product(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, m: tirx.Expr, o: tirx.Expr) -> tirx.Expr:
        place = (n, c, y, x, *_inner(gemm.data, m=m, k=lane))
        element = te.if_then_else(which == 0, operands[0][place], operands[1][place])
        weight = identities[which, *_inner(gemm.weights, n=o, k=lane)]
        return element.astype("int32") * weight.astype("int32")

    outer = (add.operands[0].batch, add.operands[0].blocks, tiling.out_pitch_h, tiling.out_pitch_w)
    accumulated, arguments = _accumulated(outer, product, [which, lane], epilogue, gemm)
    more, results = _finish(accumulated, epilogue)
    function = te.create_prim_func([*operands, identities, *arguments, *more, *results])
    return _begun_with(function, "bias") if arguments else function


def _finish(accumulated: te.Tensor, epilogue: Epilogue) -> tuple[list[te.Tensor], list[te.Tensor]]:
    """The epilogue's stages, one compute each so that each can carry a pragma, and the narrowing results."""
    shape, arguments, stage = accumulated.shape, [], accumulated
    for number, (name, immediate) in enumerate(epilogue.steps):
        label = f"epilogue{number}_{name}"
        if name == "add_tensor":
            bias = te.placeholder((shape[1], shape[4], shape[5]), "int32", name="bias")
            arguments.append(bias)
            stage = te.compute(shape, _add_bias(stage, bias), name=label)
        else:
            stage = te.compute(shape, _elementwise(stage, name, immediate), name=label)
    results = []
    for plane in range(epilogue.planes):
        if plane:
            stage = te.compute(shape, _elementwise(stage, "shift_right", 8), name=f"plane{plane}_shift_right")
        results.append(te.compute(shape, _stored(stage, epilogue), name=f"result{plane}"))
    return arguments, results


def _add_bias(stage: te.Tensor, bias: te.Tensor) -> Element:
    return lambda n, c, y, x, b, o: stage[n, c, y, x, b, o] + bias[c, b, o]


def _elementwise(stage: te.Tensor, name: EpilogueOp, immediate: int) -> Element:
    return lambda *indices: elementwise(stage(*indices), name, tirx.const(immediate, "int32"))


def _stored(stage: te.Tensor, epilogue: Epilogue) -> Element:
    return lambda *indices: stored(stage(*indices), epilogue.result, epilogue.scaling)
