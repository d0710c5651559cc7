"""The weights of layer norm in integers: how near their unit is to a scale, and what int32 holds."""

import numpy as np
import pytest

from accel.region.row_layer_norm import (
    LARGEST_STORED,
    LARGEST_SUMMED,
    IntegerLayerNorm,
    epsilon_counts,
    layer_norm_of_integers,
)


@pytest.mark.parametrize("columns", [1, 16, 192, 768, 1024])
@pytest.mark.parametrize("scale", [0.008, 0.0218, 1 / 32, 0.0359, 1 / 16, 0.2, 1.0])
def test_the_largest_result_is_less_than_half_a_step_off(scale: float, columns: int) -> None:
    found = layer_norm_of_integers(scale, columns)
    assert found is not None
    assert abs(found.stored * scale / found.summed - 1) * 127 <= 0.5
    assert found.stored <= LARGEST_STORED
    assert found.summed <= LARGEST_SUMMED


@pytest.mark.parametrize("columns", [1, 7, 192, 1024])
def test_int32_holds_the_squares_of_any_row(columns: int) -> None:
    """The rows that spread most: half of them at either end."""
    found = layer_norm_of_integers(0.5, columns)
    assert found is not None
    row = np.where(np.arange(columns) % 2, 127, -128) * np.int64(found.summed)
    mean = int(row.sum() / columns)
    assert ((row - mean) ** 2).sum() < 2**31
    assert np.abs(np.int64(found.stored) * 128 * columns) < 2**31


@pytest.mark.parametrize(
    ("scale", "columns", "found"),
    [(1 / 32, 192, IntegerLayerNorm(224, 7)), (1 / 8, 768, IntegerLayerNorm(104, 13)), (1 / 300, 192, None)],
)
def test_what_is_summed_has_the_largest_weight(scale: float, columns: int, found: IntegerLayerNorm | None) -> None:
    """As far as what is stored has two of int8, and int32 the squares; a step below 1/254 no weights have."""
    assert layer_norm_of_integers(scale, columns) == found


def test_weights_are_sums_of_int8() -> None:
    assert IntegerLayerNorm(224, 7).factors == ((127, 97), (7,))
    assert IntegerLayerNorm(127, 127).factors == ((127,), (127,))
    assert IntegerLayerNorm(254, 1).factors == ((127, 127), (1,))


def test_an_epsilon_counts_beside_a_step_of_the_data() -> None:
    assert epsilon_counts(1e-5, 0.0031)
    assert not epsilon_counts(1e-5, 0.0032)
