"""The tensor expressions of the regions an accelerator runs, over packed operands."""

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from accel.accelerator.document import Accelerator
from accel.lowering.geometry import Addition, Convolution, Epilogue, Packed, Tiling

Element = Callable[..., Any]


def _activation(name: str, packed: Packed, batch: int, channels: int) -> te.Tensor:
    shape = (packed.batch, packed.blocks, packed.pitch_h, packed.pitch_w, batch, channels)
    return te.placeholder(shape, "int8", name=name)


def convolution(conv: Convolution, epilogue: Epilogue, tiling: Tiling, accelerator: Accelerator) -> tirx.PrimFunc:
    """``out = narrow(epilogue(conv(data, weights)))`` as a PrimFunc.

    Parameters are data, weights ``[out_blocks, in_blocks, kh, kw, o, i]``, bias ``[out_blocks, b, o]`` if
    there is one, then one result a plane, ``[batch, out_blocks, pitch_h, pitch_w, b, o]``.
    """
    b, o, i = accelerator.tile
    data = _activation("data", conv.data, b, i)
    weights = te.placeholder((conv.out_blocks, conv.data.blocks, *conv.kernel, o, i), "int8", name="weights")
    rows, columns = tiling.out_pitch_h, tiling.out_pitch_w
    padded = _padded(data, conv, rows, columns)
    (sh, sw), (dh, dw) = conv.strides, conv.dilation
    axes = [
        te.reduce_axis((0, extent), name)
        for extent, name in zip((conv.data.blocks, *conv.kernel, i), ("ci", "kh", "kw", "i"), strict=True)
    ]
    ci, kh, kw, lane = axes
    accumulated = te.compute(
        (conv.data.batch, conv.out_blocks, rows, columns, b, o),
        lambda n, c, y, x, bb, oo: te.sum(
            padded[n, ci, y * sh + kh * dh, x * sw + kw * dw, bb, lane].astype("int32")
            * weights[c, ci, kh, kw, oo, lane].astype("int32"),
            axis=axes,
        ),
        name="accumulate",
    )
    arguments, results = _finish(accumulated, epilogue)
    return te.create_prim_func([data, weights, *arguments, *results])


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
        return te.if_then_else(te.all(*bounds), value, tirx.const(0, "int8"))

    return te.compute(shape, element, name="padded")


def addition(add: Addition, epilogue: Epilogue, tiling: Tiling, accelerator: Accelerator) -> tirx.PrimFunc:
    """``out = narrow(epilogue((a << shifts[0]) + (b << shifts[1])))`` as a contraction with scaled identities.

    The accelerator's loads into the accumulators are int32 wide; its data loads are a quarter of that, and a
    contraction with ``diag(1 << shift)`` moves one element a cycle. Parameters are a, b, the two
    identities ``[2, o, i]``, then the result.
    """
    b, o, i = accelerator.tile
    operands = [_activation(name, packed, b, i) for name, packed in zip("ab", add.operands, strict=True)]
    identities = te.placeholder((2, o, i), "int8", name="identities")
    shape = (add.operands[0].batch, add.operands[0].blocks, tiling.out_pitch_h, tiling.out_pitch_w, b, o)
    which, lane = te.reduce_axis((0, 2), "operand"), te.reduce_axis((0, i), "i")

    def pick(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, bb: tirx.Var) -> tirx.Expr:
        return te.if_then_else(which == 0, operands[0][n, c, y, x, bb, lane], operands[1][n, c, y, x, bb, lane])

    accumulated = te.compute(
        shape,
        lambda n, c, y, x, bb, oo: te.sum(
            pick(n, c, y, x, bb).astype("int32") * identities[which, oo, lane].astype("int32"), axis=[which, lane]
        ),
        name="accumulate",
    )
    arguments, results = _finish(accumulated, epilogue)
    return te.create_prim_func([*operands, identities, *arguments, *results])


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
        results.append(te.compute(shape, _narrow(stage), name=f"result{plane}"))
    return arguments, results


def _add_bias(stage: te.Tensor, bias: te.Tensor) -> Element:
    return lambda n, c, y, x, b, o: stage[n, c, y, x, b, o] + bias[c, b, o]


def _elementwise(stage: te.Tensor, name: str, immediate: int) -> Element:
    constant = tirx.const(immediate, "int32")
    operations: dict[str, Element] = {
        "add": lambda value: value + constant,
        "max": lambda value: tirx.max(value, constant),
        "min": lambda value: tirx.min(value, constant),
        "shift_right": lambda value: value >> constant if immediate >= 0 else value << tirx.const(-immediate, "int32"),
    }
    operation = operations[name]
    return lambda *indices: operation(stage(*indices))


def _narrow(stage: te.Tensor) -> Element:
    return lambda *indices: stage(*indices).astype("int8")
