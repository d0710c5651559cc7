"""Partition: which composites the accelerator runs, with their tiling, and why the others stay on the host."""

import math

from tvm import ir, relax

from accel.accelerator.document import Accelerator
from accel.lowering.attributes import HOST_REASON, REGION, Region, dump_region
from accel.lowering.composite import Composite, read_composite
from accel.lowering.geometry import Addition, Convolution, Epilogue, EpilogueOp, Packed, Tiling
from accel.lowering.plan import Cost, divisors, plan_convolution

_OPS = {"conv2d", "dense", "add"}
_OPERANDS = ("a", "b")
_ADDITION_MICROOPS = 8  # a block's micro-ops, at most: reset, two contractions, the passes of the epilogue
_OVERLAPPING = 4  # tiles, so that the first load and the last store are a small part of the whole


def partition(module: ir.IRModule, accelerator: Accelerator, cost: Cost) -> ir.IRModule:
    """Mark every composite with its region, or with the reason why it has none."""
    result = ir.IRModule(dict(module.functions.items()), attrs=module.attrs)
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function) or function.attrs is None or "op" not in function.attrs:
            continue
        if str(function.attrs["op"]) not in _OPS:
            reason = f"{function.attrs['cause']}; {accelerator.title} requantises to int8 by adding and shifting"
            result.update_func(variable, function.with_attr(HOST_REASON, reason))
            continue
        found = _region(read_composite(function), accelerator, cost)
        if isinstance(found, str):
            result.update_func(variable, function.with_attr(HOST_REASON, found))
        else:
            result.update_func(variable, function.with_attr(REGION, dump_region(found)))
    return result


def _region(composite: Composite, accelerator: Accelerator, cost: Cost) -> Region | str:
    epilogue = _epilogue(composite, accelerator)
    if isinstance(epilogue, str):
        return epilogue
    if composite.op == "add":
        return _addition(composite, epilogue, accelerator)
    if composite.op == "conv2d" and composite.root is not None and int(composite.root.attrs.groups) != 1:
        return f"a grouped convolution: {accelerator.title} contracts over all input channels"
    shape = _dense(composite, accelerator) if composite.op == "dense" else _convolution(composite, accelerator)
    for candidate in (shape, _padded_on_host(shape)):
        tiling = plan_convolution(candidate, epilogue, accelerator, cost)
        if tiling is not None:
            return Region("convolution", candidate, epilogue, tiling)
    return f"no tile of it fits the scratchpads of {accelerator.title}"


def _epilogue(composite: Composite, accelerator: Accelerator) -> Epilogue | str:
    """The steps on the accelerator; rounding joins the bias, or becomes one if no immediate holds it."""
    alu = accelerator.map
    bits = alu.bits(alu.immediate)
    limit = 1 << bits - 1
    steps: list[tuple[EpilogueOp, int]] = list(composite.steps)
    if steps and steps[0][0] == "add" and (composite.has_bias or steps[0][1] >= limit) and composite.op != "add":
        steps[0] = ("add_tensor", 0)
    elif composite.has_bias:
        steps.insert(0, ("add_tensor", 0))
    supported = {operation.name for operation in alu.ops}
    for name, immediate in steps:
        if ("add" if name == "add_tensor" else name) not in supported:
            return f"{accelerator.title} has no {name} on its accumulators"
        if not -limit <= immediate < limit:
            return f"{name} by {immediate} does not fit the {bits}-bit immediate of {accelerator.title}"
    return Epilogue(tuple(steps), planes=1 if composite.narrow else 4)


def _packed(batch: int, blocks: int, height: int, width: int) -> Packed:
    return Packed(batch, blocks, height, width, height, width)


def _convolution(composite: Composite, accelerator: Accelerator) -> Convolution:
    batch, out_channels, in_channels = accelerator.tile
    (n, c, h, w), (o, _, kh, kw) = composite.shapes[:2]
    assert composite.root is not None
    attrs = composite.root.attrs
    top, left, bottom, right = (int(p) for p in attrs.padding)
    return Convolution(
        data=_packed(math.ceil(n / batch), math.ceil(c / in_channels), h, w),
        out_blocks=math.ceil(o / out_channels),
        kernel=(kh, kw),
        strides=(int(attrs.strides[0]), int(attrs.strides[1])),
        dilation=(int(attrs.dilation[0]), int(attrs.dilation[1])),
        padding=(top, left, bottom, right),
        out_height=composite.result[2],
        out_width=composite.result[3],
    )


def _dense(composite: Composite, accelerator: Accelerator) -> Convolution:
    """A dense layer as a 1x1 convolution over a line: its rows are the columns of an image one row high."""
    batch, out_channels, in_channels = accelerator.tile
    (m, k), (_, n) = composite.shapes[:2]
    rows = math.ceil(m / batch)
    return Convolution(
        data=_packed(1, math.ceil(k / in_channels), 1, rows),
        out_blocks=math.ceil(n / out_channels),
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
    return Convolution(
        data=data,
        out_blocks=conv.out_blocks,
        kernel=conv.kernel,
        strides=conv.strides,
        dilation=conv.dilation,
        padding=(0, 0, 0, 0),
        out_height=conv.out_height,
        out_width=conv.out_width,
        host_padding=conv.padding,
    )


def _addition(composite: Composite, epilogue: Epilogue, accelerator: Accelerator) -> Region | str:
    batch, out_channels, in_channels = accelerator.tile
    if out_channels != in_channels:
        return f"an addition needs square tiles; those of {accelerator.title} are {out_channels}x{in_channels}"
    if any(1 << shift > 127 for shift in composite.shifts):
        return "the operands' scales lie more than a factor 64 apart"
    if len(composite.result) == 4:
        n, c, h, w = composite.result
        packed = _packed(math.ceil(n / batch), math.ceil(c / in_channels), h, w)
    elif len(composite.result) == 2:
        m, k = composite.result
        packed = _packed(1, math.ceil(k / in_channels), 1, math.ceil(m / batch))
    else:
        return f"an addition of {len(composite.result)}-dimensional tensors"
    tiling = _addition_tiling(packed, accelerator)
    if tiling is None:
        return f"no tile of it fits the scratchpads of {accelerator.title}"
    return Region("addition", Addition((packed, packed), composite.shifts), epilogue, tiling)


def _addition_tiling(packed: Packed, accelerator: Accelerator) -> Tiling | None:
    """The largest tile that fits and leaves a few tiles to overlap; its extents divide the image, as nothing pads."""
    gemm = accelerator.contraction
    data, weights = accelerator.memory(gemm.data.memory), accelerator.memory(gemm.weights.memory)
    capacity = min(data.depth // 2, accelerator.memory(gemm.dst.memory).depth)
    microops = accelerator.memory(gemm.microops.memory).depth
    if weights.depth < len(_OPERANDS):
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
                and _ADDITION_MICROOPS * contexts * blocks <= microops
            ),
            default=None,
        )
        if best is not None:
            _, columns, rows, blocks = best
            return Tiling(blocks, rows, columns, 1, 1, 1, "stream", contexts, contexts, packed.height, packed.width)
    return None
