"""Explanations of errors in a document: the path, the value found, and the values that the schema accepts."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pydantic

from accel.accelerator.text.document_places import DocumentPlaces
from accel.accelerator.text.document_text import read_text
from accel.catalog.document_schema import Schema, accelerator_schema
from accel.errors import InvalidAccelerator, TextPlace

_ROOT = "accelerator."
_SHORT = "vta_config"  # the part of a short form that may hold its keys
_SHOWN = 200
_LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "multipleOf": "a multiple of",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
    "pattern": "of the form",
}


@dataclass(frozen=True)
class DocumentError:
    """``path`` leads to the error, ``found`` is the value there, and ``accepted`` describes the schema.

    The last two are None where the message suffices, and ``place`` where the text has none for it.
    """

    path: str
    message: str
    found: str | None = None
    accepted: str | None = None
    place: TextPlace | None = None

    @property
    def lines(self) -> list[str]:
        """The text, a line each."""
        parts = [f"{self.path}: {self.message}" if self.path else self.message]
        if self.found is not None:
            parts.append(f"found: {self.found}")
        if self.accepted:
            parts.append(f"accepted: {self.accepted}")
        return parts

    @property
    def located_lines(self) -> list[str]:
        """The text, a line each, the last of which says where it is in the file."""
        return self.lines + ([] if self.place is None else [f"line {self.place.line}, column {self.place.column}"])


def explain(error: InvalidAccelerator, text: bytes | None) -> list[DocumentError]:
    """Returns the explanations of an error and of those that were found with it, in the order of the document.

    ``text`` is the document, or None if it could not be read.
    """
    document, places = _read(text)
    first, *others = (_explain(each, document, places, has_text=text is not None) for each in (error, *error.others))
    return [first, *sorted(others, key=lambda each: each.place or ())]


def _read(text: bytes | None) -> tuple[Any, DocumentPlaces | None]:
    """Returns the document, None if a key is twice in it, and the places in it; both None if it cannot be read."""
    try:
        return (None, None) if text is None else (read_text(text), DocumentPlaces(text.decode()))
    except InvalidAccelerator as error:
        unread = text is None or error.field == _ROOT.rstrip(".")
        return None, None if unread or text is None else DocumentPlaces(text.decode())


def _explain(
    error: InvalidAccelerator, document: Any, places: DocumentPlaces | None, *, has_text: bool
) -> DocumentError:
    field = error.field or ""
    path = field.removeprefix(_ROOT)
    message = error.detail.removeprefix(f"{path}: ")
    if places is None:
        return DocumentError(path if has_text and field != "accelerator" else "", message, place=error.place)
    if not field.startswith(_ROOT):  # a key of a short form
        ways = (tuple(path.split(".")), (_SHORT, path))
        place = places.find(next((way for way in ways if way in places), (_SHORT,)))
        return DocumentError("" if field == "accelerator" else path, message, place=place)
    if document is None:  # a key that is there twice: nothing stands at one place of it
        return DocumentError(path, message, place=places.find(tuple(path.split("."))))
    steps = tuple(_steps(path, document))
    place = places.find(steps)
    if not isinstance(error.__cause__, pydantic.ValidationError):
        return DocumentError(".".join(steps), message, place=place)
    node = document
    for step in steps:
        node = _child(node, step)
    found = "nothing" if node is None else f"{node!r:.{_SHOWN}}"
    return DocumentError(".".join(steps), message, found, _accepted(list(steps), document), place)


def with_explanation(error: InvalidAccelerator, text: bytes) -> InvalidAccelerator:
    """Returns an error of the same type with :func:`explain`'s text, path and place; so are those found with it."""
    is_rooted = (error.field or "").startswith(_ROOT)
    first, *others = (
        _explained(type(error), each, None if is_rooted else error.field) for each in explain(error, text)
    )
    first.others = tuple(others)
    return first


def _explained(kind: type[InvalidAccelerator], found: DocumentError, field: str | None) -> InvalidAccelerator:
    error = kind("; ".join(found.lines), field=field or f"{_ROOT}{found.path}")
    error.place = found.place
    return error


def _steps(path: str, document: Any) -> list[str]:
    """Returns the steps of ``path``, without names of variants (``kind``)."""
    steps, node = [], document
    for step in path.split("."):
        if isinstance(node, dict) and step not in node and node.get("kind") == step:
            continue
        steps.append(step)
        node = _child(node, step)
    return steps


def _child(node: Any, step: str) -> Any:
    if isinstance(node, dict):
        return node.get(step)
    return node[int(step)] if isinstance(node, list) and step.isdigit() and int(step) < len(node) else None


@functools.cache
def _schema() -> Schema:
    """Returns the schema, cached: it takes longer to build than everything else here."""
    return accelerator_schema()


def _accepted(steps: list[str], document: Any) -> str | None:
    root = _schema()
    schemas, node = [root], document
    for step in steps:
        schemas = [inner for schema in schemas for inner in _inner(schema, step, node, root)]
        node = _child(node, step)
    parts = [text for schema in schemas if (text := _describe(schema, root))]
    return parts[0] if parts else None


def _inner(schema: Schema, step: str, node: Any, root: Schema) -> Iterator[Schema]:
    """Yields the schemas of a part; of several variants, the one that the document's ``kind`` selects."""
    for form in _forms(schema, root):
        kind = form.get("properties", {}).get("kind", {}).get("const")
        if kind is not None and isinstance(node, dict) and node.get("kind", kind) != kind:
            continue
        for condition in form.get("allOf", ()):  # what the document's family asks for
            if isinstance(node, dict) and condition["if"]["properties"]["family"]["const"] == node.get("family"):
                yield from (part for name, part in condition["then"]["properties"].items() if name == step)
        if step in form.get("properties", {}):
            yield form["properties"][step]
        elif step.isdigit() and isinstance(form.get("items"), dict):
            yield form["items"]
        elif isinstance(form.get("patternProperties"), dict):
            yield from form["patternProperties"].values()


def _forms(schema: Schema, root: Schema) -> Iterator[Schema]:
    if "$ref" in schema:
        schema = {**root["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
    yield schema
    for form in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _forms(form, root)


def _describe(schema: Schema, root: Schema) -> str:
    """Returns a description of the values that a schema accepts."""
    parts: list[str] = []
    for form in _forms(schema, root):
        if "const" in form:
            parts.append(repr(form["const"]))
        elif "enum" in form:
            parts.append(" or ".join(map(str, form["enum"])))
        elif "type" in form:
            limits = [f"{words} {form[name]}" for name, words in _LIMITS.items() if name in form]
            parts.append(", ".join([str(form["type"]), *limits]))
    found = next((form["examples"][0] for form in _forms(schema, root) if form.get("examples")), None)
    described = [form["description"] for form in _forms(schema, root) if "description" in form]
    return "; ".join(
        [
            " or ".join(dict.fromkeys(parts)),
            *described[:1],
            *([f"for example {found!r}"] if found not in (None, [], {}) else []),
        ]
    ).strip("; ")
