"""What the schema has against a document, as a path in it and in words."""

import difflib
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import pydantic

from accel.errors import InvalidAccelerator

_LONGEST = 64
Place = Sequence[str | int]


def complaint(
    error: pydantic.ValidationError, document: Any, model: type[pydantic.BaseModel], *within: str
) -> InvalidAccelerator:
    """The first of the complaints of ``model`` about ``document``, which stands at ``within`` in the accelerator's.

    Of a key that is missing beside one that is unknown, the unknown one: it is the key, misspelt.
    """
    first, *others = error.errors(include_url=False)
    if first["type"] == "missing":
        beside = (other for other in others if other["loc"][:-1] == first["loc"][:-1])
        first = next((other for other in beside if other["type"] == "extra_forbidden"), first)
    place = _place(first["loc"], document)
    path = ".".join(str(part)[:_LONGEST] for part in (*within, *place))
    said = _said(first)
    if first["type"] == "missing" and within and not document:
        said += f"; there are no {within[-1]}, as in documents of the family explicit"
    if first["type"] == "extra_forbidden":
        said = _unknown_key(str(place[-1]), sorted(_keys(model, first["loc"][:-1])))
    return InvalidAccelerator(f"{path}: {said}", field=f"accelerator.{path}")


def _said(error: Any) -> str:
    """The complaint, in the words of JSON and YAML and not of Python, and what was found."""
    context, value = error.get("ctx", {}), error["input"]
    match error["type"]:
        case "missing":
            return "the key is missing"
        case "tuple_type":
            said = "a list is expected"
        case "dict_type" | "model_type" | "model_attributes_type":
            said = "an object is expected"
        case "too_short":
            return f"{context['actual_length']} items; at least {context['min_length']}"
        case "too_long":
            return f"{context['actual_length']} items; at most {context['max_length']}"
        case "union_tag_invalid":
            return f"{context['tag']!r:.40} is no {context['discriminator']}; there are {context['expected_tags']}"
        case _:
            said = str(error["msg"]).removeprefix("Value error, ")
    if isinstance(value, list | dict):
        return f"{said}; found {'a list' if isinstance(value, list) else 'an object'}"
    return f"{said}; found {value!r:.40}" if value is None or isinstance(value, str | int | float) else said


def _place(found: Place, document: Any) -> list[str | int]:
    """The path in the document, without the kinds that pydantic puts behind the place of a tagged object."""
    place: list[str | int] = []
    node = document
    for index, part in enumerate(found):
        tag = isinstance(node, dict) and part not in node and part == node.get("kind") and index < len(found) - 1
        if tag:
            continue
        place.append(part)
        inside = isinstance(part, int) and isinstance(node, list | tuple) and part < len(node)
        node = node[part] if inside or (isinstance(node, dict) and part in node) else None
    return place


def _unknown_key(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, 1)
    nearest = f"; the nearest is {near[0]}" if near else ""
    return f"there is no key {key[:_LONGEST]!r} here{nearest}; there are {', '.join(known) or 'none'}"


def _keys(model: type[pydantic.BaseModel], place: Place) -> set[str]:
    """The keys of the object at ``place``."""
    found = [model]
    for part in place:
        fields = [at.model_fields[str(part)] for at in found if part in at.model_fields]
        inner = [one for field in fields for one in _models(field.annotation)]
        tagged = [at for at in found if "kind" in at.model_fields and at.model_fields["kind"].default == part]
        found = inner or tagged or found
    return {key for at in found for key in at.model_fields}


def _models(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    """The models that a field may hold, in lists, objects and choices too."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models(argument)
