import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.frontend.quantize.scale_grid import GRIDS, Grid, quantised, squared_error

grids = pytest.mark.parametrize("grid", GRIDS.values())


def int8_error(values: np.ndarray, scale: float) -> float:
    quantised = np.clip(np.rint(values.astype(np.float64) / scale), -128, 127) * scale
    return float(np.square(values - quantised).sum())


@grids
@given(index=st.integers(-100, 100), octaves=st.integers(-5, 5))
def test_indices_a_whole_number_of_octaves_apart_differ_by_a_power_of_two(grid: Grid, index: int, octaves: int) -> None:
    scale = grid.scale(index)
    assert scale == np.float32(scale)
    assert scale == pytest.approx(2.0 ** (index / grid.density), rel=1e-7)
    assert grid.scale(index + octaves * grid.density) == scale * 2.0**octaves


@grids
@given(scale=st.floats(1e-9, 1e9))
def test_the_ceiling_is_the_next_scale(grid: Grid, scale: float) -> None:
    index = grid.ceiling(scale)
    assert grid.scale(index - 1) * 0.9999999 < scale <= grid.scale(index) * 1.0000001


@grids
@given(seed=st.integers(0, 999), size=st.integers(1, 200), magnitude=st.floats(1e-6, 1e6), heavy=st.booleans())
def test_the_best_scale_is_the_one_of_least_error(
    *, grid: Grid, seed: int, size: int, magnitude: float, heavy: bool
) -> None:
    random = np.random.default_rng(seed)
    values = (random.standard_normal(size) ** (3 if heavy else 1) * magnitude).astype(np.float32)
    error = int8_error(values, grid.scale(grid.best(values)))
    top = np.abs(values).max() / 127
    near = [index for index in range(grid.ceiling(top / 8), grid.ceiling(top) + 1) if top > 0]
    assert error <= min((int8_error(values, grid.scale(index)) for index in near), default=0) * 1.000001
    assert error <= int8_error(values, GRIDS["power of two"].scale(GRIDS["power of two"].best(values))) * 1.000001


@grids
def test_outliers_are_clipped_and_silence_has_a_scale(grid: Grid) -> None:
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    assert grid.scale(grid.best(np.array([*values, 33], np.float32))) < 33 / 127
    assert grid.best(np.zeros(4, np.float32)) == grid.best(np.zeros(9, np.float32))
    assert grid.scale(grid.best(np.zeros(4, np.float32))) == 2.0**-7


@grids
@given(largest=st.floats(1e-10, 1e15))
def test_of_every_fraction_of_an_octave_there_is_a_scale_that_holds_all(*, grid: Grid, largest: float) -> None:
    """Without one, tensors that share a fraction were all clipped, or had the power of two."""
    holding = {index % grid.density for index in grid.candidates(largest) if 127.001 * grid.scale(index) >= largest}
    assert holding == set(range(grid.density))
    assert min(grid.candidates(largest)) == grid.finest(largest)


def test_the_error_is_of_the_integers_of_int8() -> None:
    values = np.array([0.0, 0.25, -1.0, 200.0], np.float32)
    assert squared_error(values, 1.0) == pytest.approx(0.0625 + 73**2)


@grids
@pytest.mark.parametrize("kind", ["noise", "steps", "outlier"])
def test_many_values_are_searched_in_blocks(grid: Grid, kind: str) -> None:
    """Against the error at every candidate, over all values at once."""
    values = np.random.default_rng(1).standard_normal((7, 9001)).astype(np.float32)
    if kind == "steps":
        values = np.rint(values * 8)
    if kind == "outlier":
        values[6, 9000] = 50
    errors = {
        index: int8_error(values, grid.scale(index)) for index in grid.candidates(float(np.abs(values).max(initial=0)))
    }
    assert grid.best(values) == min(errors, key=errors.__getitem__)


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
@pytest.mark.parametrize("size", [0, 1, 8192, 20_000])
def test_values_become_steps(dtype: type, size: int) -> None:
    values = (np.random.default_rng(0).standard_normal((2, size)) * 3).astype(np.float32)
    found = quantised(values, 0.03, dtype)
    assert found.dtype == dtype
    limits = np.iinfo(dtype)
    np.testing.assert_array_equal(found, np.clip(np.rint(values.astype(float) / 0.03), limits.min, limits.max))


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 700, 100)])
def test_errors_are_shares_of_the_energy(shape: tuple[int, ...]) -> None:
    """It would catch weights that are counted with others' squares, and levels that are rounded to another integer."""
    random, grid = np.random.default_rng(1), GRIDS["free"]
    values = random.standard_normal(shape).astype(np.float32)
    squares = random.random((shape[0], 1, shape[2])).astype(np.float32)
    energy = float((squares * values**2).sum())
    found = grid.errors(values, squares)
    assert list(found) == grid.candidates(float(np.abs(values).max()))
    for index, error in found.items():
        steps = values / grid.scale(index)
        off = (np.clip(np.rint(steps), -127, 127) - steps) * grid.scale(index)
        assert error == pytest.approx(float((squares * off**2).sum()) / energy, rel=0.02, abs=1e-6)
