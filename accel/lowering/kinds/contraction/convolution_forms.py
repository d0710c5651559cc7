"""Forms of a composite as a convolution over tiles: direct, as a matrix product, or as a product of its patches."""

import math
from dataclasses import replace

from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.region.shapes import Convolution, PackedActivation, SlidingWindow


def convolution_forms(
    composite: CompositeRegion, capabilities: Capabilities, *, from_host: bool
) -> list[list[Convolution]]:
    """The ways to see the composite as a convolution over tiles; those of a list are alternatives, the best list first.

    ``from_host``: its data come from the host, which can lay them out as it likes.
    """
    if composite.op == "dense":
        return [[_dense(composite, capabilities)]]
    if composite.op == "matmul":
        return [[_stack(composite, capabilities)]]
    if capabilities.gemm.rows > 1:
        return [
            [_unfolded(composite, capabilities)]
        ]  # a tile of several rows would need them side by side in the image
    shape = _convolution(composite, capabilities)
    folded = _with_taps_as_channels(composite, shape, capabilities) if from_host and composite.groups == 1 else []
    if capabilities.gemm.data.memory.dtype != "int8":
        return [[_padded_on_host(shape), *folded]]  # its zeros are no zeros of ours
    return [[shape, *folded], [_padded_on_host(shape)]]


def _convolution(composite: CompositeRegion, capabilities: Capabilities) -> Convolution:
    n, _, h, w = composite.shapes[0]
    window, lots = _window(composite), composite.lots(capabilities.gemm)
    blocks = lots.count * math.ceil(lots.inputs / capabilities.gemm.in_channels)
    return Convolution(
        data=PackedActivation.dense(math.ceil(n / capabilities.gemm.rows), blocks, h, w),
        out_blocks=lots.count * math.ceil(lots.outputs / capabilities.gemm.out_channels),
        kernel=window.kernel,
        strides=window.strides,
        dilation=window.dilation,
        padding=window.padding,
        out_height=composite.result[2],
        out_width=composite.result[3],
        groups=lots.count,
        uniform=_uniform(composite, capabilities),
    )


def _uniform(composite: CompositeRegion, capabilities: Capabilities) -> bool:
    """Whether an identity is all the weights that it needs."""
    return composite.average and capabilities.gemm.in_channels == capabilities.gemm.out_channels


def _window(composite: CompositeRegion) -> SlidingWindow:
    assert composite.window is not None
    return composite.window


def _dense(composite: CompositeRegion, capabilities: Capabilities) -> Convolution:
    """A dense layer as a 1x1 convolution over a line: its rows are the columns of an image one row high."""
    (m, k), (_, n) = composite.shapes[:2]
    return _matrix(m, k, n, capabilities)


def _stack(composite: CompositeRegion, capabilities: Capabilities) -> Convolution:
    """A stack of matrix products as a convolution over a line, in which each matrix has a group of channels."""
    (batch, m, k), (_, _, n) = composite.shapes[:2]
    one = _matrix(m, k, n, capabilities)
    return replace(
        one,
        data=replace(one.data, blocks=batch * one.data.blocks),
        out_blocks=batch * one.out_blocks,
        groups=batch,
    )


def _unfolded(composite: CompositeRegion, capabilities: Capabilities) -> Convolution:
    """A convolution as the product of its patches, a row for each pixel of the result, with its kernels."""
    (n, _, _, _), (_, _, kh, kw) = composite.shapes[:2]
    rows, lots = n * composite.result[2] * composite.result[3], composite.lots(capabilities.gemm)
    one = _matrix(rows, lots.inputs * kh * kw, lots.outputs, capabilities)
    return replace(
        one,
        data=replace(one.data, blocks=lots.count * one.data.blocks),
        out_blocks=lots.count * one.out_blocks,
        unfolded=_window(composite),
        groups=lots.count,
    )


def _with_taps_as_channels(
    composite: CompositeRegion, shape: Convolution, capabilities: Capabilities
) -> list[Convolution]:
    """The forms in which taps fill what its few channels leave empty of a tile; none where that gains nothing."""
    # of windows side by side each tap is a stride of loads: there all of them are, and no host is needed
    if capabilities.reads_runs and not _window(composite).is_tiling:
        forms = [_in_runs(composite, shape, capabilities, axis) for axis in (1, 0)]
    else:
        forms = [_folded(composite, shape, capabilities)]
    blocks = shape.data.blocks * math.prod(shape.kernel)
    return [form for form in forms if form.data.blocks * math.prod(form.kernel) < blocks]


def _in_runs(composite: CompositeRegion, shape: Convolution, capabilities: Capabilities, axis: int) -> Convolution:
    """A convolution over its rows of taps (``axis`` 1) or its columns of them, as channels of the pixels.

    They follow one another in an image of channels last whose last axis but these is that one: runs that loads read.
    """
    window = _window(composite)
    reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1
    blocks = math.ceil(composite.shapes[0][1] * reach / capabilities.gemm.in_channels)
    top, left, bottom, right = window.padding
    height, width = shape.data.height + top + bottom, shape.data.width + left + right

    plane = (shape.out_height, width) if axis == 0 else (height, shape.out_width)

    def across(steps: tuple[int, int]) -> tuple[int, int]:
        return (1, steps[1]) if axis == 0 else (steps[0], 1)

    return replace(
        shape,
        data=PackedActivation.dense(shape.data.batch, blocks, *plane),
        kernel=across(window.kernel),
        strides=across(window.strides),
        dilation=across(window.dilation),
        padding=(0, 0, 0, 0),
        unfolded=window,
        patches="columns of taps" if axis == 0 else "rows of taps",
        uniform=False,
    )


def _folded(composite: CompositeRegion, shape: Convolution, capabilities: Capabilities) -> Convolution:
    """A convolution as a 1x1 one over the image of its patches, whose channels are those of every tap."""
    channels = composite.shapes[0][1] * math.prod(shape.kernel)
    blocks = math.ceil(channels / capabilities.gemm.in_channels)
    return replace(
        shape,
        data=PackedActivation.dense(shape.data.batch, blocks, shape.out_height, shape.out_width),
        kernel=(1, 1),
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        unfolded=_window(composite),
        patches="channels",
        uniform=False,
    )


def _matrix(m: int, k: int, n: int, capabilities: Capabilities) -> Convolution:
    rows = math.ceil(m / capabilities.gemm.rows)
    return Convolution(
        data=PackedActivation.dense(1, math.ceil(k / capabilities.gemm.in_channels), 1, rows),
        out_blocks=math.ceil(n / capabilities.gemm.out_channels),
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
    data = PackedActivation.dense(
        conv.data.batch, conv.data.blocks, conv.data.height + top + bottom, conv.data.width + left + right
    )
    return replace(conv, data=data, padding=(0, 0, 0, 0), host_padding=conv.padding)
