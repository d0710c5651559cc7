"""Two texts of a function as the rows of a table: what stayed, what went, what came, with the code highlighted."""

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers.python import PythonLexer

_CONTEXT = 3  # equal lines that are shown around a difference
_MOST_LINES = 4000  # of a text that is compared line by line: the time grows by their square
_MOST_COLOURED = 400_000  # characters of a text that is highlighted
_LONG = 500  # characters of a line that is folded
_ALIKE = 0.5  # of two lines whose words are compared
_MOST_MARKED = 200  # pairs of lines whose words are compared
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_PIECES = re.compile(r"<[^>]*>|&[^;]+;|[^<&]", re.DOTALL)
Span = tuple[int, int]  # characters of a line, [begin, end)


@dataclass(frozen=True)
class Note:
    """What a line has to do with another one: a word, and where that is."""

    text: str
    href: str
    kind: Literal["nest", "site", "instructions"]


@dataclass(frozen=True)
class Line:
    """A line of a text, counted from 1; ``long`` ones are folded behind the ``head`` of their text."""

    number: int
    html: Markup
    head: str
    long: bool
    notes: Sequence[Note]
    anchor: str | None
    selected: bool


@dataclass(frozen=True)
class Pair:
    """A line of the text before, and the one after that stands beside it."""

    kind: Literal["same", "changed"]
    before: Line | None
    after: Line | None


@dataclass(frozen=True)
class Gap:
    """Equal lines that are not shown."""

    lines: int


@dataclass(frozen=True)
class Marks:
    """What a page knows of a line: its notes, the name by which links find it, and whether it is selected."""

    notes: Sequence[Note] = ()
    anchor: str | None = None
    selected: bool = False


Marker = Callable[[int, str], Marks]


def make_lines(text: str, marks: Marker) -> list[Line]:
    """Returns a text's lines; ``marks`` says of each (number, text) what is known."""
    lines = text.split("\n")
    return [
        Line(number, html, line.strip()[:60], len(line) > _LONG, found.notes, found.anchor, found.selected)
        for number, (line, html) in enumerate(zip(lines, _coloured(text, len(lines)), strict=True), 1)
        for found in [marks(number, line)]
    ]


def _coloured(text: str, count: int) -> list[Markup]:
    """The lines as HTML."""
    if len(text) <= _MOST_COLOURED:
        found = highlight(text, PythonLexer(stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True)).split("\n")
        found = found[:count] if len(found) > count and not any(found[count:]) else found
        if len(found) == count:
            return [Markup(line) for line in found]  # noqa: S704  Pygments escapes what it colours
    return [escape(line) for line in text.split("\n")]


def compare(before: str, after: str, of_before: Sequence[Line], of_after: Sequence[Line]) -> list[Pair] | None:
    """Returns the lines of two texts side by side; None for texts too long to be compared."""
    old, new = before.split("\n"), after.split("\n")
    if max(len(old), len(new)) > _MOST_LINES:
        return None
    pairs: list[Pair] = []
    for tag, begin, end, begin_after, end_after in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        left, right = of_before[begin:end], of_after[begin_after:end_after]
        if tag == "equal":
            pairs += [Pair("same", one, other) for one, other in zip(left, right, strict=True)]
            continue
        pairs += [Pair("changed", one, other) for one, other in zip_longest(left, right)]
    return list(_with_words(pairs, old, new))


def _with_words(pairs: Sequence[Pair], old: Sequence[str], new: Sequence[str]) -> Iterator[Pair]:
    """Yields the pairs, with the words that differ marked in the first of those that have a line on both sides."""
    room = _MOST_MARKED
    for pair in pairs:
        one, other = pair.before, pair.after
        if pair.kind == "changed" and one is not None and other is not None and room:
            room -= 1
            spans, of_other = word_changes(old[one.number - 1], new[other.number - 1])
            one, other = replace(one, html=marked(one.html, spans)), replace(other, html=marked(other.html, of_other))
        yield Pair(pair.kind, one, other)


def word_changes(before: str, after: str) -> tuple[list[Span], list[Span]]:
    """Returns which characters of each line the other has not, by whole words; none of lines with little in common."""
    found: tuple[list[Span], list[Span]] = [], []
    if max(len(before), len(after)) > _LONG:
        return found
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = difflib.SequenceMatcher(None, old, new, False)
    if matcher.ratio() < _ALIKE:
        return found
    for tag, begin, end, begin_after, end_after in matcher.get_opcodes():
        for spans, words, first, last in ((found[0], old, begin, end), (found[1], new, begin_after, end_after)):
            if tag != "equal" and last > first:
                at = len("".join(words[:first]))
                spans.append((at, at + len("".join(words[first:last]))))
    return found


def marked(html: Markup, spans: Sequence[Span]) -> Markup:
    """Returns a highlighted line with ``mark`` around spans of its text; a mark ends at each tag, and begins anew."""
    parts, at, inside = [], 0, False
    for piece in _PIECES.findall(html):
        wanted = not piece.startswith("<") and any(begin <= at < end for begin, end in spans)
        if wanted != inside:
            parts.append("<mark>" if wanted else "</mark>")
            inside = wanted
        parts.append(piece)
        at += not piece.startswith("<")
    return Markup("".join([*parts, "</mark>" if inside else ""]))  # noqa: S704  the pieces are those of escaped text


def folded(pairs: Sequence[Pair]) -> list[Pair | Gap]:
    """Returns the differences, what is selected, and a few lines around them; gaps for the rest."""
    kept = [
        pair.kind == "changed" or any(line is not None and line.selected for line in (pair.before, pair.after))
        for pair in pairs
    ]
    shown: set[int] = set()
    for place, keep in enumerate(kept):
        if keep:
            shown.update(range(place - _CONTEXT, place + _CONTEXT + 1))
    return list(_with_gaps(pairs, shown))


def _with_gaps(pairs: Sequence[Pair], shown: Collection[int]) -> Iterator[Pair | Gap]:
    hidden = 0
    for place, pair in enumerate(pairs):
        if place not in shown:
            hidden += 1
            continue
        if hidden:
            yield Gap(hidden)
            hidden = 0
        yield pair
    if hidden:
        yield Gap(hidden)


@dataclass(frozen=True)
class InlineRow:
    """A line of a diff in one column."""

    kind: Literal["same", "old", "new"]
    line: Line
    before: int | None
    after: int | None


def inline(rows: Sequence[Pair | Gap]) -> Iterator[InlineRow | Gap]:
    """Yields the same in one column: of a run of changes first what went, then what came."""
    came: list[InlineRow] = []
    for row in rows:
        if isinstance(row, Pair) and row.kind == "changed":
            if row.before is not None:
                yield InlineRow("old", row.before, row.before.number, None)
            if row.after is not None:
                came.append(InlineRow("new", row.after, None, row.after.number))
            continue
        yield from came
        came = []
        if isinstance(row, Gap):
            yield row
        elif row.before is not None and row.after is not None:
            yield InlineRow("same", row.after, row.before.number, row.after.number)
    yield from came
