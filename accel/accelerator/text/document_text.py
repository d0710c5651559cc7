"""Parsing of a document's text, JSON or YAML, into the values that JSON has.

Of YAML the part that JSON can express is read: objects with keys of text, lists, and JSON's scalars. Values are built
from the parser's events: anchors, aliases, tags and merge keys are refused, and plain text never becomes a date, a
truth value other than ``true`` and ``false``, or a number that JSON would not read.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from accel.accelerator.text.document_places import text_place
from accel.errors import AcceleratorDocumentTooLarge, InvalidAccelerator, TextPlace
from accel.util.strict_json import ObjectReader, object_from_pairs, require_unique_keys

MAX_DEPTH = 100
MAX_VALUES = 20_000  # keys and values of a document; the largest preset has 4,000
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
MakeObject = Callable[[list[tuple[str, Any]]], dict[str, Any]]
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


class TextError(ValueError):
    """The text is no document; ``at`` is the character where that shows, None where it shows at none."""

    def __init__(self, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.at = at


class TooLargeError(TextError):
    """The document has more than ``MAX_VALUES`` keys and values, or ``MAX_DEPTH`` levels."""


def read_yaml(text: str, made: MakeObject = object_from_pairs) -> Any:
    """Returns the one document of ``text``, in YAML, whose objects are ``made`` of their keys and values.

    Objects with repeated keys are marked; :func:`accel.util.strict_json.require_unique_keys` refuses them.

    Raises:
        ValueError: it is not YAML, or has an anchor, an alias, a tag, a key that is no text, or more than one document;
            the message has the line.
        TooLargeError: it has too many keys and values, or levels.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # of libyaml, where there is one
    try:
        return _document(yaml.parse(text, Loader=loader), made)
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        at = None if mark is None else mark.index
        raise TextError(_tab(error, text) or " ".join(str(error).split()), at) from error


def _tab(error: yaml.YAMLError, text: str) -> str | None:
    """The message for a line that is indented with a tab, which the parser's own message does not mention."""
    line = error.problem_mark.line if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark else len(text)
    found = text.splitlines()[line : line + 1]
    indent = found[0][: -len(found[0].lstrip())] if found and found[0].strip() else ""
    return f"line {line + 1}: a tab; indent with spaces" if "\t" in indent else None


def _document(events: Iterator[Any], made: MakeObject) -> Any:
    """The value, without recursion: ``open_`` are the lists and objects around the event, with an object's key."""
    values = 0
    root: list[Any] = []
    open_: list[list[Any]] = [root]
    for event in events:
        values += isinstance(event, yaml.NodeEvent)
        if values > MAX_VALUES:
            raise _at(event, f"more than {MAX_VALUES} keys and values", TooLargeError)
        match event:
            case yaml.AliasEvent():
                raise _at(event, "an alias; write the value out")
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                _check(event)
                if len(open_) > MAX_DEPTH:
                    raise _at(event, f"nested more than {MAX_DEPTH} deep", TooLargeError)
                open_.append([])
            case yaml.SequenceEndEvent():
                items = open_.pop()
                open_[-1].append(items)
            case yaml.MappingEndEvent():
                pairs = open_.pop()
                open_[-1].append(_object(pairs, event, made))
            case yaml.ScalarEvent():
                _check(event)
                open_[-1].append(_scalar(event.value) if event.implicit[0] else event.value)
    if len(root) != 1:
        raise ValueError(f"there is one document in a file; found {len(root)}")
    return root[0]


def _at(event: Any, message: str, error: type[TextError] = TextError) -> TextError:
    return error(f"line {event.start_mark.line + 1}: {message}", event.start_mark.index)


def _check(event: Any) -> None:
    if event.anchor is not None:
        raise _at(event, "an anchor; write each value out")
    if event.tag is not None:
        raise _at(event, f"the tag {event.tag}; no tags are taken")


def _object(items: list[Any], end: Any, made: MakeObject) -> dict[str, Any]:
    """An object from its keys and values, which alternate."""
    pairs = list(zip(items[::2], items[1::2], strict=True))
    for key, _ in pairs:
        if not isinstance(key, str):
            line, at = end.start_mark.line + 1, end.start_mark.index
            raise TextError(f"above line {line}: a key that is no text, {key!r:.40}; write it in quotes", at)
    return made(pairs)


def _scalar(text: str) -> Any:
    """A text without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    return json.loads(text) if _NUMBER.fullmatch(text) else text


MAX_BYTES = 256 << 10
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # the last may have no end: none is looked at twice
_BRACKET = re.compile(rb"[][{}]")


def read_text(document: bytes) -> Any:
    """Returns the value of a document's text: objects, lists, texts, numbers, truth values and null.

    Text that begins with a brace or a bracket is JSON, any other is YAML; both are UTF-8.

    Raises:
        AcceleratorTooLarge: it has more than ``MAX_BYTES`` bytes, ``MAX_VALUES`` keys and values, or ``MAX_DEPTH``
            levels; values beyond a limit are not built.
        InvalidAccelerator: it is not valid JSON or YAML, or has a key twice.
    """
    check_bytes(document)
    form, text = "JSON" if document.lstrip()[:1] in (b"{", b"[") else "YAML", ""
    try:
        text = document.decode()
        reader = ObjectReader()
        if form == "JSON":
            _check_json(document)
            parsed = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=reader)
        else:
            parsed = read_yaml(text, reader)
        json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()  # half of a surrogate pair is no text
    except TooLargeError as error:
        large = AcceleratorDocumentTooLarge(f"the document is too large: {error}", field="accelerator")
        large.place = _place(text, error)
        raise large from error
    except ValueError as error:
        refused = InvalidAccelerator(f"the document is not {form}: {error}", field="accelerator")
        refused.place = _place(text, error)
        raise refused from error
    if reader.repeated:
        require_unique_keys(parsed)
    return parsed


def _place(text: str, error: ValueError) -> TextPlace | None:
    """Returns where a text that cannot be read goes wrong, as far as its parser says so."""
    at = error.pos if isinstance(error, json.JSONDecodeError) else error.at if isinstance(error, TextError) else None
    if at is None:
        return None
    begin = min(at, max(len(text) - 1, 0))
    return text_place(text, begin, begin if text[begin : begin + 1].isspace() else min(begin + 1, len(text)))


def check_size(document: bytes) -> None:
    """Refuses a JSON document whose size :func:`read_text` would refuse.

    Raises:
        AcceleratorTooLarge: it has too many bytes, keys and values, or levels.
    """
    check_bytes(document)
    try:
        _check_json(document)
    except TooLargeError as error:
        raise AcceleratorDocumentTooLarge(
            f"written out, the document is too large: {error}", field="accelerator"
        ) from error


def check_bytes(document: bytes) -> None:
    """Refuses a text of more than ``MAX_BYTES`` bytes.

    Raises:
        AcceleratorTooLarge: it has more than ``MAX_BYTES``.
    """
    if len(document) > MAX_BYTES:
        raise AcceleratorDocumentTooLarge(f"the document is larger than {MAX_BYTES} bytes", field="accelerator")


def _check_json(document: bytes) -> None:
    """Count keys, values and levels in the text.

    Raises:
        TooLargeError: there are too many.
    """
    bare = _STRING.sub(b"", document)
    values = 1 + sum(bare.count(sign) for sign in (b"[", b"{", b",", b":"))
    if values > MAX_VALUES:
        raise TooLargeError(f"{values} keys and values; the limit is {MAX_VALUES}")
    depth = 0
    for bracket in _BRACKET.findall(bare):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise TooLargeError(f"nested more than {MAX_DEPTH} deep")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
