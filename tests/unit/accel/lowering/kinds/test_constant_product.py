"""A number as a product of int8, for any number that the channels of a contraction hold."""

import numpy as np
import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.kinds.rows.constant_product import constant_product, largest_product


@pytest.mark.parametrize("name", ["gemmini", "gemmini-8"])
def test_products_are_the_number(name: str) -> None:
    """A remainder in the wrong channel, or a share beyond int8."""
    gemm = Target(load_accelerator(name)).contraction
    most = largest_product(gemm)
    for number in (0, 1, -126, 127, -3000, most, -most, *np.random.default_rng(0).integers(-most, most, 50).tolist()):
        data, weights = constant_product(number, gemm)
        assert data.shape == gemm.data.shape
        assert weights.shape == gemm.weights.shape
        row, matrix = data.astype(int).reshape(-1), np.moveaxis(weights.astype(int), gemm.weights.axes.index("k"), 0)
        assert set(row @ matrix.reshape(gemm.in_channels, -1)) == {number}
