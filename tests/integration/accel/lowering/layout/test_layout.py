from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tvm import relax

from accel.accelerator.contraction import Axis, Tile
from accel.accelerator.memories import DType, Memory
from accel.lowering.layout.tiled_layout import (
    fold_rows_to_image,
    pack_bias,
    pack_tensor,
    pack_weights,
    packed_shape,
    unfold_patches,
    unfold_weights,
    unpack_tensor,
)
from accel.region.shapes import PackedActivation, SlidingWindow
from tests.helpers.marking import share
from tests.reference.host import run_relax

Axes = tuple[Axis, Axis]


def data_tile(m: int, k: int, axes: Axes = ("m", "k"), dtype: DType = "int8") -> Tile:
    return a_tile({"m": m, "k": k}, axes, dtype)


def a_tile(extents: dict[str, int], axes: Axes, dtype: DType = "int8") -> Tile:
    shape = (extents[axes[0]], extents[axes[1]])
    return Tile("t", Memory(name="t", scope="local.t", dtype=dtype, shape=shape, depth=1), axes, shape)


SIZES = st.sampled_from([(1, 16), (1, 8), (2, 4)])
ORDERS = st.sampled_from([("m", "k"), ("k", "m")])


def run(make: Callable[..., relax.Expr], *arrays: np.ndarray) -> np.ndarray:
    variables = [relax.Var(f"x{i}", relax.TensorType(array.shape, str(array.dtype))) for i, array in enumerate(arrays)]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(make(*variables)))
        builder.emit_func_output(result)
    return run_relax(builder.get(), *arrays)[0]


