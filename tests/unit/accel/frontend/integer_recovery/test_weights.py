import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from accel.frontend.integer_recovery.dataflow_block import QuantisedTensor
from accel.frontend.integer_recovery.int8_operands import Weights, integer_weights


def weights(value: np.ndarray, zero_point: np.ndarray, axis: int = 0, *, vary: int | None = None) -> Weights | None:
    scale = np.array(0.1) if vary is None else np.full(value.shape[vary], 0.1)
    quantised = QuantisedTensor(relax.const(value), scale, zero_point.astype(np.int64), vary or 0, str(value.dtype))
    return integer_weights(value, quantised, axis)


@given(
    seed=st.integers(0, 99),
    dtype=st.sampled_from([np.int8, np.uint8]),
    per_channel=st.booleans(),
    axis=st.sampled_from([0, 1]),
)
def test_products_with_the_integers_equal_products_with_the_centred_weights(
    *, seed: int, dtype: type, per_channel: bool, axis: int
) -> None:
    random = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    value = random.integers(limits.min, limits.max, (5, 5), dtype, endpoint=True)
    zero_point = random.integers(limits.min, limits.max, 5 if per_channel else (), dtype, endpoint=True)
    data = random.integers(-128, 127, 5)
    found = weights(value, zero_point, axis, vary=axis if per_channel else None)
    assert found is not None
    centred = value.astype(int) - (
        zero_point.astype(int)[:, None] if axis == 0 and per_channel else zero_point.astype(int)
    )
    expected = centred @ data if axis == 0 else data @ centred
    rows = np.moveaxis(found.values, axis, 0).astype(int)
    again = data[found.lanes(1)]
    np.testing.assert_array_equal(rows @ again, expected)
    np.testing.assert_array_equal(found.sums(), centred.sum(1 - axis))
    assert (found.channels, found.inputs, found.depth) == (5, 5, 5)
    assert (found.magnitude() >= np.abs(expected)).all()


def test_uint8_weights_about_128_have_one_part() -> None:
    found = weights(np.arange(256, dtype=np.uint8).reshape(16, 16), np.array(128))
    assert found is not None
    assert found.repeated == ()
    assert found.values.min() == -128


def test_only_channels_that_int8_does_not_hold_come_again() -> None:
    value = np.full((2, 4, 1, 1), 130, np.uint8)
    value[1, 2], value[0, 3] = 1, 255  # minus 0 these are 1 and 255, which is 127 + 127 + 1
    value[:, 0] = 127
    found = weights(value, np.array(0))
    assert found is not None
    assert found.repeated == (1, 2, 3, 3)
    assert found.values[0].ravel().tolist() == [127, 127, 127, 127, 3, 3, 127, 1]
    assert found.lanes(2).tolist() == [0, 1, 2, 3, 1, 2, 3, 3, 4, 5, 6, 7, 5, 6, 7, 7]


def test_scales_along_the_input_channels_are_left() -> None:
    assert weights(np.full((4, 4), 255, np.uint8), np.array(0), axis=0, vary=1) is None


def test_the_least_of_int8_counts_with_its_size() -> None:
    found = weights(np.array([[-128, 127], [-128, -128]], np.int8), np.array(0, np.int8))
    assert found is not None
    np.testing.assert_array_equal(found.magnitude(), [255 * 128, 256 * 128])
    np.testing.assert_array_equal(found.sums(), [-1, -256])
