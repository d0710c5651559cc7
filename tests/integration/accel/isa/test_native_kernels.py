"""Kernels against what Python makes of the same functions: a wrong rule of the translation gives another number."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.isa.kernels.compiled_kernels import compiled
from accel.isa.native.source import KernelSyntaxError
from accel.util.arrays import Bytes, Float32, Int8, Int32, Int64, Words

SMALL = st.integers(-(1 << 20), 1 << 20)
LIMIT, TABLE, PAIRS = 5, (3, -1, 4, 1), ((0, 2), (1, 3))


@compiled
def numbers(a: int, b: int) -> tuple[int, int, int, int, int, int]:
    """Arithmetic, floors and shifts."""
    other = b if b != 0 else -3
    quotient, rest = divmod(a, other)
    return a + b * 3 - (a & b), a // other * 7 + a % other, quotient ^ rest, a >> 3 | b << 2, ~a, -b // 4 + abs(a)


@compiled
def logic(a: int, b: int) -> tuple[int, int, int, bool, int, int]:
    """What ``and``, ``or`` and comparisons give."""
    between = -100 < a <= b
    either = a > b or b > 7
    return a and b, a or b, max(a, b, 7) - min(a, b), not between, (a in TABLE) + (b not in (1, 2)), 2 if either else a


@compiled
def loops(a: int, b: int) -> tuple[int, int, int, int]:
    """Each kind of loop, with what leaves it early."""
    down, up, left = 0, 0, 0
    for index in range(a % 40, -1, -3):
        if index % 7 == 5:
            continue
        down = down * 3 + index & 0xFFFF
    for index in range(b % 9):
        for first, second in PAIRS:
            up += TABLE[first] * index - TABLE[second]
            if up > 50:
                break
    number = a & 0xFF
    while True:
        number = number // 2
        left += 1
        if number < LIMIT:
            break
    while left < 3:
        left += 2
    return down, up, left, TABLE[b & 3]


@compiled
def _fold(row: Int64, by: int) -> int:
    total = 0
    for each in row:
        total = total * by + each
    return total


@compiled
def returns_early(values: Int64, wanted: int) -> int:
    """Returns where a value is, from within a loop."""
    for index in range(len(values)):
        if values[index] == wanted:
            return index
    return -1


class State(NamedTuple):
    """A named tuple of arrays, as the machines have."""

    words: Words
    scale: Float32
    results: Int32


@compiled
def fields(state: State, places: tuple[Int64, Int64]) -> int:
    """Fields of words, and tuples of arrays."""
    for index in range(len(state.words)):
        cut = state.words[index] << np.uint64(places[0][index])
        state.results[index] = np.int64(cut) >> places[1][index]
    return np.int32(state.words[0] & np.uint64(0xFFFFFFFF)) + np.int8(state.results[0]) + np.uint8(state.results[1])


@compiled
def floats(value: int, scale: float) -> tuple[int, int, int]:
    """Floats of 32 and of 64 bits, each rounded when it is made."""
    single = np.float32(value) * np.float32(0.1)
    third = single / np.float32(3)
    root = math.sqrt(abs(scale)) + 1
    return int(third * np.float32(1000)), int(root * value), int(np.float32(scale) > third)


@compiled
def parts(table: Int64, small: Int8, single: Float32, flags: Bytes) -> tuple[int, int, int, int]:
    """Elements, rows, parts and room of arrays of several types."""
    rows, columns = table.shape
    room, line = np.zeros((rows, columns), np.int64), np.full(columns, 2)
    kept = np.empty(len(small), np.int32)
    kept[:] = small
    for row in range(rows):
        line[:] = table[row]
        line[-1] += 1
        room[rows - 1 - row] = line
        room[row, 0] -= small[row] * 3
    small[1:3] = small[0]
    flags[0] = 200
    single[0] += single[1]
    view = table[rows - 1]
    view[1] -= view[0]
    return _fold(room[0], 3), _fold(line, 5) + int(kept[2]), int(small[2]) + int(flags[0]), len(table)


def both(kernel: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    """What Python and the compiled kernel return, and leave in arrays."""
    copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    expected = kernel.function(*copies), copies
    found = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    assert kernel.checked(*(each.copy() if isinstance(each, np.ndarray) else each for each in arguments)) == expected[0]
    return (kernel(*found), found), expected


def agree(kernel: Callable[..., Any], *arguments: Any) -> None:
    (found, left), (expected, right) = both(kernel, *arguments)
    assert found == expected
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kernel", [numbers, logic, loops], ids=lambda kernel: kernel.__name__)
@given(SMALL, SMALL)
@settings(max_examples=60)
def test_integers_are_what_python_computes(kernel: Callable[..., Any], a: int, b: int) -> None:
    agree(kernel, a, b)


@given(st.integers(3, 6), st.integers(2, 5), st.integers(0, 1 << 30))
@settings(max_examples=20)
def test_arrays_are_what_numpy_leaves(rows: int, columns: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    agree(
        parts,
        random.integers(-99, 99, (rows, columns)),
        random.integers(-20, 20, 8).astype(np.int8),
        random.standard_normal(4).astype(np.float32),
        random.integers(0, 255, 3).astype(np.uint8),
    )


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(0, 9))
@settings(max_examples=30)
def test_a_loop_is_left_by_a_return(values: list[int], wanted: int) -> None:
    agree(returns_early, np.array(values, np.int64), wanted)


def test_fields_of_words_and_tuples_of_arrays() -> None:
    words = np.random.default_rng(3).integers(0, 1 << 62, 5).astype(np.uint64)
    up, down = np.array([3, 40, 0, 17, 60]), np.array([40, 45, 33, 50, 61])
    results = np.zeros(5, np.int32)
    found = fields(State(words, np.ones(1, np.float32), results), (up, down))
    expected = [(word << a & (1 << 64) - 1) for word, a in zip(words.tolist(), up.tolist(), strict=True)]
    signed = [(each - (1 << 64) if each >> 63 else each) >> b for each, b in zip(expected, down.tolist(), strict=True)]
    np.testing.assert_array_equal(results, np.array(signed).astype(np.int32))
    low = words[:1].view(np.int32)[0]
    assert found == int(low) + int(results[:1].astype(np.int8)[0]) + int(results[1:2].astype(np.uint8)[0])


@given(st.integers(-(1 << 20), 1 << 20), st.floats(-1e6, 1e6))
@settings(max_examples=60)
def test_floats_are_rounded_as_numpy_does(value: int, scale: float) -> None:
    agree(floats, value, np.float64(scale))


@compiled
def outside(values: Int64, index: int) -> int:
    """Reads and writes what may not be there."""
    values[index] += 1
    return values[index]


def test_an_index_outside_is_found_and_touches_nothing() -> None:
    values = np.arange(4)
    assert outside.checked(values, 3) == 4
    for index in (-1, 4, 1 << 40):
        with pytest.raises(IndexError, match=r"test_native_kernels\.py.* line \d+"):
            outside.checked(values, index)
    assert values.tolist() == [0, 1, 2, 4]


@compiled
def cut(values: Int64, begin: int, end: int) -> int:
    """Fills a part of an array."""
    values[begin:end] = 7
    return len(values[begin:end])


def test_a_slice_outside_is_found_and_touches_nothing() -> None:
    values = np.arange(4)
    assert cut.checked(values, 1, 3) == 2
    for begin, end in ((0, 5), (3, 2), (-1, 2)):
        with pytest.raises(IndexError):
            cut.checked(values, begin, end)
    assert values.tolist() == [0, 7, 7, 3]


def with_a_comprehension(count: int) -> int:
    return sum([1 for _ in range(count)])


def with_two_types(count: int) -> int:
    value = 1
    if count:
        value = np.zeros(2, np.int64)
    return value


def with_a_sign_and_without(words: Words, count: int) -> int:
    return np.int64(words[0] + count)


def without_a_result(count: int) -> int:  # noqa: RET503
    if count:
        return 1


def with_an_array(count: int) -> Int64:
    return np.zeros(count, np.int64)


def with_too_many_indices(values: Int64) -> int:
    return values[0, 0]


def calls_what_is_no_kernel(count: int) -> int:
    return with_a_comprehension(count)


def with_a_starred_target(count: int) -> int:
    first, *_ = count, 2
    return first


@pytest.mark.parametrize(
    ("function", "argument", "reason"),
    [
        (with_a_comprehension, 1, "there is no ListComp"),
        (with_two_types, 1, "value is int64, and would be"),
        (with_a_sign_and_without, None, "uint64 and int64 together: convert one"),
        (without_a_result, 1, "may end without a result"),
        (with_an_array, 1, "a kernel returns numbers"),
        (with_too_many_indices, None, "2 indices of an array of rank 1"),
        (calls_what_is_no_kernel, 1, "is no kernel"),
        (with_a_starred_target, 1, "Starred is given no value"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_what_kernels_cannot_have_is_refused_with_its_line(
    function: Callable[..., Any], argument: int | None, reason: str
) -> None:
    given = [argument]
    if argument is None:
        given = [np.zeros(2, np.uint64), 1] if function is with_a_sign_and_without else [np.zeros(2, np.int64)]
    with pytest.raises(KernelSyntaxError, match=rf"test_native_kernels\.py:\d+: .*{reason}"):
        compiled(function)(*given)


@pytest.mark.parametrize("argument", [np.zeros((4, 4), np.int64)[:, 1], "text", [1, 2]])
def test_what_kernels_do_not_take_is_refused(argument: Any) -> None:
    with pytest.raises(TypeError, match="a kernel takes"):
        outside(argument, 0)


def test_division_by_zero_stops_nobody() -> None:
    """A processor stops there, and with it the worker; Python raises, which a kernel cannot."""
    assert compiled(divided)(7, 0) == 7
    assert compiled(divided)(7, -2) == -4


def divided(a: int, b: int) -> int:
    return a // b
