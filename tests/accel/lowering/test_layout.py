from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from accel.lowering.geometry import Packed
from accel.lowering.layout import (
    identities,
    pack_bias,
    pack_tensor,
    pack_weights,
    packed_shape,
    unpack_tensor,
)
from tests.reference.host import run_relax

TILES = st.sampled_from([(1, 16), (1, 8), (2, 4)])


def run(make: Callable[..., relax.Expr], *arrays: np.ndarray) -> np.ndarray:
    variables = [relax.Var(f"x{i}", relax.TensorType(array.shape, str(array.dtype))) for i, array in enumerate(arrays)]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(make(*variables)))
        builder.emit_func_output(result)
    return run_relax(builder.get(), *arrays)[0]


@settings(max_examples=10, deadline=None)
@given(shape=st.tuples(*[st.integers(1, size) for size in (3, 20, 5, 4)]), tile=TILES, top=st.integers(0, 2))
def test_images(shape: tuple[int, int, int, int], tile: tuple[int, int], top: int) -> None:
    n, c, h, w = shape
    data = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    packed = Packed(-(-n // tile[0]), -(-c // tile[1]), h + top, w + 1, h + top, w + 1)
    result = run(lambda x: pack_tensor(x, packed, tile, (top, 0, 0, 1)), data)
    assert result.shape == packed_shape(packed, tile)

    padded = np.zeros((packed.batch * tile[0], packed.blocks * tile[1], h + top, w + 1), np.int8)
    padded[:n, :c, top:, :w] = data
    split = padded.reshape(packed.batch, tile[0], packed.blocks, tile[1], h + top, w + 1)
    np.testing.assert_array_equal(result, split.transpose(0, 2, 4, 5, 1, 3))


@settings(max_examples=10, deadline=None)
@given(shape=st.tuples(st.integers(1, 9), st.integers(1, 40)), tile=TILES)
def test_matrices_there_and_back(shape: tuple[int, int], tile: tuple[int, int]) -> None:
    data = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    columns = -(-shape[0] // tile[0])
    packed = Packed(1, -(-shape[1] // tile[1]), 1, columns, 1, columns)
    middle = run(lambda x: pack_tensor(x, packed, tile, (0, 0, 0, 0)), data)
    assert middle.shape == packed_shape(packed, tile)
    np.testing.assert_array_equal(run(lambda x: unpack_tensor([x], shape, packed, tile), middle), data)


def test_planes_make_the_accumulator() -> None:
    values = np.array([0, 1, -1, 2**31 - 1, -(2**31), 123456789, -987654321, 255, 256, -256], np.int32)
    packed, tile = Packed(1, 1, 1, 1, 1, 1), (1, 16)
    padded = np.zeros(16, np.int32)
    padded[:10] = values
    planes = [(padded >> 8 * i).astype(np.int8).reshape(packed_shape(packed, tile)) for i in range(4)]
    back = run(lambda *x: unpack_tensor(x, (1, 10), packed, tile), *planes)
    np.testing.assert_array_equal(back[0], values)


def test_constants() -> None:
    weights = np.arange(3 * 5 * 2 * 1, dtype=np.int8).reshape(3, 5, 2, 1)
    packed = pack_weights(weights, (2, 4))
    assert packed.shape == (2, 2, 2, 1, 2, 4)
    for o, c, y in np.ndindex(3, 5, 2):
        assert packed[o // 2, c // 4, y, 0, o % 2, c % 4] == weights[o, c, y, 0]
    assert packed.astype(int).sum() == weights.astype(int).sum()
    bias = pack_bias(np.array([[7], [8], [9]], np.int32), 2, (3, 2))
    np.testing.assert_array_equal(bias, [[[7, 8]] * 3, [[9, 0]] * 3])
    np.testing.assert_array_equal(identities((0, 6), (2, 2)), [[[1, 0], [0, 1]], [[64, 0], [0, 64]]])
