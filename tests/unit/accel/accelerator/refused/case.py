"""One wrong document: a right one with one mistake, and how it is refused."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

REMOVED = object()  # as a case's value: the place is taken away


@dataclass(frozen=True)
class Case:
    """A single mistake.

    Attributes:
        id: what the mistake is.
        base: the right document, one of ``BASES``.
        path: where the mistake is made; parts are keys, or names of the things in a list.
        value: what stands there then, a function of what stood there, or ``REMOVED``.
        field: the place that the error names, written as ``path`` is.
        reason: a regular expression of what was found and of what would be accepted.
        beyond_types: whether a schema of types and ranges could not have seen it.
    """

    id: str
    base: str
    path: str
    value: Any
    field: str
    reason: str
    beyond_types: bool = True


@dataclass(frozen=True)
class TextCase:
    """A mistake in the text of a document, before anything is parsed."""

    id: str
    base: str
    change: Callable[[str], str]
    field: str
    reason: str


def mistaken(case: Case, right: Any) -> Any:
    """``right`` with the case's mistake."""
    document = copy.deepcopy(right)
    *parents, last = case.path.split("/")
    node = document
    for part in parents:
        node = node[_key(node, part)]
    key = _key(node, last)
    if case.value is REMOVED:
        del node[key]
    elif callable(case.value):
        node[key] = case.value(copy.deepcopy(node[key]))
    else:
        node[key] = case.value
    return document


def place(path: str, document: Any) -> str:
    """The path with indices in place of names, as errors have it."""
    node, found = document, []
    for part in path.split("/") if path else []:
        key = _key(node, part)
        found.append(str(key))
        inside = key in node if isinstance(node, dict) else isinstance(node, list) and key < len(node)
        node = node[key] if inside else None
    return ".".join(["accelerator", *found])


def _key(node: Any, part: str) -> str | int:
    """The key of a part: itself in an object, the number of the thing of that name in a list."""
    if not isinstance(node, list):
        return part
    if part.isdigit():
        return int(part)
    return next(index for index, item in enumerate(node) if item.get("name") == part)
