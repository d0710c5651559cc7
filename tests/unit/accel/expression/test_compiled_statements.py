"""Compiled statements against numpy, bit for bit."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from accel.expression.element_types import TensorType
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import ExpressionError
from accel.expression.typecheck import check_statement
from tests.helpers.documents.random_statements import Case, cases
from tests.helpers.marking import share
from tests.reference.compiled_statement import compile_statement
from tests.reference.statements import run

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal, zeros with their signs; a NaN is a NaN."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    bits = f"uint{found.dtype.itemsize * 8}"
    same = found.view(bits) == expected.view(bits)
    if found.dtype == np.float32:
        same |= np.isnan(found) & np.isnan(expected)
    assert same.all(), (found, expected)


def compare(case: Case) -> None:
    found = compile_statement(case.typed)(case.tensors, case.scalars)
    assert_same_bits(found, run(case.typed, case.tensors, case.scalars))


@pytest.mark.slow
@settings(max_examples=share(12), deadline=None, suppress_health_check=SLOW)
@given(cases())
def test_random_statements(case: Case) -> None:
    compare(case)


@pytest.mark.long
@settings(max_examples=200, deadline=None, suppress_health_check=SLOW)
@given(cases(4))
def test_many_random_statements(case: Case) -> None:
    compare(case)


def run_text(text: str, tensors: dict[str, np.ndarray], **scalars: tuple[str, float]) -> np.ndarray:
    types = {name: TensorType(str(array.dtype), array.shape) for name, array in tensors.items()}
    typed = check_statement(parse_statement(text), types, {name: dtype for name, (dtype, _) in scalars.items()})
    return compile_statement(typed)(tensors, {name: value for name, (_, value) in scalars.items()})


def test_a_product_of_matrices_wraps() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-(2**31), 2**31, shape).astype(np.int32) for shape in ((5, 7), (7, 72)))
    found = run_text("C[i, j] = A[i, k] * B[k, j]", {"A": a, "B": b, "C": np.zeros((5, 72), np.int32)})
    assert_same_bits(found, (a.astype(object) @ b.astype(object) & 0xFFFFFFFF).astype(np.uint32).view(np.int32))


def test_both_layouts_of_the_weights_give_the_same() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((4, 32), (32, 16)))
    acc = rng.integers(-1000, 1000, (4, 16)).astype(np.int32)
    rows = run_text("C[i, j] += i32(A[i, k]) * i32(B[k, j])", {"A": a, "B": b, "C": acc})
    sums = run_text("C[i, j] += i32(A[i, k]) * i32(B[j, k])", {"A": a, "B": np.ascontiguousarray(b.T), "C": acc})
    assert_same_bits(rows, (acc + a.astype(np.int32) @ b.astype(np.int32)).astype(np.int32))
    assert_same_bits(sums, rows)


SLIDING = {
    "Y[i] += i32(X[i + r]) * i32(W[r])": ((8,), (10,), (3,)),
    "Y[i] += i32(X[2 * i + r + 1]) * i32(W[r])": ((8,), (18,), (3,)),
    "Y[i] += i32(X[n * i + r]) * i32(W[r])": ((8,), (24,), (3,)),
    "Y[i, o] += i32(X[i + r, k]) * i32(W[r, o, k])": ((6, 16), (8, 5), (3, 16, 5)),
    "Y[i, j] += i32(X[i + r, n * j + s]) * i32(W[r, s])": ((4, 8), (5, 24), (2, 3)),
}


@pytest.mark.parametrize("text", SLIDING)
def test_what_slides_reads_its_windows(text: str) -> None:
    """Catches a step or an offset left out, and vectors along an axis that an operand walks in longer steps."""
    rng, shapes = np.random.default_rng(3), dict(zip("YXW", SLIDING[text], strict=True))
    tensors = {name: rng.integers(-100, 100, shape).astype(np.int8) for name, shape in shapes.items()}
    tensors["Y"] = tensors["Y"].astype(np.int32)
    step = {"n": ("int32", 3)} if "n *" in text else {}
    found = run_text(text, tensors, **step)
    kinds = {name: TensorType(str(array.dtype), array.shape) for name, array in tensors.items()}
    typed = check_statement(parse_statement(text), kinds, dict.fromkeys(step, "int32"))
    assert_same_bits(found, run(typed, tensors, {"n": 3}))
    if text == "Y[i] += i32(X[i + r]) * i32(W[r])":
        slid = np.correlate(tensors["X"].astype(np.int32), tensors["W"].astype(np.int32))
        assert_same_bits(found, tensors["Y"] + slid)


def test_overflow_is_not_simplified_away() -> None:
    x = np.array([2**31 - 1, -(2**31), 0x7000_0000, 46341], np.int32)
    grown = run_text("Y[i] = select(X[i] + 1 > X[i], 1, 0)", {"X": x, "Y": np.zeros(4, np.int32)})
    assert grown.tolist() == [0, 1, 1, 1]
    squared = run_text("Y[i] = max(max(X[i], 0) * max(X[i], 0), 0)", {"X": x, "Y": np.zeros(4, np.int32)})
    assert squared.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("mcpu", [None, "x86-64"])
def test_wide_integers_wrap_at_their_width(mcpu: str | None) -> None:
    """Catches products whose overflow LLVM takes for undefined, and 48 bits held in 64 without their sign."""
    rng = np.random.default_rng(4)
    x, z = (rng.integers(-(2**47), 2**47, 67) for _ in range(2))
    x[:3], z[:3] = [2**47 - 1, -(2**47), -(2**47)], [1, -(2**47), -1]
    for dtype, bits in (("int48", 48), ("int64", 64)):
        for sign, exact in (("+", x.astype(object) + z), ("-", x.astype(object) - z), ("*", x.astype(object) * z)):
            types = {name: TensorType(dtype, (67,)) for name in "XYZ"}
            typed = check_statement(parse_statement(f"Y[i] = X[i] {sign} Z[i]"), types, {})
            found = compile_statement(typed, mcpu)({"X": x, "Y": x, "Z": z})
            half = 1 << bits - 1
            assert found.tolist() == [(value + half) % (1 << bits) - half for value in exact]


@pytest.mark.parametrize("lanes", [1, 5, 64, 72, 67])
def test_a_product_and_a_sum_are_rounded_each(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    x, y = (rng.standard_normal(lanes).astype(np.float32) for _ in "xy")
    found = run_text("Y[i] = X[i] * scale + Y[i]", {"X": x, "Y": y}, scale=("float32", 0.3))
    assert_same_bits(found, x * np.float32(0.3) + y)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, [-5, 100]), (1, [-3, 50]), (31, [-1, 0]), (32, [-1, 0]), (4000, [-1, 0]), (-1, [-10, -56]), (-8, [0, 0])],
)
def test_any_count_shifts(count: int, expected: list[int]) -> None:
    x = np.array([-5, 100], np.int8)
    assert run_text("X[i] = X[i] >> n", {"X": x}, n=("int32", count)).tolist() == expected
    assert run_text("X[i] = X[i] << n", {"X": x}, n=("int32", -count)).tolist() == expected


def test_casts_from_floats_saturate() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e10, -1e10, 127.9, -128.9, 255.5, -0.9], np.float32)
    for short, dtype in (("i8", np.int8), ("u8", np.uint8), ("i32", np.int32), ("u32", np.uint32)):
        ends = np.iinfo(dtype)
        expected = np.clip(np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0)), ends.min, ends.max).astype(dtype)
        assert_same_bits(run_text(f"Y[i] = {short}(X[i])", {"X": x, "Y": np.zeros(9, dtype)}), expected)


def test_rint_rounds_half_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0], np.float32)
    found = run_text("Y[i] = rint(X[i])", {"X": x, "Y": x})
    assert_same_bits(found, np.array([0.0, 2.0, 2.0, -0.0, -2.0, 8388609.0], np.float32))


def test_an_array_of_another_shape_is_refused() -> None:
    typed = check_statement(parse_statement("X[i] = 0"), {"X": TensorType("int8", (4,))}, {})
    with pytest.raises(ExpressionError, match="expected"):
        compile_statement(typed)({"X": np.zeros(5, np.int8)})
