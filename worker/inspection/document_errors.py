"""Explanations of errors in a document: the path, the value found, and the values that the schema accepts."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pydantic

from accel.accelerator.document_text import read_text
from accel.catalog.document_schema import Schema, accelerator_schema
from accel.errors import InvalidAccelerator

_ROOT = "accelerator."
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

    The last two are None where the message suffices.
    """

    path: str
    message: str
    found: str | None = None
    accepted: str | None = None

    @property
    def lines(self) -> list[str]:
        """The text, a line each."""
        parts = [f"{self.path}: {self.message}" if self.path else self.message]
        if self.found is not None:
            parts.append(f"found: {self.found}")
        if self.accepted:
            parts.append(f"accepted: {self.accepted}")
        return parts


def explain(error: InvalidAccelerator, text: bytes | None) -> DocumentError:
    """Returns the explanation of an error; ``text`` is the document, or None if it could not be read."""
    field = error.field or ""
    path = field.removeprefix(_ROOT)
    message = error.detail.removeprefix(f"{path}: ")
    if text is None or not field.startswith(_ROOT):
        return DocumentError(path if text is not None and field != "accelerator" else "", message)
    try:
        document = read_text(text)
    except InvalidAccelerator:  # a key that is there twice: nothing stands at one place of it
        return DocumentError(path, message)
    steps = _steps(path, document)
    if not isinstance(error.__cause__, pydantic.ValidationError):
        return DocumentError(".".join(steps), message)
    node = document
    for step in steps:
        node = _child(node, step)
    found = "nothing" if node is None else f"{node!r:.{_SHOWN}}"
    return DocumentError(".".join(steps), message, found, _accepted(steps, document))


def with_explanation(error: InvalidAccelerator, text: bytes) -> InvalidAccelerator:
    """Returns an error of the same type with the text of :func:`explain` in its detail, and the path in ``field``."""
    found = explain(error, text)
    field = f"{_ROOT}{found.path}" if (error.field or "").startswith(_ROOT) else error.field
    return type(error)("; ".join(found.lines), field=field)


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
