"""Tiled layouts: how the host packs and unpacks activations, in Relax operators, and how constants are packed.

Patches of an image, which the host lays out, turn a convolution into a product (im2col).
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tvm import relax

from accel.accelerator.contraction import Contraction, Tile
from accel.region.shapes import PackedActivation, Patches, SlidingWindow

Shape = tuple[int, ...]
Pads = tuple[int, int, int, int]

OFFSET = 128  # what uint8 data hold more than the int8 they stand for


_ROW_BY_ROW = (0, 2, 3, 1, 4, 5)  # a packed activation's axes where its blocks of channels lie side by side


def packed_shape(packed: PackedActivation, tile: Tile) -> Shape:
    """Shape of a packed activation, by the axes that regions index."""
    return (packed.batch, packed.blocks, packed.pitch_h, packed.pitch_w, *tile.shape)


def axes_in_dram(tile: Tile) -> Shape:
    """Which axes of a packed activation are those of the tensor in DRAM, one after the other."""
    return _ROW_BY_ROW if tile.blocks > 1 else tuple(range(len(_ROW_BY_ROW)))


def place_in_dram(axis: int, tile: Tile) -> int:
    """The place in DRAM of an axis of a packed activation."""
    return axes_in_dram(tile).index(axis)


def weight_axes_in_dram(tile: Tile) -> Shape:
    """Which axes of packed weights ``[blocks, reduced blocks, kh, kw, *tile]`` are those of the tensor in DRAM.

    Where a load takes several blocks of a row, the output blocks' elements lie side by side, and the data's channels of
    each place of the kernel below each other.
    """
    if tile.blocks == 1:
        return tuple(range(6))
    elements = 6 - len(tile.memory.shape)  # the last axes are those of an element
    return (2, 3, 1, *range(4, elements), 0, *range(elements, 6))


def in_dram(shape: Sequence[int], axes: Sequence[int]) -> Shape:
    """A shape with its axes in the order ``axes``."""
    return tuple(shape[axis] for axis in axes)


def pack_tensor(
    source: relax.Expr, packed: PackedActivation, tile: Tile, padding: Pads, filling: int = 0
) -> relax.Expr:
    """int8 [N, C, H, W] or [M, K] to packed, with ``padding`` (top, left, bottom, right) around an image.

    ``filling`` is what that is of, and what fills up tiles.
    """
    shape = [int(extent) for extent in source.ty.shape]
    wanted, split, order = _axes_of_layout(packed, tile, len(shape))
    before = (0, 0, *padding[:2]) if len(shape) == 4 else (0, 0)
    after = [want - first - extent for want, first, extent in zip(wanted, before, shape, strict=True)]
    value = source
    if tuple(shape) != wanted:
        widths = [width for pair in zip(before, after, strict=True) for width in pair]
        value = relax.op.nn.pad(value, widths, "constant", filling)
    value = relax.op.permute_dims(relax.op.reshape(value, split), order)
    return value if tile.memory.dtype == "int8" else _offset(value)


def pack_constant(value: npt.NDArray[np.int8], packed: PackedActivation, tile: Tile) -> npt.NDArray[np.int8]:
    """What :func:`pack_tensor` does, without padding, of a constant."""
    wanted, split, order = _axes_of_layout(packed, tile, value.ndim)
    whole = np.pad(value, [(0, want - extent) for want, extent in zip(wanted, value.shape, strict=True)])
    return np.ascontiguousarray(whole.reshape(split).transpose(order))


def _axes_of_layout(packed: PackedActivation, tile: Tile, axes: int) -> tuple[Shape, Shape, Shape]:
    """The whole tensor of so many axes that a packed one holds; that split into tiles; and the order of those axes."""
    rows, channels = tile.extent("m"), tile.extent("k")
    if axes == 4:
        return (
            (packed.batch * rows, packed.blocks * channels, packed.pitch_h, packed.pitch_w),
            (packed.batch, rows, packed.blocks, channels, packed.pitch_h, packed.pitch_w),
            in_dram((0, 2, 4, 5, *_tile_axes(tile, m=1, k=3)), axes_in_dram(tile)),
        )
    return (
        (packed.pitch_w * rows, packed.blocks * channels),
        (1, 1, packed.pitch_w, rows, packed.blocks, channels),
        in_dram((0, 4, 1, 2, *_tile_axes(tile, m=3, k=5)), axes_in_dram(tile)),
    )


def _offset(value: relax.Expr) -> relax.Expr:
    """int8 as the uint8 that is 128 more."""
    wide = relax.op.add(relax.op.astype(value, "int16"), relax.const(OFFSET, "int16"))
    return relax.op.astype(wide, "uint8")


def _tile_axes(tile: Tile, **axes: int) -> tuple[int, ...]:
    return tuple(axes[axis] for axis in tile.axes)


def fold_rows_to_image(matrix: relax.Expr, shape: Shape) -> relax.Expr:
    """A matrix [N * OH * OW, O] as the image [N, O, OH, OW] of ``shape``."""
    batch, channels, height, width = shape
    return relax.op.permute_dims(relax.op.reshape(matrix, (batch, height, width, channels)), [0, 3, 1, 2])


def unpack_tensor(
    planes: Sequence[relax.Expr], shape: Shape, packed: PackedActivation, tile: Tile, *, by_programs: bool = False
) -> relax.Expr:
    """A packed result (one plane), or four byte planes of int32, low byte first, to ``shape``.

    ``by_programs`` says that the accelerator may do it: with channels last, pieces of them are rows of what lies there,
    which takes a host one movement more.
    """
    plain = [_unpack_plane(plane, shape, packed, tile, by_programs=by_programs) for plane in planes]
    if len(plain) == 1:
        return plain[0]
    value = relax.op.astype(plain[-1], "int32")  # the top byte carries the sign
    for plane in reversed(plain[:-1]):
        low = relax.op.astype(relax.op.astype(plane, "uint8"), "int32")
        value = relax.op.add(relax.op.left_shift(value, relax.const(8, "int32")), low)
    return value


def _unpack_plane(
    plane: relax.Expr, shape: Shape, packed: PackedActivation, tile: Tile, *, by_programs: bool
) -> relax.Expr:
    rows, channels = tile.extent("m"), tile.extent("n")
    at = {axis: 4 + place for place, axis in enumerate(tile.axes)}
    places = {axis: place_in_dram(axis, tile) for axis in range(6)}
    whole: Shape
    order: tuple[int, ...]
    if by_programs and len(shape) == 4 and shape[1] > channels and shape[1] % channels:
        order = (0, at["m"], 2, 3, 1, at["n"])
        whole = (packed.batch * rows, packed.pitch_h, packed.pitch_w, packed.blocks * channels)
        value = relax.op.reshape(relax.op.permute_dims(plane, [places[axis] for axis in order]), whole)
        first = [0, packed.top, packed.left, 0]
        last = [shape[0], packed.top + shape[2], packed.left + shape[3], shape[1]]
        return relax.op.permute_dims(relax.op.strided_slice(value, [0, 1, 2, 3], first, last), [0, 3, 1, 2])
    if len(shape) == 4:
        order = (0, at["m"], 1, at["n"], 2, 3)
        whole = (packed.batch * rows, packed.blocks * channels, packed.pitch_h, packed.pitch_w)
    else:
        order = (0, 2, 3, at["m"], 1, at["n"])
        whole = (packed.pitch_w * rows, packed.blocks * channels)
    value = relax.op.reshape(relax.op.permute_dims(plane, [places[axis] for axis in order]), whole)
    if whole == shape:
        return value
    axes, first = list(range(len(shape))), [0] * len(shape)
    if len(shape) == 4:
        first[2:] = packed.top, packed.left
    last = [begin + extent for begin, extent in zip(first, shape, strict=True)]
    return relax.op.strided_slice(value, axes, first, last)


def cut_image(tensor: relax.Expr, packed: PackedActivation, tile: Tile) -> relax.Expr:
    """A packed image without what lies around it."""
    if not any(packed.around):
        return tensor
    last = [packed.top + packed.height, packed.left + packed.width]
    axes = [place_in_dram(axis, tile) for axis in (2, 3)]
    return relax.op.strided_slice(tensor, axes, [packed.top, packed.left], last)


def pack_weights(weights: npt.NDArray[np.int8], tile: Tile) -> npt.NDArray[np.int8]:
    """[O, C, KH, KW] to ``[O/n, C/k, KH, KW, *tile]``, as that lies in DRAM."""
    n, k = tile.extent("n"), tile.extent("k")
    out, channels, kh, kw = weights.shape
    blocks = -(-out // n), -(-channels // k)
    padded = np.zeros((blocks[0] * n, blocks[1] * k, kh, kw), dtype=np.int8)
    padded[:out, :channels] = weights
    split = padded.reshape(blocks[0], n, blocks[1], k, kh, kw)
    order = in_dram((0, 2, 4, 5, *_tile_axes(tile, n=1, k=3)), weight_axes_in_dram(tile))
    return np.ascontiguousarray(split.transpose(order))


def matrices_side_by_side(stack: relax.Expr, rows: int, columns: int) -> relax.Expr:
    """A stack of matrices [B, M, K], each filled with zeros to ``rows`` and ``columns``, as one [rows, B * columns]."""
    batch, m, k = (int(extent) for extent in stack.ty.shape)
    whole = stack if (m, k) == (rows, columns) else relax.op.nn.pad(stack, [0, 0, 0, rows - m, 0, columns - k])
    return relax.op.reshape(relax.op.permute_dims(whole, [1, 0, 2]), (rows, batch * columns))


def matrices_apart(matrix: relax.Expr, shape: Shape) -> relax.Expr:
    """A stack of matrices of ``shape`` [B, M, N] of one [M, B * columns], in which they lie side by side."""
    batch, rows, columns = shape
    whole = int(matrix.ty.shape[1]) // batch
    stack = relax.op.permute_dims(relax.op.reshape(matrix, (rows, batch, whole)), [1, 0, 2])
    return stack if whole == columns else relax.op.strided_slice(stack, [2], [0], [columns])


def pack_weight_tensor(stack: relax.Expr, tile: Tile) -> relax.Expr:
    """What :func:`pack_weights` does, of a stack of matrices int8 [B, K, N]: ``[B * N/n, K/k, 1, 1, *tile]``."""
    n, k = tile.extent("n"), tile.extent("k")
    batch, depth, columns = (int(extent) for extent in stack.ty.shape)
    blocks = -(-columns // n), -(-depth // k)
    beyond = blocks[1] * k - depth, blocks[0] * n - columns
    whole = relax.op.nn.pad(stack, [0, 0, 0, beyond[0], 0, beyond[1]]) if any(beyond) else stack
    split = relax.op.reshape(whole, (batch, blocks[1], k, blocks[0], n))
    order = relax.op.permute_dims(split, [0, 3, 1, *_tile_axes(tile, n=4, k=2)])
    packed = relax.op.reshape(order, (batch * blocks[0], blocks[1], 1, 1, *tile.shape))
    axes = weight_axes_in_dram(tile)
    return packed if axes == tuple(range(6)) else relax.op.permute_dims(packed, list(axes))


def pack_bias_tensor(bias: relax.Expr, tile: Tile) -> relax.Expr:
    """What :func:`pack_bias` does, of what each of a stack's columns adds, int32 [B, 1, N]: ``[B * N/n, *tile]``."""
    channels = tile.extent("n")
    batch, _, columns = (int(extent) for extent in bias.ty.shape)
    blocks = -(-columns // channels)
    beyond = blocks * channels - columns
    whole = relax.op.nn.pad(bias, [0, 0, 0, 0, 0, beyond]) if beyond else bias
    split = (batch * blocks, 1, channels) if tile.axes == ("m", "n") else (batch * blocks, channels, 1)
    return relax.op.broadcast_to(relax.op.reshape(whole, split), (batch * blocks, *tile.shape))


def pack_bias(bias: npt.NDArray[np.int32], blocks: int, tile: Tile) -> npt.NDArray[np.int32]:
    """A bias a channel to ``[blocks, *tile]``, the same for every row of a tile."""
    channels = tile.extent("n")
    padded = np.zeros(blocks * channels, dtype=np.int32)
    padded[: bias.size] = bias.ravel()
    split = padded.reshape(blocks, 1, channels) if tile.axes == ("m", "n") else padded.reshape(blocks, channels, 1)
    return np.ascontiguousarray(np.broadcast_to(split, (blocks, *tile.shape)))


def identities(shifts: Sequence[int], gemm: Contraction) -> npt.NDArray[np.int8]:
    """``diag(1 << shift)`` for each of ``shifts``, ``[len(shifts), *tile]``."""
    eye = np.eye(gemm.out_channels, gemm.in_channels, dtype=np.int8)
    return np.stack([eye << shift for shift in shifts]).astype(np.int8)


def diagonals(factors: Sequence[int], gemm: Contraction) -> npt.NDArray[np.int8]:
    """``diag(factor)`` for each of ``factors``, ``[len(factors), *tile]``."""
    eye = np.eye(gemm.out_channels, gemm.in_channels, dtype=np.int8)
    return np.stack([eye * np.int8(factor) for factor in factors])


def unfold_patches(
    source: relax.Expr, window: SlidingWindow, patches: Patches, channels: int, groups: int
) -> relax.Expr:
    """The patches of an image int8 [N, C, H, W], whose channels zeros make ``channels``.

    A patch has its taps in row-major order, with the channels of each, group after group: [N * OH * OW, groups * KH *
    KW * channels / groups] as rows, [N, KH * KW * channels, OH, OW] as channels of one group.
    """
    batch, given, height, width = (int(extent) for extent in source.ty.shape)
    size = _result_size(window, height, width)
    image = _taps(source, window, size, channels - given)
    if patches == "channels":
        return image
    taps = math.prod(window.kernel)
    value = relax.op.reshape(image, (batch, taps, groups, channels // groups, *size))
    rows = relax.op.permute_dims(value, [0, 4, 5, 2, 1, 3])
    return relax.op.reshape(rows, (batch * math.prod(size), channels * taps))


def _result_size(window: SlidingWindow, height: int, width: int) -> tuple[int, int]:
    top, left, bottom, right = window.padding
    reach = [(extent - 1) * step + 1 for extent, step in zip(window.kernel, window.dilation, strict=True)]
    return (
        (height + top + bottom - reach[0]) // window.strides[0] + 1,
        (width + left + right - reach[1]) // window.strides[1] + 1,
    )


def _taps(source: relax.Expr, window: SlidingWindow, size: tuple[int, int], beyond: int) -> relax.Expr:
    """The image once a tap, shifted and strided to the result's ``size``, one behind the other as channels."""
    top, left, bottom, right = window.padding
    value = source
    if any(window.padding) or beyond:
        value = relax.op.nn.pad(value, [0, 0, 0, beyond, top, bottom, left, right])
    if window.strides == window.kernel and window.dilation == (1, 1):
        batch, channels, height, width = (int(extent) for extent in source.ty.shape)
        given = batch, channels + beyond, height + top + bottom, width + left + right
        return _tiled(value, window.kernel, size, given)
    for axis in (3, 2):  # columns first, so that the taps of a row come one after the other
        value = _shifted(value, window, size, axis)
    return value


def _tiled(
    value: relax.Expr, kernel: tuple[int, int], size: tuple[int, int], given: tuple[int, int, int, int]
) -> relax.Expr:
    """The taps of windows that lie side by side: each element of an image of the shape ``given`` is in one at most."""
    batch, channels, *plane = given
    whole = [extent * count for extent, count in zip(kernel, size, strict=True)]
    cut = value if whole == plane else relax.op.strided_slice(value, [2, 3], [0, 0], whole)
    apart = relax.op.reshape(cut, (batch, channels, size[0], kernel[0], size[1], kernel[1]))
    taps = relax.op.permute_dims(apart, [0, 3, 5, 1, 2, 4])
    return relax.op.reshape(taps, (batch, math.prod(kernel) * channels, *size))


def _shifted(value: relax.Expr, window: SlidingWindow, size: tuple[int, int], axis: int) -> relax.Expr:
    """The image once for each of a window's places along an axis of the plane."""
    plane = axis - 2
    taps, step = window.kernel[plane], window.strides[plane]
    firsts = [at * window.dilation[plane] for at in range(taps)]
    lasts = [first + (size[plane] - 1) * step + 1 for first in firsts]
    parts = [
        relax.op.strided_slice(value, [axis], [first], [last], [step])
        for first, last in zip(firsts, lasts, strict=True)
    ]
    return relax.op.concat(parts, axis=1) if taps > 1 else parts[0]


def runs_of_taps(source: relax.Expr, window: SlidingWindow, axis: int, channels: int, beyond: int) -> relax.Expr:
    """The taps along an axis of the plane of an image int8 [N, C, H, W] as pixels of so many channels.

    They are ``[N, channels, rows, OW]`` for ``axis`` 1, ``[N, channels, OH, columns]`` for 0, and each is a run of the
    image with that axis and its channels last, which is so long, by elements of ``beyond``, that the last lie within
    it too.
    """
    batch, given, *plane = (int(extent) for extent in source.ty.shape)
    places, other = _result_size(window, *plane)[axis], 1 - axis
    before, behind = list(window.padding[:2]), list(window.padding[2:])
    least = (places - 1) * window.strides[axis] + -(-channels // given)
    behind[axis] = max(behind[axis], least - before[axis] - plane[axis])
    widths = [0, 0, 0, 0, before[0], behind[0], before[1], behind[1]]
    value = relax.op.nn.pad(source, widths, "constant", beyond) if any(widths) else source
    lines, along = (before[at] + plane[at] + behind[at] for at in (other, axis))
    last = relax.op.permute_dims(value, [0, 2 + other, 2 + axis, 1])
    flat = relax.op.reshape(last, (batch, lines, along * given))
    first = np.arange(places, dtype=np.int32) * (window.strides[axis] * given)
    runs = relax.op.take(flat, relax.const(first[:, None] + np.arange(channels, dtype=np.int32)), axis=2)
    return relax.op.permute_dims(runs, [0, 3, 1, 2] if axis == 1 else [0, 3, 2, 1])


def weights_of_runs(
    weights: npt.NDArray[np.int8], window: SlidingWindow, axis: int, channels: int
) -> npt.NDArray[np.int8]:
    """[O, C, KH, KW] to [O, channels, KH, 1], or [O, channels, 1, KW], in the order of :func:`runs_of_taps`.

    There are zeros between taps and behind them.
    """
    filters, given, *kernel = weights.shape
    found = np.zeros((filters, channels, kernel[1 - axis]), np.int8)
    for tap in range(kernel[axis]):
        first = tap * window.dilation[axis] * given
        found[:, first : first + given] = weights.take(tap, 2 + axis)
    return np.expand_dims(found, 2 + axis)


def unfold_weights(weights: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """[O, C / groups, KH, KW] to [O, KH * KW * C / groups, 1, 1], in the order of :func:`unfold`."""
    return np.ascontiguousarray(weights.transpose(0, 2, 3, 1).reshape(weights.shape[0], -1, 1, 1))
