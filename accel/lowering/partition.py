"""Partition: which composites the accelerator runs, with their tiling, and why the others stay on the host."""

import math
from dataclasses import replace

from tvm import ir, relax

from accel.accelerator.document import Accelerator
from accel.lowering.attributes import HOST_REASON, REGION, Region, dump_region
from accel.lowering.capabilities import Capabilities
from accel.lowering.composite import Composite, read_composite
from accel.lowering.contexts import apart
from accel.lowering.epilogue import Ending, plan_ending
from accel.lowering.geometry import Addition, Convolution, Packed, Tiling, Window
from accel.lowering.plan import Cost, divisors, plan_convolution

_OPS = {"conv2d", "dense", "add"}
_OPERANDS = ("a", "b")
_ADDITION_MICROOPS = 8  # a block's micro-ops, at most: reset, two contractions, the passes of the epilogue
_OVERLAPPING = 4  # tiles, so that the first load and the last store are a small part of the whole


def partition(module: ir.IRModule, accelerator: Accelerator, cost: Cost) -> ir.IRModule:
    """Mark every composite with its region, or with the reason why it has none."""
    able = Capabilities.of(accelerator)
    result = ir.IRModule(dict(module.functions.items()), attrs=module.attrs)
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function) or function.attrs is None or "op" not in function.attrs:
            continue
        if str(function.attrs["op"]) not in _OPS:
            reason = f"{function.attrs['cause']}; {requantises(able)}"
            result.update_func(variable, function.with_attr(HOST_REASON, reason))
            continue
        found = _region(read_composite(function), able, cost)
        if isinstance(found, str):
            result.update_func(variable, function.with_attr(HOST_REASON, found))
        else:
            result.update_func(variable, function.with_attr(REGION, dump_region(found)))
    return result


def requantises(able: Capabilities) -> str:
    """How the accelerator comes from int32 to int8, in words."""
    title = able.accelerator.title
    if able.scales:
        return f"{title} requantises to int8 by one float scale a tensor"
    if able.store("int8") is None:
        return f"{title} leaves int32, which the host requantises"
    return f"{title} requantises to int8 by adding and shifting"


def _region(composite: Composite, able: Capabilities, cost: Cost) -> Region | str:
    ending = plan_ending(composite, able)
    if isinstance(ending, str):
        return ending
    title = able.accelerator.title
    if composite.op == "add":
        return ending.host_reason or _addition(composite, ending, able)
    for candidate in _shapes(composite, able):
        tiling = plan_convolution(candidate, ending.epilogue, able.accelerator, able.gemm, cost)
        if tiling is not None:
            return Region("convolution", candidate, ending.epilogue, tiling, ending.host_reason)
    return f"no tile of it fits the scratchpads of {title}"


def _shapes(composite: Composite, able: Capabilities) -> list[Convolution]:
    """The ways to see the composite as a convolution over tiles, the best first."""
    if composite.op == "dense":
        return [_dense(composite, able)]
    if able.gemm.rows > 1:
        return [_unfolded(composite, able)]  # a tile of several rows would need them side by side in the image
    shape = _convolution(composite, able)
    if able.gemm.data.memory.dtype != "int8":
        return [_padded_on_host(shape)]  # its zeros are no zeros of ours
    return [shape, _padded_on_host(shape)]


def _packed(batch: int, blocks: int, height: int, width: int) -> Packed:
    return Packed(batch, blocks, height, width, height, width)


def _convolution(composite: Composite, able: Capabilities) -> Convolution:
    n, _, h, w = composite.shapes[0]
    window, lots = _window(composite), composite.lots(able.gemm)
    return Convolution(
        data=_packed(math.ceil(n / able.gemm.rows), lots.count * math.ceil(lots.inputs / able.gemm.in_channels), h, w),
        out_blocks=lots.count * math.ceil(lots.outputs / able.gemm.out_channels),
        kernel=window.kernel,
        strides=window.strides,
        dilation=window.dilation,
        padding=window.padding,
        out_height=composite.result[2],
        out_width=composite.result[3],
        groups=lots.count,
        uniform=_uniform(composite, able),
    )


def _uniform(composite: Composite, able: Capabilities) -> bool:
    """Whether an identity is all the weights that it needs."""
    return composite.average and able.gemm.in_channels == able.gemm.out_channels


def _window(composite: Composite) -> Window:
    assert composite.root is not None
    attrs = composite.root.attrs
    top, left, bottom, right = (int(p) for p in attrs.padding)
    return Window(
        kernel=(composite.shapes[1][2], composite.shapes[1][3]),
        strides=(int(attrs.strides[0]), int(attrs.strides[1])),
        dilation=(int(attrs.dilation[0]), int(attrs.dilation[1])),
        padding=(top, left, bottom, right),
    )


