"""Biases as contractions of constants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.contraction import contraction
from accel.catalog.load_accelerator import load_accelerator
from accel.region.epilogue import (
    Epilogue,
    bias_data_tile,
    bias_weight_tiles,
    largest_bias_by_product,
    with_bias_by_product,
)

GEMMS = {name: contraction(load_accelerator(name)) for name in ("vta", "vta-8", "vta-32", "vector")}


@settings(max_examples=30)
@given(st.data())
@pytest.mark.parametrize("name", GEMMS)
def test_the_product_is_the_bias(name: str, data: st.DataObject) -> None:
    """For every channel and every row of a tile, up to the largest bias."""
    gemm = GEMMS[name]
    blocks = data.draw(st.integers(1, 3))
    most = largest_bias_by_product(gemm)
    values = st.one_of(st.integers(-most, most), st.sampled_from([-most, most]))
    channels = data.draw(st.integers(1, blocks * gemm.out_channels))
    bias = np.array(data.draw(st.lists(values, min_size=channels, max_size=channels)), np.int32)
    tile = bias_data_tile(gemm).astype(np.int64)
    weights = bias_weight_tiles(bias, blocks, gemm).astype(np.int64)
    rows = tile if gemm.data.axes == ("m", "k") else tile.T
    across = weights if gemm.weights.axes == ("n", "k") else weights.transpose(0, 2, 1)
    sums = np.einsum("mk,bnk->mbn", rows, across).reshape(gemm.rows, -1)
    expected = np.zeros(blocks * gemm.out_channels, np.int64)
    expected[: bias.size] = bias
    np.testing.assert_array_equal(sums, np.broadcast_to(expected, sums.shape))


@pytest.mark.parametrize("beyond", [0, 1])
def test_only_what_it_reaches(beyond: int) -> None:
    gemm, epilogue = GEMMS["vta"], Epilogue((("add_tensor", 0), ("shift_right", 8), ("max", 0), ("min", 127)))
    made = with_bias_by_product(epilogue, gemm, largest_bias_by_product(gemm) + beyond)
    assert (made is None) == bool(beyond)
    if made is not None:
        assert [name for name, _ in made.steps] == ["add_product", "shift_right", "max", "min"]
    assert with_bias_by_product(Epilogue((("shift_right", 8),)), gemm, 0) is None
