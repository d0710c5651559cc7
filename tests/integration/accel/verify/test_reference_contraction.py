"""Exact contractions, against sums of int64 taken straight from the definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.util.deadline import Deadline, OutOfTimeError
from accel.verify import reference_operators
from accel.verify.reference_operators import conv2d, matmul

FOREVER = Deadline(math.inf)


def draw(shape: tuple[int, ...], seed: int, *, extreme: bool) -> np.ndarray:
    random = np.random.default_rng(seed)
    if extreme:
        return random.choice(np.array([-128, 127], np.int8), shape)
    return random.integers(-128, 128, shape).astype(np.int8)


@given(
    st.integers(1, 5), st.integers(1, 2500), st.integers(1, 5), st.integers(0, 99), st.sampled_from(["any", "extreme"])
)
def test_products(m: int, k: int, n: int, seed: int, values: str) -> None:
    a, b = (draw(shape, seed + i, extreme=values == "extreme") for i, shape in enumerate(((m, k), (k, n))))
    result = matmul(a, b, FOREVER)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, a.astype(np.int64) @ b.astype(np.int64))


def test_the_largest_sums_are_exact() -> None:
    a, b = np.full((2, 70_000), -128, np.int8), np.full((70_000, 3), -128, np.int8)
    np.testing.assert_array_equal(matmul(a, b, FOREVER), np.full((2, 3), 70_000 << 14))


def by_definition(x: np.ndarray, w: np.ndarray, strides, padding, dilation, groups: int) -> np.ndarray:
    top, left, bottom, right = padding
    x = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    filters, depth, high, wide = w.shape
    rows = (x.shape[2] - (high - 1) * dilation[0] - 1) // strides[0] + 1
    columns = (x.shape[3] - (wide - 1) * dilation[1] - 1) // strides[1] + 1
    result = np.zeros((len(x), filters, rows, columns), np.int64)
    for o in range(filters):
        first = o // (filters // groups) * depth
        for c in range(depth):
            for i in range(high):
                for j in range(wide):
                    at = i * dilation[0], j * dilation[1]
                    part = x[:, first + c, at[0] :: strides[0], at[1] :: strides[1]][:, :rows, :columns]
                    result[:, o] += part * np.int64(w[o, c, i, j])
    return result


@settings(max_examples=60)
@given(st.data())
def test_convolutions(data: st.DataObject) -> None:
    def number(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    groups, kernel, dilation = number(1, 4), (number(1, 3), number(1, 3)), (number(1, 2), number(1, 2))
    shape = (number(1, 2), groups * number(1, 5), number(5, 9), number(5, 9))
    weights = (groups * number(1, 3), shape[1] // groups, *kernel)
    strides, padding = (number(1, 3), number(1, 3)), tuple(number(0, 2) for _ in range(4))
    x, w = draw(shape, number(0, 99), extreme=False), draw(weights, number(0, 99), extreme=False)
    result = conv2d(x, w, strides, padding, dilation, groups, FOREVER)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, by_definition(x, w, strides, padding, dilation, groups))


def test_convolutions_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = draw((2, 6, 11, 7), 1, extreme=False), draw((4, 6, 3, 3), 2, extreme=False)
    whole = conv2d(x, w, (1, 1), (1, 1, 1, 1), (1, 1), 1, FOREVER)
    monkeypatch.setattr(reference_operators, "_CHUNK", 6 * 9 * 7 * 2)
    monkeypatch.setattr(reference_operators, "_EXACT", 10)
    np.testing.assert_array_equal(conv2d(x, w, (1, 1), (1, 1, 1, 1), (1, 1), 1, FOREVER), whole)


def test_they_stop() -> None:
    x, w = draw((1, 6, 11, 7), 1, extreme=False), draw((4, 6, 3, 3), 2, extreme=False)
    with pytest.raises(OutOfTimeError):
        conv2d(x, w, (1, 1), (1, 1, 1, 1), (1, 1), 1, Deadline(0))
