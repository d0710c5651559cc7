"""A comparison shows both texts, whole where it is not folded, and every difference where it is."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.web.figures.pass_diff import Gap, InlineRow, Marks, Pair, compare, folded, inline, make_lines

TEXTS = st.lists(st.sampled_from(["a", "b", "  c", 'd = "<e>"', "", "x" * 600]), max_size=30).map("\n".join)


def plain(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def pairs_of(before: str, after: str, selected: int | None = None) -> list[Pair]:
    def marks(number: int, _line: str) -> Marks:
        return Marks(selected=number == selected)

    found = compare(before, after, make_lines(before, lambda *_: Marks()), make_lines(after, marks))
    assert found is not None
    return found


@given(TEXTS, TEXTS)
def test_what_stayed_and_went_is_the_one_text_and_what_stayed_and_came_the_other(before: str, after: str) -> None:
    rows = [row for row in inline(pairs_of(before, after)) if isinstance(row, InlineRow)]
    assert "\n".join(plain(row.line.html) for row in rows if row.kind != "new") == before
    assert "\n".join(plain(row.line.html) for row in rows if row.kind != "old") == after
    assert [row.after for row in rows if row.after] == list(range(1, after.count("\n") + 2))


@given(TEXTS, TEXTS, st.integers(1, 30))
def test_folding_leaves_out_equal_lines_alone_and_says_how_many(before: str, after: str, selected: int) -> None:
    pairs = pairs_of(before, after, selected)
    kept = folded(pairs)
    shown = [row for row in kept if isinstance(row, Pair)]
    hidden = sum(row.lines for row in kept if isinstance(row, Gap))
    assert len(shown) + hidden == len(pairs)
    assert [row for row in shown if row.kind == "changed"] == [row for row in pairs if row.kind == "changed"]
    assert all(row in shown for row in pairs if row.after is not None and row.after.selected)


def test_texts_too_long_to_compare_are_said_to_be() -> None:
    long = "\n" * 5000
    assert compare("", long, make_lines("", lambda *_: Marks()), make_lines(long, lambda *_: Marks())) is None


def test_html_in_a_text_is_text() -> None:
    hostile = 'x = "</td><script>alert(1)</script>" # <img src=x onerror=alert(1)>'
    for text in (hostile, hostile + "\n" + "x" * 500_000):
        html = make_lines(text, lambda *_: Marks())[0].html
        assert "<script" not in html
        assert "<img" not in html
        assert plain(html) == hostile


WORDS = st.lists(st.sampled_from(["for", "x", " ", "[", "16", "<b>", "&", '"s"', "é"]), min_size=1, max_size=20)


@pytest.mark.slow
@given(WORDS, WORDS)
def test_marked_words_are_those_that_the_other_line_has_not(before: list[str], after: list[str]) -> None:
    """Catches a mark that is a word too far, that changes the text, or that a tag of the highlighting is cut by."""
    old, new = "".join(before), "".join(after)
    for pair in pairs_of(old, new):
        assert pair.before is not None
        assert pair.after is not None
        html = [str(line.html) for line in (pair.before, pair.after)]
        assert [plain(each) for each in html] == [old, new]
        assert all(each.count("<mark>") == each.count("</mark>") for each in html)
        assert all("<" not in inner for each in html for inner in re.findall("<mark>(.*?)</mark>", each))
        left = [plain(re.sub("<mark>.*?</mark>", "", each)) for each in html]
        if old == new or any("<mark>" in each for each in html):
            assert left[0] == left[1]  # what is not marked is in both


def test_a_changed_number_is_marked_alone() -> None:
    (pair,) = pairs_of("for i in range(16):", "for i in range(32):")
    assert pair.before is not None
    assert pair.after is not None
    assert re.findall("<mark>(.*?)</mark>", pair.before.html) == ["16"]
    assert re.findall("<mark>(.*?)</mark>", pair.after.html) == ["32"]


def test_lines_with_little_in_common_have_no_marks() -> None:
    (pair,) = pairs_of("x = T.int32()", "for i_0 in range(4): pass  # another")
    assert pair.before is not None
    assert "<mark>" not in pair.before.html
