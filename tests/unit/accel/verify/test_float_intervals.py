"""Bounds of vector programs against float32 arithmetic of numpy, in its order and in others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import VerificationError
from accel.region.vector_program import UNIT, Stream, VectorProgram, VectorTensor
from accel.util.arrays import Array
from accel.verify.float_intervals import Interval, result_interval
from accel.verify.vector_results import VectorResult

ROWS, COLUMNS = 5, 37


def program(*statements: str, result: str = "float32", axes: tuple[int, ...] = (0, 1)) -> VectorProgram:
    """Statements over ``x`` [rows, columns], with buffers b (whole) and r (a number a row), that leave ``y``."""
    return VectorProgram(
        extents=(ROWS, COLUMNS),
        tile=(ROWS, COLUMNS),
        tensors=(
            VectorTensor("x", "float32", (UNIT, 0, 1)),
            VectorTensor("y", result, axes),
            VectorTensor("b", "float32", (0, 1), "v"),
            VectorTensor("r", "float32", (0,), "v"),
        ),
        results=1,
        statements=("b[a0, a1] = x[a0, a1]", *statements),
        contexts=1,
    )


SOFTMAX = program(
    *("r[a0] = -3.4e38", "r[a0] max= b[a0, a1]", "b[a0, a1] = b[a0, a1] - r[a0]", "b[a0, a1] = exp(b[a0, a1])"),
    *("r[a0] = 0.0", "r[a0] += b[a0, a1]", "b[a0, a1] = b[a0, a1] / r[a0]", "y[a0, a1] = b[a0, a1]"),
)
SUM = program("r[a0] = 0.0", "r[a0] += b[a0, a1]", "y[a0] = r[a0]", axes=(0,))
QUANTISED = program(
    "b[a0, a1] = b[a0, a1] / 0.037", "y[a0, a1] = i8(clip(rint(b[a0, a1]), -128.0, 127.0))", result="int8"
)


def drawn(seed: int, scale: float = 3.0) -> Array:
    return (np.random.default_rng(seed).normal(size=(1, ROWS, COLUMNS)) * scale).astype(np.float32)


def bounds(of: VectorProgram, x: Array) -> Interval:
    return result_interval(of, 0, lambda _number: x)


@settings(max_examples=25)
@given(st.integers(0, 1 << 20), st.floats(0.01, 50))
def test_a_softmax_in_single_precision_is_within_them_whatever_the_order_of_its_sum(seed: int, scale: float) -> None:
    x = drawn(seed, scale)
    found = bounds(SOFTMAX, x)
    powers = np.exp(x[0] - x[0].max(-1, keepdims=True))
    for order in (slice(None), slice(None, None, -1)):
        sums = np.cumsum(powers[:, order], axis=-1, dtype=np.float32)[:, -1:]
        assert found.holds(powers / sums).all()
    exact = np.exp(x[0].astype(np.float64) - x[0].max(-1, keepdims=True).astype(np.float64))
    assert found.holds(exact / exact.sum(-1, keepdims=True)).all()
    assert (found.high - found.low <= 1e-4 * found.high + 1e-30).all()  # and they are no wider than need be


@settings(max_examples=25)
@given(st.integers(0, 1 << 20))
def test_they_hold_the_order_that_is_stated_and_not_a_sum_that_lacks_a_number(seed: int) -> None:
    x = drawn(seed)
    found = bounds(SUM, x)
    whole = np.cumsum(x[0], axis=-1, dtype=np.float32)
    assert found.holds(whole[:, -1]).all()
    assert not found.holds(whole[:, -2]).all()


def test_integers_are_decided_but_for_those_at_a_border() -> None:
    x = drawn(3)
    found = bounds(QUANTISED, x)
    expected = np.clip(np.rint(x[0].astype(np.float64) / float(np.float32(0.037))), -128, 127)
    assert found.holds(expected).all()
    assert (found.low == found.high).mean() > 0.99


def test_sums_of_integers_are_exact() -> None:
    found = bounds(SUM, np.arange(ROWS * COLUMNS, dtype=np.int8).reshape(1, ROWS, COLUMNS))
    whole = np.arange(ROWS * COLUMNS, dtype=np.int8).reshape(ROWS, COLUMNS).sum(-1, dtype=np.int64)
    assert (found.low == whole).all()
    assert (found.high == whole).all()


@pytest.mark.parametrize(("factor", "exact"), [(128.0, True), (0.25, False), (100.0, False)])
def test_integers_beyond_24_bits_are_exact_where_they_are_held_ones_times_a_power_of_two(
    *, factor: float, exact: bool
) -> None:
    """It would catch bounds that are as wide as a unit in the last place around what has no more digits."""
    held = np.arange(ROWS * COLUMNS, dtype=np.int32).reshape(1, ROWS, COLUMNS) * 90_000 - (1 << 23)
    of = program(f"b[a0, a1] = b[a0, a1] * {factor}", "y[a0, a1] = b[a0, a1]")
    found = bounds(replace(of, tensors=(VectorTensor("x", "int32", (UNIT, 0, 1)), *of.tensors[1:])), held)
    assert found.holds((held[0] * np.float32(factor)).astype(np.float32)).all()
    assert bool((found.low == found.high).all()) is exact


@pytest.mark.parametrize("wrong", ["the accelerator", "the translation"])
def test_what_is_outside_is_refused_with_its_place(wrong: str) -> None:
    x = drawn(5)
    exact = np.exp(x[0].astype(np.float64))
    exact /= exact.sum(-1, keepdims=True)
    found, other = exact.astype(np.float32), exact.copy()
    (found if wrong == "the accelerator" else other)[2, 7] *= 1.001
    result = VectorResult("softmax_1", "probabilities", SOFTMAX, 0, ("x",), found)
    interval = result.interval(lambda _name: x)
    who = "the accelerator computed" if wrong == "the accelerator" else "ONNX has"
    with pytest.raises(VerificationError, match=rf"softmax_1.*\[2, 7\]: {who}"):
        result.check(interval, other)
    result = VectorResult("softmax_1", "probabilities", SOFTMAX, 0, ("x",), exact.astype(np.float32))
    told = result.check(interval, exact)
    assert told.independent
    assert told.bound_used is not None
    assert 0 < told.bound_used < 1


@pytest.mark.parametrize("function", ["sqrt", "log", "rsqrt"])
def test_functions_of_numbers_below_zero_are_none(function: str) -> None:
    """It would catch a model refused for a root of less than 0, which no machine has; and one of 0 that may be less."""
    of, x = program(f"y[a0, a1] = {function}(b[a0, a1])"), drawn(7)
    x[0, 0, 0] = 0.0
    with np.errstate(all="ignore"):
        wide = x[0].astype(np.float64)
        found = {"sqrt": np.sqrt, "log": np.log, "rsqrt": lambda each: 1 / np.sqrt(each)}[function](wide)
    interval = bounds(of, x)
    assert np.isnan(found).any()
    assert interval.holds(found).all()
    assert not interval.holds(np.where(np.isnan(found), 1.0, np.nan)).any()
    maybe = program("b[a0, a1] = b[a0, a1] - 1.1", "b[a0, a1] = b[a0, a1] + 1.1", f"y[a0, a1] = {function}(b[a0, a1])")
    assert bounds(maybe, x).holds(np.full((ROWS, COLUMNS), 0.0 if function == "sqrt" else found[0, 0]))[0, 0]


def test_a_division_by_what_may_be_zero_has_no_bounds() -> None:
    of = program("r[a0] = 0.0", "r[a0] += b[a0, a1]", "b[a0, a1] = b[a0, a1] / r[a0]", "y[a0, a1] = b[a0, a1]")
    x = np.zeros((1, ROWS, COLUMNS), np.float32)
    x[0, :, 0], x[0, :, 1] = 1.0, -1.0  # they may not cancel in single precision
    found = bounds(of, x)
    assert np.isinf(found.high).all()
    assert np.isinf(found.low).all()


WIDTH, BLOCK = 3, 10
BEGIN = ("m[a0] = -3.4028234663852886e+38", "l[a0] = 0.0", "c[a0, a2] = 0.0")
OF_A_BLOCK = (
    *("b[a0, a1] = x[a0, a1]", "w[a1, a2] = v[a1, a2]", "o[a0] = m[a0]", "m[a0] max= b[a0, a1]"),
    *("o[a0] = o[a0] - m[a0]", "o[a0] = exp(o[a0])", "b[a0, a1] = b[a0, a1] - m[a0]", "b[a0, a1] = exp(b[a0, a1])"),
    *("l[a0] = l[a0] * o[a0]", "l[a0] += b[a0, a1]"),
    *("c[a0, a2] = c[a0, a2] * o[a0]", "c[a0, a2] += b[a0, a1] * w[a1, a2]"),
)
IN_BLOCKS = VectorProgram(
    extents=(ROWS, COLUMNS, WIDTH),
    tile=(ROWS, BLOCK, WIDTH),
    tensors=(
        *(VectorTensor("x", "float32", (0, 1)), VectorTensor("v", "float32", (1, 2))),
        VectorTensor("y", "float32", (0, 2)),
        *(VectorTensor(name, "float32", (0,), "v") for name in "mlo"),
        *(VectorTensor(name, "float32", axes, "v") for name, axes in (("c", (0, 2)), ("b", (0, 1)), ("w", (1, 2)))),
    ),
    results=1,
    statements=(*BEGIN, *OF_A_BLOCK, "c[a0, a2] = c[a0, a2] / l[a0]", "y[a0, a2] = c[a0, a2]"),
    contexts=1,
    stream=Stream(1, len(BEGIN), len(BEGIN) + len(OF_A_BLOCK)),
)


def in_blocks(scores: Array, values: Array, *, shrinks: bool = True) -> Array:
    """Weights times values in numpy's float32, block by block; without ``shrinks`` sums stay as the maximum grows."""
    most = np.full(ROWS, np.finfo(np.float32).min, np.float32)
    total, made = np.zeros(ROWS, np.float32), np.zeros((ROWS, WIDTH), np.float32)
    for begin in range(0, COLUMNS, BLOCK):
        part = scores[:, begin : begin + BLOCK]
        before, most = most, np.maximum(most, part.max(1))
        factor = np.exp(before - most) if shrinks else np.ones_like(most)
        total, made = total * factor, made * factor[:, None]
        for weights, row in zip(np.exp(part - most[:, None]).T, values[begin : begin + BLOCK], strict=True):
            total, made = total + weights, made + weights[:, None] * row
    return made / total[:, None]


