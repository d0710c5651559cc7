import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from accel.frontend.dataflow import Quantised
from accel.frontend.weights import Weights, integer_weights


def weights(
    value: np.ndarray, zero_point: np.ndarray, axis: int = 0, *, vary: int | None = None, groups: int = 1
) -> Weights | None:
    scale = np.array(0.1) if vary is None else np.full(value.shape[vary], 0.1)
    quantised = Quantised(relax.const(value), scale, zero_point.astype(np.int64), vary or 0, str(value.dtype))
    return integer_weights(value, quantised, axis, groups)


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
    result = (rows @ data)[: found.channels]
    if found.offset is not None:
        result = result - found.offset * (rows[-1] @ data)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(found.sums(), centred.sum(1 - axis))
    assert (found.magnitude() >= np.abs(expected)).all()


def test_uint8_weights_about_128_need_no_offset() -> None:
    found = weights(np.arange(256, dtype=np.uint8).reshape(16, 16), np.array(128))
    assert found is not None
    assert found.offset is None
    assert found.values.min() == -128


def test_scales_along_the_input_channels_and_odd_zero_points_in_groups_are_left() -> None:
    value = np.full((4, 4), 255, np.uint8)
    assert weights(value, np.array(0), axis=0, vary=1) is None
    assert weights(value, np.array(0), axis=0, groups=2) is None
