"""Where the parts of a document stand in its text, JSON or YAML, so that an error can be shown at its line."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import yaml

from accel.errors import TextPlace

Path = tuple[str, ...]
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]|[^][{},:\s"]+', re.DOTALL)
_BLANKS = " \t\n\r\v\f"
_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"  # of the order of bytes; libyaml does not count it
_BREAK = re.compile(r"\r\n|\r|\n")


class _Event(NamedTuple):
    """What stands at the characters ``[begin, end)``: a bracket, or where YAML begins or ends one, or a scalar."""

    kind: Literal["{", "}", "[", "]", "scalar"]
    begin: int
    end: int
    text: str = ""


@dataclass
class _Open:
    """An object or list whose end is yet to come.

    Attributes:
        path: where it is.
        is_object: whether it has keys.
        has_key: whether it is itself the value of a key.
        items: how many values have come.
        key: the key whose value comes next.
    """

    path: Path
    is_object: bool
    has_key: bool
    items: int = 0
    key: _Event | None = field(default=None)


class DocumentPlaces:
    """The places of all keys and items of a text, as :func:`accel.accelerator.text.document_text.read_text` parsed it.

    Of a key that is there twice the second counts.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._ranges: dict[Path, tuple[int, int]] = {}
        self._ends: dict[Path, int] = {}  # of objects and lists
        is_json = text.lstrip(_BLANKS)[:1] in ("{", "[")  # as it was read
        self._read(_json_events(text) if is_json else _yaml_events(text))

    def find(self, path: Path) -> TextPlace | None:
        """Returns where a part stands: key and value, of an object or list the key alone; else what is around it."""
        for end in range(len(path), -1, -1):
            if (found := self._ranges.get(path[:end])) is not None:
                return text_place(self._text, *found)
        return None

    def lines(self, path: Path) -> range:
        """Returns the lines, from 0, of the innermost part on a path that is there, all that is within it included.

        Blank lines and comments behind it are not; none where the first key of the path is not there.
        """
        known = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in self._ranges), None)
        if known is None:
            return range(0)
        begin, end = self._ranges[known]
        within = self._text[begin : self._ends.get(known, end)].split("\n")
        while len(within) > 1 and (not within[-1].strip() or within[-1].lstrip().startswith("#")):
            within.pop()
        first = self._text.count("\n", 0, begin)
        return range(first, first + len(within))

    def __contains__(self, path: Path) -> bool:
        return path in self._ranges

    def _read(self, events: Iterator[_Event]) -> None:
        open_: list[_Open] = []
        for event in events:
            if event.kind in "}]":
                self._ends[open_.pop().path] = event.end
                continue
            around = open_[-1] if open_ else None
            if around is not None and around.is_object and around.key is None:
                around.key = event
                if around.items == 0 and not around.has_key:  # an item of a list is shown by the first of its keys
                    self._ranges[around.path] = self._ranges[around.path][0], event.end
                continue
            has_key = around is not None and around.is_object
            path = self._place(event, around)
            if event.kind != "scalar":
                open_.append(_Open(path, event.kind == "{", has_key))

    def _place(self, event: _Event, around: _Open | None) -> Path:
        """Notes the range of a value, and returns its path."""
        begin = event.begin
        end = begin + (len(self._text[begin : event.end].rstrip()) if event.kind == "scalar" else 1)
        path: Path = ()
        if around is not None and around.key is not None:
            path = (*around.path, around.key.text)
            begin, end = around.key.begin, end if event.kind == "scalar" else around.key.end
        elif around is not None:
            path = (*around.path, str(around.items))
        if around is not None:
            around.items, around.key = around.items + 1, None
        self._ranges[path] = begin, max(begin, end)
        return path


def text_place(text: str, begin: int, end: int) -> TextPlace:
    """Returns the place of the characters ``[begin, end)`` of a text; lines end as editors have them."""
    lines = [0, *(found.end() for found in _BREAK.finditer(text, 0, end))]
    first = max(number for number, start in enumerate(lines) if start <= begin)
    return TextPlace(first + 1, begin - lines[first] + 1, len(lines), end - lines[-1] + 1)


def _json_events(text: str) -> Iterator[_Event]:
    for found in _TOKEN.finditer(text):
        token = found[0]
        match token:
            case "{" | "}" | "[" | "]":
                yield _Event(token, *found.span())
            case _:
                yield _Event("scalar", *found.span(), json.loads(token) if token[0] == '"' else token)


def _yaml_events(text: str) -> Iterator[_Event]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    mark = int(text.startswith(_MARK) and loader is not yaml.SafeLoader)
    for event in yaml.parse(text, Loader=loader):
        begin, end = (at.index + mark if at is not None else 0 for at in (event.start_mark, event.end_mark))
        match event:
            case yaml.MappingStartEvent():
                yield _Event("{", begin, end)
            case yaml.MappingEndEvent():
                yield _Event("}", begin, end)
            case yaml.SequenceStartEvent():
                yield _Event("[", begin, end)
            case yaml.SequenceEndEvent():
                yield _Event("]", begin, end)
            case yaml.ScalarEvent():
                yield _Event("scalar", begin, end, event.value)
