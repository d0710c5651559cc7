"""CSV and text against a formatter that takes one row after the other."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.program.program_model import InstructionOrigin
from accel.trace.program_trace import Trace
from accel.trace.text_columns import decimal, fixed, lookup, pack, render
from accel.trace.trace_rows import row_batches
from tests.helpers.marking import share
from tests.helpers.programs.traces import Held, names, plain_csv, plain_text, random_trace


@pytest.mark.slow
@settings(max_examples=share(30), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 60))
def test_every_byte_is_as_it_should_be(seed: int, count: int) -> None:
    held = random_trace(seed, count)
    assert b"".join(Trace(held).csv()) == plain_csv(held)
    assert b"".join(Trace(held).text()) == plain_text(held)


@pytest.mark.slow
def test_pieces_meet() -> None:
    held = random_trace(1, 40_000)
    pieces = list(Trace(held).text())
    assert len(pieces) == 3
    assert b"".join(pieces) == plain_text(held)


@pytest.mark.slow
def test_long_names_make_small_pieces() -> None:
    held = random_trace(2, 50)
    long = InstructionOrigin(("n" * (1 << 22),), "f", 0, "p", "s")
    held = Held(held.names.model_copy(update={"origins": (long, held.names.origins[1])}), held.columns)
    assert max(len(rows) for rows in row_batches(held, longest=1 << 22)) <= 4
    assert b"".join(Trace(held).text()) == plain_text(held)


def test_text_without_utf_8_is_shown_with_question_marks() -> None:
    held = random_trace(3, 5)
    odd = replace(held.names.origins[0], function="\ud800")
    held = Held(held.names.model_copy(update={"origins": (odd, odd)}), held.columns | {"origin": np.zeros(5, np.int8)})
    assert b";\x20?#3" in b"".join(Trace(held).text())


@given(
    st.lists(
        st.integers(-(2**62), 2**62) | st.integers(-20, 20) | st.sampled_from([10**k for k in range(19)]), max_size=8
    ),
    st.data(),
)
def test_decimal_is_str(values: list[int], data: st.DataObject) -> None:
    where = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), np.bool_)
    numbers = np.array(values, np.int64)
    assert pack(render([decimal(numbers), b","], len(values))) == "".join(f"{v}," for v in values).encode()
    shown = "".join(f"{v if w else ''}," for v, w in zip(values, where, strict=True))
    assert pack(render([decimal(numbers, where), b","], len(values))) == shown.encode()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_decimal_takes_narrow_columns(dtype: type) -> None:
    limit = np.iinfo(dtype)
    values = [0, 1, -1, 99, 100, limit.max, max(int(limit.min), -(2**63) + 1)]
    assert pack(render([decimal(np.array(values, dtype)), b","], 7)) == "".join(f"{v}," for v in values).encode()


@given(st.lists(st.integers(0, 10**12), max_size=8))
def test_fixed_has_all_its_places(values: list[int]) -> None:
    shown = pack(render([fixed(np.array(values, np.int64), 3), b","], len(values)))
    assert shown == "".join(f"{v // 1000}.{v % 1000:03d}," for v in values).encode()


def test_lookup_of_texts_of_all_lengths() -> None:
    texts = [b"", b"a", b"\x00", "\u4e2d".encode(), b"x" * 100]
    index = np.array([4, 0, 2, 2, 3, 1], np.int8)
    assert pack(render([lookup(texts, index), b"\n"], 6)) == b"".join(texts[i] + b"\n" for i in index)
    assert lookup(texts, np.array([3, 3])) == "\u4e2d".encode()


def test_a_trace_of_nothing() -> None:
    nothing = Held(names([]), {name: np.zeros(0, np.int64) for name in names([]).columns})
    assert b"".join(Trace(nothing).text()) == b""
    assert b"".join(Trace(nothing).csv()) == plain_csv(nothing)
    assert Trace(nothing).page(0, 10) == []
