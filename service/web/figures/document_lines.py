"""The lines of an accelerator's document: which belong to an instruction, to a memory, or to a JSON pointer."""

from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers.data import JsonLexer, YamlLexer

from accel.accelerator.document import Accelerator
from accel.accelerator.text.document_places import DocumentPlaces

Form = Literal["json", "yaml"]


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


def source_lines(accelerator: Accelerator, text: str, choice: Choice) -> list[SourceLine]:
    """Returns the lines of ``text``, the document in JSON or YAML, highlighted; what it says is escaped."""
    text = text.rstrip("\n")
    places = DocumentPlaces(text)
    parts = {
        f"{kind}-{item.name}": places.lines((section, str(number)))
        for section, kind, items in (
            ("memories", "memory", accelerator.memories),
            ("instructions", "instruction", accelerator.instructions),
        )
        for number, item in enumerate(items)
    }
    chosen = range(0)
    if choice.field is not None:
        chosen = places.lines(_parsed_pointer(choice.field))
    elif choice.instruction is not None:
        chosen = parts.get(f"instruction-{choice.instruction}", chosen)
    elif choice.memory is not None:
        chosen = parts.get(f"memory-{choice.memory}", chosen)
    anchors = {found.start: name for name, found in parts.items()}
    made = []
    for number, html in enumerate(_highlighted(text)):
        anchor = anchors.get(number)
        instruction = anchor.removeprefix("instruction-") if anchor and anchor.startswith("instruction-") else None
        first = bool(chosen) and number == chosen.start
        made.append(SourceLine(number + 1, html, number in chosen, first, anchor, instruction))
    return made


def _highlighted(text: str) -> list[Markup]:
    lexer = JsonLexer(stripnl=False) if text.startswith("{") else YamlLexer(stripnl=False)
    made = highlight(text, lexer, HtmlFormatter(nowrap=True))
    return [Markup(line) for line in made.rstrip("\n").split("\n")]  # noqa: S704 - Pygments escapes what it is given


def _parsed_pointer(pointer: str) -> tuple[str, ...]:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