def _dense(composite: Composite, able: Capabilities) -> Convolution:
    """A dense layer as a 1x1 convolution over a line: its rows are the columns of an image one row high."""
    (m, k), (_, n) = composite.shapes[:2]
    return _matrix(m, k, n, able)


def _unfolded(composite: Composite, able: Capabilities) -> Convolution:
    """A convolution as the product of its patches, a row for each pixel of the result, with its kernels."""
    (n, _, _, _), (_, _, kh, kw) = composite.shapes[:2]
    rows, lots = n * composite.result[2] * composite.result[3], composite.lots(able.gemm)
    one = _matrix(rows, lots.inputs * kh * kw, lots.outputs, able)
    return replace(
        one,
        data=replace(one.data, blocks=lots.count * one.data.blocks),
        out_blocks=lots.count * one.out_blocks,
        unfolded=_window(composite),
        groups=lots.count,
    )


def _matrix(m: int, k: int, n: int, able: Capabilities) -> Convolution:
    rows = math.ceil(m / able.gemm.rows)
    return Convolution(
        data=_packed(1, math.ceil(k / able.gemm.in_channels), 1, rows),
        out_blocks=math.ceil(n / able.gemm.out_channels),
        kernel=(1, 1),
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        out_height=1,
        out_width=rows,
    )


def _padded_on_host(conv: Convolution) -> Convolution:
    """The same convolution over data that the host has padded, for padding that the loads cannot make."""
    top, left, bottom, right = conv.padding
    data = _packed(conv.data.batch, conv.data.blocks, conv.data.height + top + bottom, conv.data.width + left + right)
    return replace(conv, data=data, padding=(0, 0, 0, 0), host_padding=conv.padding)


def _addition(composite: Composite, ending: Ending, able: Capabilities) -> Region | str:
    gemm, title = able.gemm, able.accelerator.title
    if gemm.out_channels != gemm.in_channels:
        return f"an addition needs square tiles; those of {title} are {gemm.out_channels}x{gemm.in_channels}"
    if gemm.data.memory.dtype != "int8":
        return f"an addition needs int8 data; those of {title} are {gemm.data.memory.dtype}"
    if any(1 << shift > 127 for shift in composite.shifts):
        return "the operands' scales lie more than a factor 64 apart"
    if len(composite.result) == 4:
        n, c, h, w = composite.result
        packed = _packed(math.ceil(n / gemm.rows), math.ceil(c / gemm.in_channels), h, w)
    elif len(composite.result) == 2:
        m, k = composite.result
        packed = _packed(1, math.ceil(k / gemm.in_channels), 1, math.ceil(m / gemm.rows))
    else:
        return f"an addition of {len(composite.result)}-dimensional tensors"
    tiling = _addition_tiling(packed, able, whole=apart(ending.epilogue, able.accelerator, able.gemm))
    if tiling is None:
        return f"no tile of it fits the scratchpads of {title}"
    return Region("addition", Addition((packed, packed), composite.shifts), ending.epilogue, tiling)


def _addition_tiling(packed: Packed, able: Capabilities, *, whole: bool) -> Tiling | None:
    """The largest tile that fits and leaves a few tiles to overlap; its extents divide the image, as nothing pads.

    ``whole``: a tile of one context is all of it.
    """
    gemm = able.gemm
    identities = len(_OPERANDS) * gemm.weights.elements
    data = gemm.data.memory.depth - (identities if gemm.weights.memory == gemm.data.memory else 0)
    capacity = min(data // 2 // gemm.data.elements, gemm.dst.memory.depth // gemm.dst.elements)
    table = gemm.instruction.microops
    microops = able.accelerator.memory(table.memory).depth if table is not None else None
    if gemm.weights.memory.depth < identities or capacity < 1:
        return None
    total = packed.blocks * packed.height * packed.width
    for contexts, largest in ((2, total // _OVERLAPPING), (2, total), (1, total)):
        best = max(
            (
                (blocks * rows * columns, columns, rows, blocks)
                for columns in divisors(packed.width)
                for rows in divisors(packed.height)
                for blocks in divisors(packed.blocks)
                if blocks * rows * columns <= min(largest, capacity // contexts)
                and (contexts == 2 or not whole or (blocks * rows * columns, packed.batch) == (total, 1))
                and (microops is None or _ADDITION_MICROOPS * contexts * blocks <= microops)
            ),
            default=None,
        )
        if best is not None:
            _, columns, rows, blocks = best
            return Tiling(blocks, rows, columns, 1, 1, 1, "stream", contexts, contexts, packed.height, packed.width)
    return None
