"""Sorts, cursors and searches of lists, against a plain model of them."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.records.listing.list_order import CursorError, Position, Sort, has_words, search_words

Item = tuple[int | str | None, str]
IDS = st.text("0123456789abcdef", min_size=4, max_size=4)
NUMBERS: Any = st.lists(st.tuples(st.none() | st.integers(0, 3), IDS), unique_by=lambda item: item[1])
TEXTS: Any = st.lists(st.tuples(st.none() | st.text(min_size=1), IDS), unique_by=lambda item: item[1])


def sort_of(name: str, *, numeric: bool, ids_descend: bool = True) -> Sort[Item]:
    return Sort(name, lambda item: item[0], lambda item: item[1], numeric, ids_descend)


def modelled(items: list[Item], *, descending: bool, ids_descend: bool) -> list[Item]:
    """One comparison after the other: by key, without a key last, then by id."""
    by_id = sorted(items, key=lambda item: item[1], reverse=ids_descend)
    keys = sorted({item[0] for item in items if item[0] is not None}, reverse=descending)  # type: ignore[type-var]
    return [item for key in [*keys, None] for item in by_id if item[0] == key]


@pytest.mark.parametrize("name", ["x", "-x"])
@given(data=st.data(), numeric=st.booleans(), ids_descend=st.booleans(), limit=st.integers(1, 4))
def test_pages_are_the_sorted_list_cut(name: str, data: Any, numeric: bool, ids_descend: bool, limit: int) -> None:
    items = data.draw(NUMBERS if numeric else TEXTS)
    sort = sort_of(name, numeric=numeric, ids_descend=ids_descend)
    seen: list[Item] = []
    after = None
    while True:
        page = sort.following(items, after)[:limit]
        if not page:
            break
        seen += page
        after = sort.decode(sort.encode(sort.position(page[-1])))
        items = items[::-1]  # in whatever order they come
    assert seen == modelled(items, descending=name == "-x", ids_descend=ids_descend)


@pytest.mark.parametrize(
    "cursor",
    ["0" * 32, "", "~", "x~", "y~1~0", "-x~1~0", "x~tYQ~0", "x~t~0", "x~1.5~0", "x~a~0"],
)
def test_cursors_of_other_lists_are_refused(cursor: str) -> None:
    with pytest.raises(CursorError):
        sort_of("x", numeric=True).decode(cursor)


@pytest.mark.parametrize("cursor", ["t1~1~0", "x~1~0", "x~tw~0", "x~t_w~0"])
def test_cursors_of_texts_that_are_none_are_refused(cursor: str) -> None:
    with pytest.raises(CursorError):
        sort_of("x", numeric=False).decode(cursor)


def test_a_plain_cursor_is_of_its_own_list_alone() -> None:
    plain = Sort[Item]("-x", lambda _: None, lambda item: item[1], plain=lambda cursor: Position(None, cursor))
    assert plain.decode(plain.encode(Position(None, "ab"))) == Position(None, "ab")
    with pytest.raises(CursorError, match="sort=x"):
        plain.decode("x~1~0")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True),
        ("  \n", True),
        ("BUS", True),
        ("wide bus", True),
        ("bus narrow", False),
        ("twicewide", False),  # the end of one text and the begin of another are no word
        ("straße", True),
        ("STRASSE", True),
        ("ﬁne", True),
        (".*", False),
        ("%", False),
        ("[", True),
        ("12345678", True),
        ("1234567", False),
        ("2345678", False),
    ],
)
def test_what_a_search_finds(text: str, found: bool) -> None:
    texts = ("The bus, twice", None, "wide [", "Straße fine")
    assert has_words(search_words(text), texts, ("123456789", None)) == found


def test_no_text_makes_a_search_slow() -> None:
    """What a pattern, or a normal form of Unicode, takes long for is looked for letter by letter."""
    for text, query in (
        ("a" * 500, "a" * 199 + "b"),
        ("ab" * 250, " ".join(["ab" * 9 + "a"] * 9)),
        ("\ufdfa" * 500, "\ufdfa" * 200),
        ("a" + "\u0300\u0323" * 250, "\u0323" * 199 + "b"),
    ):
        began = time.perf_counter()
        for _ in range(100):
            has_words(search_words(query), (text, text))
        assert time.perf_counter() - began < 0.2