@settings(max_examples=5, deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, size) for size in (3, 20, 5, 4)]),
    size=SIZES,
    order=ORDERS,
    top=st.integers(0, 2),
    unsigned=st.booleans(),
)
def test_images(shape: tuple[int, int, int, int], size: tuple[int, int], order: Axes, top: int, unsigned: bool) -> None:
    n, c, h, w = shape
    m, k = size
    data = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    packed = PackedActivation(-(-n // m), -(-c // k), h + top, w + 1, h + top, w + 1)
    tile = data_tile(m, k, order, "uint8" if unsigned else "int8")
    result = run(lambda x: pack_tensor(x, packed, tile, (top, 0, 0, 1)), data)
    assert result.shape == packed_shape(packed, tile)

    padded = np.zeros((packed.batch * m, packed.blocks * k, h + top, w + 1), np.int8)
    padded[:n, :c, top:, :w] = data
    split = padded.reshape(packed.batch, m, packed.blocks, k, h + top, w + 1)
    expected = split.transpose(0, 2, 4, 5, *((1, 3) if order == ("m", "k") else (3, 1)))
    if unsigned:
        expected = (expected.astype(np.int16) + 128).astype(np.uint8)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(shape=st.tuples(st.integers(1, 9), st.integers(1, 40)), size=SIZES, turned=st.booleans())
def test_matrices_there_and_back(shape: tuple[int, int], size: tuple[int, int], turned: bool) -> None:
    data = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    (m, k), columns = size, -(-shape[0] // size[0])
    packed = PackedActivation(1, -(-shape[1] // k), 1, columns, 1, columns)
    tile = data_tile(m, k, ("k", "m") if turned else ("m", "k"))
    result = a_tile({"m": m, "n": k}, ("n", "m") if turned else ("m", "n"))
    middle = run(lambda x: pack_tensor(x, packed, tile, (0, 0, 0, 0)), data)
    assert middle.shape == packed_shape(packed, tile)
    np.testing.assert_array_equal(run(lambda x: unpack_tensor([x], shape, packed, result), middle), data)


def test_planes_make_the_accumulator() -> None:
    values = np.array([0, 1, -1, 2**31 - 1, -(2**31), 123456789, -987654321, 255, 256, -256], np.int32)
    packed, tile = PackedActivation(1, 1, 1, 1, 1, 1), a_tile({"m": 1, "n": 16}, ("m", "n"))
    padded = np.zeros(16, np.int32)
    padded[:10] = values
    planes = [(padded >> 8 * i).astype(np.int8).reshape(packed_shape(packed, tile)) for i in range(4)]
    back = run(lambda *x: unpack_tensor(x, (1, 10), packed, tile), *planes)
    np.testing.assert_array_equal(back[0], values)


@pytest.mark.slow
@settings(max_examples=share(8), deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, size) for size in (2, 5, 7, 6)]),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    groups=st.integers(1, 3),
)
def test_the_product_of_patches_and_kernels_is_the_convolution(
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
    groups: int,
) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(-128, 128, shape).astype(np.int8)
    each = -(-shape[1] // groups)
    weights = rng.integers(-128, 128, (2 * groups, each, *kernel)).astype(np.int8)
    top, left, bottom, right = padding
    beyond = each * groups - shape[1]
    padded = np.pad(data.astype(np.int32), ((0, 0), (0, beyond), (top, bottom), (left, right)))
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    rows = tuple((extent - one) // step + 1 for extent, one, step in zip(padded.shape[2:], reach, strides, strict=True))
    assume(min(rows) > 0 and all(extent >= one for extent, one in zip(padded.shape[2:], reach, strict=True)))
    expected = np.zeros((shape[0], 2 * groups, *rows), np.int32)
    grouped = weights.astype(np.int32).reshape(groups, 2, each, *kernel)
    for y, x in np.ndindex(*rows):
        y0, x0 = y * strides[0], x * strides[1]
        patch = padded[:, :, y0 : y0 + reach[0] : dilation[0], x0 : x0 + reach[1] : dilation[1]]
        split = patch.reshape(shape[0], groups, each, *kernel)
        expected[:, :, y, x] = np.einsum("ngchw,gochw->ngo", split, grouped).reshape(shape[0], -1)
    window = SlidingWindow(kernel, strides, dilation, padding)
    patches = run(lambda x: unfold_patches(x, window, "rows", each * groups, groups), data).astype(np.int32)
    kernels = unfold_weights(weights)[:, :, 0, 0].astype(np.int32).reshape(groups, 2, -1)
    product = np.einsum("rgk,gok->rgo", patches.reshape(len(patches), groups, -1), kernels).reshape(len(patches), -1)
    product = product.astype(np.int32)
    np.testing.assert_array_equal(run(lambda x: fold_rows_to_image(x, expected.shape), product), expected)
    if groups == 1:  # the same patches as the channels of an image
        image = run(lambda x: unfold_patches(x, window, "channels", each, 1), data).astype(np.int32)
        np.testing.assert_array_equal(np.einsum("nkyx,ok->noyx", image, kernels[0]), expected)


def test_constants() -> None:
    weights = np.arange(3 * 5 * 2 * 1, dtype=np.int8).reshape(3, 5, 2, 1)
    packed = pack_weights(weights, a_tile({"n": 2, "k": 4}, ("n", "k")))
    assert packed.shape == (2, 2, 2, 1, 2, 4)
    turned = pack_weights(weights, a_tile({"n": 2, "k": 4}, ("k", "n")))
    for o, c, y in np.ndindex(3, 5, 2):
        assert packed[o // 2, c // 4, y, 0, o % 2, c % 4] == weights[o, c, y, 0]
        assert turned[o // 2, c // 4, y, 0, c % 4, o % 2] == weights[o, c, y, 0]
    assert packed.astype(int).sum() == turned.astype(int).sum() == weights.astype(int).sum()
    bias = np.array([[7], [8], [9]], np.int32)
    np.testing.assert_array_equal(
        pack_bias(bias, 2, a_tile({"m": 3, "n": 2}, ("m", "n"))), [[[7, 8]] * 3, [[9, 0]] * 3]
    )
    np.testing.assert_array_equal(pack_bias(bias, 2, a_tile({"m": 1, "n": 2}, ("n", "m"))), [[[7], [8]], [[9], [0]]])
