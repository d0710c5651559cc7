"""What is wrong with a document, for its author: the place, what stands there, and what could."""

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
    """``path`` is the place in the document, ``found`` what stands there, ``accepted`` what the schema takes.

    The last two are None where the message says it all.
    """

    path: str
    message: str
    found: str | None = None
    accepted: str | None = None

    @property
    def lines(self) -> list[str]:
        """The text, a line each."""
        told = [f"{self.path}: {self.message}" if self.path else self.message]
        if self.found is not None:
            told.append(f"found: {self.found}")
        if self.accepted:
            told.append(f"accepted: {self.accepted}")
        return told


def explain(error: InvalidAccelerator, text: bytes | None) -> DocumentError:
    """An error in a document; ``text`` is the document's, or None if none was read."""
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
    """The same error with all that :func:`explain` says in its detail, and its place in ``field``."""
    refusal = explain(error, text)
    field = f"{_ROOT}{refusal.path}" if (error.field or "").startswith(_ROOT) else error.field
    return type(error)("; ".join(refusal.lines), field=field)


def _steps(path: str, document: Any) -> list[str]:
    """The places on the way to ``path``; the name of a form among several is none."""
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
    """It takes longer to make than all else here, and is the same as long as the process lives."""
    return accelerator_schema()


def _accepted(steps: list[str], document: Any) -> str | None:
    root = _schema()
    schemas, node = [root], document
    for step in steps:
        schemas = [inner for schema in schemas for inner in _inner(schema, step, node, root)]
        node = _child(node, step)
    told = [text for schema in schemas if (text := _told(schema, root))]
    return told[0] if told else None


def _inner(schema: Schema, step: str, node: Any, root: Schema) -> Iterator[Schema]:
    """The schemas of a part; of several forms the one that the part of the document names by its kind."""
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


def _told(schema: Schema, root: Schema) -> str:
    """What a schema takes, in words."""
    told: list[str] = []
    for form in _forms(schema, root):
        if "const" in form:
            told.append(repr(form["const"]))
        elif "enum" in form:
            told.append(" or ".join(map(str, form["enum"])))
        elif "type" in form:
            limits = [f"{words} {form[name]}" for name, words in _LIMITS.items() if name in form]
            told.append(", ".join([str(form["type"]), *limits]))
    found = next((form["examples"][0] for form in _forms(schema, root) if form.get("examples")), None)
    described = [form["description"] for form in _forms(schema, root) if "description" in form]
    return "; ".join(
        [
            " or ".join(dict.fromkeys(told)),
            *described[:1],
            *([f"for example {found!r}"] if found not in (None, [], {}) else []),
        ]
    ).strip("; ")
