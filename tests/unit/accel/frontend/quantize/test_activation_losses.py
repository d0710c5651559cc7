"""The error of each candidate scale, counted in bins, against the error of each value by itself."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from accel.errors import InvalidModel
from accel.frontend.quantize.scale_grid import GRIDS, CalibrationMethod, Grid
from accel.frontend.quantize.value_histogram import Histogram
from tests.helpers.models.calibrated import losses_of

RANDOM = np.random.default_rng(5)
VALUES = {
    "normal": RANDOM.standard_normal((3, 40_000)),
    "positive": np.maximum(RANDOM.standard_normal((2, 60_000)), 0) * 1e-3,
    "negative": -RANDOM.random((2, 999)) * 40,
    "with outliers": RANDOM.standard_t(2, (2, 30_000)),
    "integers": RANDOM.integers(-128, 128, (2, 5000)).astype(np.float64),
    "zeros": np.zeros((2, 17)),
    "zeros first": RANDOM.standard_normal((3, 500)) * np.array([[0], [1e-4], [1e-3]]),
    "samples of other sizes": RANDOM.standard_normal((3, 400)) * np.array([[1], [100], [0.01]]),
}
FEW = (1.0, 1.53125)  # bases: of a mean of 49 elements the second


def losses(samples: np.ndarray, grid: Grid):
    values = [{"x": sample.astype(np.float32)} for sample in samples]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [samples.shape[1]]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = losses_of(model, {"x": grid, "y": grid}, values)
    return found, np.concatenate([one["x"] for one in values])


def error_of(values: np.ndarray, scale: float, zero_point: int = 0) -> float:
    """The squared error of int8, four times that of what is clipped."""
    steps = np.rint(values.astype(np.float64) / scale) + zero_point
    held = np.clip(steps, -128, 127)
    return float((np.where(steps == held, 1, 4) * (values - scale * (held - zero_point)) ** 2).sum())


@pytest.mark.parametrize("grid", [*(GRIDS["power of two"].with_base(base) for base in FEW), GRIDS["free"]], ids=str)
@pytest.mark.parametrize("kind", VALUES)
def test_errors_are_those_of_the_values(kind: str, grid: Grid) -> None:
    found, values = losses(VALUES[kind], grid)
    for loss in found.values():
        assert loss.energy == pytest.approx(np.square(values, dtype=np.float64).sum(), rel=1e-12)
        assert list(loss.errors) == grid.candidates(float(np.abs(values).max()))
        exact = {index: error_of(values, grid.scale(index)) for index in loss.errors}
        # a bin may straddle a rounding boundary
        assert loss.errors == pytest.approx(exact, rel=0.02, abs=1e-12)


def test_the_error_of_what_int8_holds_exactly_is_nothing() -> None:
    found, _ = losses(VALUES["integers"] / 4, GRIDS["power of two"])
    assert [error for error in found["x"].errors.values() if error < 1e-6] == [0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(InvalidModel, match="not finite"):
        losses(np.array([[1.0, 2.0], [bad, 1.0]]), GRIDS["free"])


def histogram(values: np.ndarray) -> Histogram:
    found = Histogram()
    assert found.add(values.astype(np.float32))
    return found


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy", "mse"])
@pytest.mark.parametrize("low", [0.0, -0.28])
def test_a_zero_point_halves_the_step_behind_a_relu_and_silu(method: CalibrationMethod, low: float) -> None:
    """It would catch a zero point that int8 does not hold, or whose range does not begin where the values do."""
    values, grid = np.maximum(np.random.default_rng(5).standard_normal(100_000), low), GRIDS["free"]
    loss, centred = histogram(values).loss(grid, method, shifts=True), histogram(values).loss(grid, method)
    assert set(centred.zero_points.values()) == {0}
    index = min(loss.errors, key=loss.errors.__getitem__)
    zero_point = loss.zero_points[index]
    assert -128 <= zero_point <= -128 - low / grid.scale(index) + 1
    assert loss.errors[index] == pytest.approx(error_of(values, grid.scale(index), zero_point), rel=0.02)
    most = 0.7 if method == "entropy" else 0.45  # it clips more than it rounds, whatever the step
    assert loss.errors[index] < most * min(centred.errors.values())


def test_what_lies_on_both_sides_of_zero_gets_no_zero_point() -> None:
    assert set(histogram(RANDOM.standard_normal(9999)).loss(GRIDS["free"], shifts=True).zero_points.values()) == {0}


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy", "mse"])
def test_zeros_alone_have_no_error(method: CalibrationMethod) -> None:
    """It would catch a range of nothing that is divided by, which a warning makes an error here."""
    assert set(histogram(np.zeros(99)).loss(GRIDS["free"], method, shifts=True).errors.values()) == {0.0}


def test_methods_hold_as_much_as_they_say() -> None:
    """It would catch a method that is another one: outliers tell them apart."""
    values = RANDOM.standard_t(4, 200_000)
    held = {}
    for method in ("minmax", "percentile", "entropy", "mse"):
        loss = histogram(values).loss(GRIDS["free"], method)
        held[method] = 127 * GRIDS["free"].scale(min(loss.errors, key=loss.errors.__getitem__))
    largest, ends = np.abs(values).max(), np.abs(np.quantile(values, [1e-4, 1 - 1e-4])).max()
    assert largest <= held["minmax"] <= 2 * largest
    assert ends * 0.98 <= held["percentile"] <= 2 * ends
    assert held["entropy"] < held["minmax"]
    assert held["mse"] < held["minmax"]


@pytest.mark.parametrize("axis", range(3))
def test_some_elements_tell_of_all(axis: int) -> None:
    """It would catch a choice that leaves out columns, rows or channels, and errors that are those of the few."""
    values = RANDOM.standard_normal((64, 96, 80))
    np.moveaxis(values, axis, 0)[-1] *= 7  # a border, a channel
    some, exact = Histogram(most=1 << 14), Histogram(most=values.size)
    for found in (some, exact):
        assert found.add(values.astype(np.float32))
    few, all_of_them = some.loss(GRIDS["free"]), exact.loss(GRIDS["free"])
    assert few.energy == pytest.approx(all_of_them.energy, rel=0.1)
    assert list(few.errors) == list(all_of_them.errors)
    best = min(few.errors, key=few.errors.__getitem__)
    assert all_of_them.errors[best] < 1.02 * min(all_of_them.errors.values())


@pytest.mark.parametrize("sizes", [(1e-3, 1, 0.1, 30, 2), (0, 0, 0, 0, 0, 1e-9)])
@pytest.mark.parametrize("base", FEW)
def test_more_values_than_are_kept_lose_nothing(base: float, sizes: tuple[float, ...]) -> None:
    """It would catch bins that are joined wrongly as values grow, and kept values that are counted twice or never."""
    random, found, values = np.random.default_rng(7), Histogram(), []
    for size in sizes:
        values.append((random.standard_normal(110_000) * size).astype(np.float32))
        assert found.add(values[-1])
    grid = GRIDS["power of two"].with_base(base)
    loss, every = found.loss(grid), np.concatenate(values)
    assert loss == found.loss(grid)
    assert loss.energy == pytest.approx(np.square(every, dtype=np.float64).sum(), rel=1e-12)
    for index in [*loss.errors][::20]:
        assert loss.errors[index] == pytest.approx(error_of(every, grid.scale(index)), rel=0.02)
