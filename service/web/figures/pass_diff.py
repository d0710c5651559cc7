"""Two texts of a function as the rows of a table: what stayed, what went, what came, with the code highlighted."""

import difflib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers.python import PythonLexer

_CONTEXT = 3  # equal lines that are shown around a difference
_MOST_LINES = 4000  # of a text that is compared line by line: the time grows by their square
_MOST_COLOURED = 400_000  # characters of a text that is highlighted
_LONG = 500  # characters of a line that is folded


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
        for place in range(max(len(left), len(right))):
            one = left[place] if place < len(left) else None
            pairs.append(Pair("changed", one, right[place] if place < len(right) else None))
    return pairs


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
