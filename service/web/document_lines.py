"""The lines of an accelerator's document: which belong to an instruction, to a memory, or to a JSON pointer."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers.data import JsonLexer, YamlLexer

from accel.accelerator.document import Accelerator
from accel.accelerator.document_yaml import accelerator_yaml

Form = Literal["json", "yaml"]
_INDENT = 2
_SECTION = re.compile(r"([A-Za-z_]\w*):")


@dataclass(frozen=True)
class Choice:
    """What of a document is selected: an instruction or a memory by name, or a place by JSON pointer; or nothing."""

    instruction: str | None = None
    memory: str | None = None
    field: str | None = None


@dataclass(frozen=True)
class SourceLine:
    """A line as it is shown: its number from 1, and the instruction or memory that begins here."""

    number: int
    html: Markup
    chosen: bool
    first: bool
    anchor: str | None
    instruction: str | None


def source_lines(accelerator: Accelerator, form: Form, choice: Choice) -> list[SourceLine]:
    """Returns the lines of the document, highlighted; texts in it are escaped.

    Lines never hold a part of a text that has a line break: JSON and YAML of ours write it as an escape.
    """
    text = accelerator.model_dump_json(indent=_INDENT) if form == "json" else accelerator_yaml(accelerator)
    lines = text.rstrip("\n").split("\n")
    parts = {
        f"{kind}-{item.name}": found
        for section, kind, items in (
            ("memories", "memory", accelerator.memories),
            ("instructions", "instruction", accelerator.instructions),
        )
        for item, found in zip(items, _items_of(lines, form, section), strict=False)
    }
    chosen = range(0)
    if choice.field is not None:
        chosen = _lines_of(lines, form, _parsed_pointer(choice.field))
    elif choice.instruction is not None:
        chosen = parts.get(f"instruction-{choice.instruction}", chosen)
    elif choice.memory is not None:
        chosen = parts.get(f"memory-{choice.memory}", chosen)
    anchors = {found.start: name for name, found in parts.items() if found}
    made = []
    for number, html in enumerate(_highlighted("\n".join(lines), form)):
        anchor = anchors.get(number)
        instruction = anchor.removeprefix("instruction-") if anchor and anchor.startswith("instruction-") else None
        first = bool(chosen) and number == chosen.start
        made.append(SourceLine(number + 1, html, number in chosen, first, anchor, instruction))
    return made


def _highlighted(text: str, form: Form) -> list[Markup]:
    lexer = JsonLexer(stripnl=False) if form == "json" else YamlLexer(stripnl=False)
    made = highlight(text, lexer, HtmlFormatter(nowrap=True))
    return [Markup(line) for line in made.rstrip("\n").split("\n")]  # noqa: S704 - Pygments escapes what it is given


def _parsed_pointer(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _items_of(lines: Sequence[str], form: Form, section: str) -> list[range]:
    """The lines of each item of a list at the top of the document."""
    if form == "yaml":
        return list(_begun(lines, _lines_of(lines, form, [section]), lambda line: line.startswith("- ")))
    within = _lines_of(lines, form, [section])
    return list(_begun(lines, within[:-1], lambda line: _begins(line, 2 * _INDENT)))


def _lines_of(lines: Sequence[str], form: Form, path: Sequence[str]) -> range:
    """The lines of the innermost part on a path that has lines of its own; none where not even its section is there."""
    if not path:
        return range(0)
    if form == "yaml":
        return _yaml_lines(lines, path)
    found, indent = range(len(lines)), 0
    for part in path:
        inner = _child(lines, found, indent + _INDENT, part)
        if inner is None:
            return found if indent else range(0)
        found, indent = inner, indent + _INDENT
    return found


def _child(lines: Sequence[str], within: range, indent: int, part: str) -> range | None:
    """The lines of a key, or of the item of a list, of the JSON object or list that has these lines."""
    key, item = f"{' ' * indent}{json.dumps(part, ensure_ascii=False)}: ", int(part) if part.isdecimal() else None
    listed = lines[within.start].rstrip().endswith("[")
    starts = [number for number in within[1:] if _begins(lines[number], indent)]
    if listed:
        start = starts[item] if item is not None and item < len(starts) else None
    else:
        start = next((number for number in starts if lines[number].startswith(key)), None)
    if start is None:
        return None
    ends = (number for number in within if number > start and _indent_of(lines[number]) <= indent)
    end = next(ends, within.stop)
    closes = end < within.stop and lines[end].lstrip()[:1] in {"}", "]"} and _indent_of(lines[end]) == indent
    return range(start, end + 1 if closes else end)


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _begins(line: str, indent: int) -> bool:
    return _indent_of(line) == indent and line[indent : indent + 1] not in {"}", "]"}


def _yaml_lines(lines: Sequence[str], path: Sequence[str]) -> range:
    """Sections begin in the first column, and their items with a dash there: what is within is indented."""
    sections = list(_begun(lines, range(len(lines)), _SECTION.match))
    of = next((found for found in sections if lines[found.start].startswith(f"{path[0]}:")), range(0))
    if len(path) > 1 and path[1].isdecimal():
        items = list(_begun(lines, of, lambda line: line.startswith("- ")))
        return items[int(path[1])] if int(path[1]) < len(items) else of
    return of


def _begun(lines: Sequence[str], within: range, begins: Callable[[str], object]) -> Iterator[range]:
    starts = [number for number in within if begins(lines[number])]
    for start, end in zip(starts, [*starts[1:], within.stop], strict=True):
        yield range(start, end)