@settings(max_examples=20)
@given(st.integers(0, 1 << 20), st.floats(0.01, 30))
def test_blocks_of_keys_are_within_them_and_so_is_all_at_once(seed: int, scale: float) -> None:
    """It would catch bounds of one block alone, and bounds so wide that sums may stay as they were."""
    scores = np.sort(drawn(seed, scale)[0], axis=-1)  # the maximum grows with each block
    values = np.random.default_rng(seed + 1).normal(size=(COLUMNS, WIDTH)).astype(np.float32)
    found = result_interval(IN_BLOCKS, 0, lambda number: (scores, values)[number])
    assert found.holds(in_blocks(scores, values)).all()
    exact = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
    assert found.holds(exact @ values / exact.sum(-1, keepdims=True)).all()
    assert (found.high - found.low < 1e-3 * np.abs(values).max()).all()
    if scale > 1:
        assert not found.holds(in_blocks(scores, values, shrinks=False)).all()


def test_keys_that_are_masked_take_no_part() -> None:
    """It would catch a NaN of blocks in which no key is left, as of minus infinity less itself."""
    scores = drawn(1)[0]
    scores[:, : 2 * BLOCK] = -np.inf
    values = np.random.default_rng(2).normal(size=(COLUMNS, WIDTH)).astype(np.float32)
    found = result_interval(IN_BLOCKS, 0, lambda number: (scores, values)[number])
    exact = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
    assert found.holds(exact @ values / exact.sum(-1, keepdims=True)).all()
    assert np.isfinite(found.high).all()


@settings(max_examples=20)
@given(st.integers(0, 1 << 20))
def test_sums_of_products_are_within_them_in_any_order_and_not_without_a_product(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, v = (random.normal(size=shape).astype(np.float32) for shape in ((ROWS, COLUMNS), (COLUMNS, WIDTH)))
    statements = ("b[a0, a1] = x[a0, a1]", "b[a0, a1] = b[a0, a1] / 3.0", "w[a1, a2] = v[a1, a2]", "c[a0, a2] = 0.0")
    last = ("c[a0, a2] += b[a0, a1] * w[a1, a2]", "y[a0, a2] = c[a0, a2]")
    whole = replace(IN_BLOCKS, tile=IN_BLOCKS.extents, stream=None, statements=(*statements, *last))
    found = result_interval(whole, 0, lambda number: (x, v)[number])
    products = (x / np.float32(3))[:, :, None] * v
    for order in (slice(None), slice(None, None, -1)):
        sums = np.cumsum(products[:, order], axis=1, dtype=np.float32)
        assert found.holds(sums[:, -1]).all()
        assert not found.holds(sums[:, -2]).all()
    assert found.holds(x.astype(np.float64) / 3 @ v).all()
