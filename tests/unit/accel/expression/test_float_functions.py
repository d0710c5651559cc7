"""Functions of a float32 against a library's in float64: the nearest float32, and the same bits wherever compiled."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from accel.expression.element_types import TensorType
from accel.expression.parser import parse_statement
from accel.expression.typecheck import check_statement
from tests.reference.compiled_statement import compile_statement

EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "recip": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(x > 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x))),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
}
COUNT = 1 << 16
ODD = np.array(
    (
        *(
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            1.0,
            -1.0,
            0.5,
            88.72284,
            88.7229,
            -87.34,
            -103.97,
            -104.1,
            128.0,
            -149.5,
        ),
        *(3.9, 4.0, -4.0, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 0.70710677, 0.70710683, 9.01, -16.6, 0.34657359),
    ),
    np.float32,
)


def arguments() -> np.ndarray:
    """Of all signs and sizes, most of them where functions are neither 0 nor endless."""
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 1 << 32, COUNT // 4, np.uint32).view(np.float32)
    near = rng.uniform(-110, 110, COUNT // 4).astype(np.float32)
    small = (rng.standard_normal(COUNT - COUNT // 2 - len(ODD)) * np.exp2(rng.integers(-20, 4))).astype(np.float32)
    return np.concatenate([bits, near, small, ODD])


def computed(text: str, x: np.ndarray, mcpu: str | None = None) -> np.ndarray:
    types = {name: TensorType("float32", x.shape) for name in ("X", "Y")}
    typed = check_statement(parse_statement(text), types, {})
    return compile_statement(typed, mcpu)({"X": x, "Y": np.zeros_like(x)})


@pytest.mark.parametrize("name", EXACT)
def test_it_is_the_nearest(name: str) -> None:
    x = arguments()
    with np.errstate(all="ignore"):
        found = computed(f"Y[i] = {name}(X[i])", x)
        exact = EXACT[name](x.astype(np.float64))
        nearest = exact.astype(np.float32)
        middle = np.abs(exact - nearest.astype(np.float64)) / np.spacing(np.abs(nearest)).astype(np.float64)
    same = found.view(np.uint32) == nearest.view(np.uint32)
    # where float64 is itself within its rounding of the middle between two float32, either is as near
    tie = np.abs(middle - 0.5) < 1e-6
    assert (same | (np.isnan(found) & np.isnan(nearest)) | tie).all(), x[~same][:5]
    assert np.count_nonzero(tie) < COUNT / 1000 or name in ("floor", "ceil", "rint")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_vectors_and_other_processors_give_the_same_bits(name: str) -> None:
    x = arguments()
    whole = computed(f"Y[i] = {name}(X[i])", x)
    odd_rows = np.concatenate([computed(f"Y[i] = {name}(X[i])", part) for part in (x[:67], x[67:80])])
    generic = computed(f"Y[i] = {name}(X[i])", x, "generic")
    np.testing.assert_array_equal(whole[:80].view(np.uint32), odd_rows.view(np.uint32))
    np.testing.assert_array_equal(whole.view(np.uint32), generic.view(np.uint32))


def test_they_are_parts_of_an_expression() -> None:
    """A gaussian error unit, in one statement: each operation is rounded by itself."""
    x = np.linspace(-6, 6, 257).astype(np.float32)
    found = computed("Y[i] = X[i] * 0.5 * (1 + erf(X[i] * 0.70710678))", x)
    inner = EXACT["erf"]((x * np.float32(0.70710678)).astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(found, x * np.float32(0.5) * (np.float32(1) + inner))
