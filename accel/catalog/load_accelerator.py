"""Loading of accelerators, presets and the user's files, in each form that a document may have, with all checks."""

import difflib
import functools
import hashlib
import json
import typing
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pydantic

from accel.accelerator.checks.document_checks import check_compilable, check_document
from accel.accelerator.document import Accelerator
from accel.accelerator.require import MOST_ERRORS, together
from accel.accelerator.text.document_text import MAX_BYTES, check_size, read_text
from accel.errors import InvalidAccelerator
from accel.isa.family import DocumentCheck
from accel.isa.family_registry import family_of
from accel.isa.vta.document.ten_keys_json import is_config, read_config

_LONGEST = 64
Place = Sequence[str | int]


def schema_error(
    error: pydantic.ValidationError, document: Any, model: type[pydantic.BaseModel], *within: str
) -> InvalidAccelerator:
    """Returns the errors of ``model`` about ``document``, which is the part at ``within`` of the accelerator's.

    The first has the others with it. Where a missing key stands beside an unknown one, the unknown key comes first: it
    is the missing one, misspelt.
    """
    found = error.errors(include_url=False)[:MOST_ERRORS]
    if found[0]["type"] == "missing":
        beside = (other for other in found if other["loc"][:-1] == found[0]["loc"][:-1])
        unknown = next((other for other in beside if other["type"] == "extra_forbidden"), found[0])
        found = [unknown, *(other for other in found if other is not unknown)]
    first, *others = (_schema_error(each, document, model, within) for each in found)
    for other in others:
        other.__cause__ = error
    first.others = tuple(others)
    return first


def _schema_error(
    found: Any, document: Any, model: type[pydantic.BaseModel], within: Sequence[str]
) -> InvalidAccelerator:
    place = _place(found["loc"], document)
    path = ".".join(str(part)[:_LONGEST] for part in (*within, *place))
    reason = _reason(found)
    if found["type"] == "missing" and within and not document:
        reason += f"; there are no {within[-1]}, as in documents of the family explicit"
    if found["type"] == "extra_forbidden":
        reason = _unknown_key(str(place[-1]), sorted(_keys(model, found["loc"][:-1])))
    return InvalidAccelerator(f"{path}: {reason}", field=f"accelerator.{path}")


def _reason(error: Any) -> str:  # noqa: PLR0911  a case each
    """The error in the words of JSON and YAML, not of Python, with the value found."""
    context, value = error.get("ctx", {}), error["input"]
    match error["type"]:
        case "missing":
            return "the key is missing"
        case "tuple_type":
            reason = "a list is expected"
        case "dict_type" | "model_type" | "model_attributes_type":
            reason = "an object is expected"
        case "too_short":
            return f"{context['actual_length']} items; at least {context['min_length']}"
        case "too_long":
            return f"{context['actual_length']} items; at most {context['max_length']}"
        case "union_tag_invalid":
            return f"{context['tag']!r:.40} is no {context['discriminator']}; there are {context['expected_tags']}"
        case _:
            reason = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "value_error" and isinstance(value, dict):  # which says what of it is wrong
        return reason
    if isinstance(value, list | dict):
        return f"{reason}; found {'a list' if isinstance(value, list) else 'an object'}"
    return f"{reason}; found {value!r:.40}" if value is None or isinstance(value, str | int | float) else reason


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


_LATEST = 4  # documents of programs that are kept, as many programs one after the other have mostly one
_ENDINGS = (".json", ".yaml", ".yml")


@functools.cache
def _presets() -> dict[str, Traversable]:
    found = (resources.files("accel.accelerator") / "presets").iterdir()
    return {Path(entry.name).stem: entry for entry in found if entry.name.endswith(_ENDINGS)}


def preset_names() -> list[str]:
    """Returns names of the accelerators that come with Cyclops."""
    return sorted(_presets())


def load_accelerator(name: str | Path) -> Accelerator:
    """Returns a preset by its name, or the accelerator of a file by its path.

    A path ends in ``.json``, ``.yaml`` or ``.yml``.

    Raises:
        InvalidAccelerator: there is neither a preset nor a file of this name, or :func:`parse_accelerator` refuses it.
    """
    return _preset(str(name)) if name in _presets() else parse_accelerator(_text(name))


def document_digest(name: str | Path) -> str:
    """Returns the SHA-256 of the bytes of the file that :func:`load_accelerator` reads, in hexadecimal digits.

    Raises:
        InvalidAccelerator: there is neither a preset nor a file of this name, or it cannot be read.
    """
    return hashlib.sha256(_text(name)).hexdigest()


def _text(name: str | Path) -> bytes:
    """The document of a preset or of a file; of a file that is too large, one byte beyond the limit."""
    presets = _presets()
    if name in presets:
        return presets[str(name)].read_bytes()
    path = Path(name)
    if path.suffix not in _ENDINGS or not path.is_file():
        raise InvalidAccelerator(
            f"there is no accelerator {str(name)!r}; the presets are {', '.join(sorted(presets))}, and a file ends in "
            f"{', '.join(_ENDINGS)}",
            field="accelerator",
        )
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidAccelerator(f"{name} cannot be read: {error.strerror}", field="accelerator") from error


def preset_yaml(name: str) -> str | None:
    """Returns the text of a preset that is written in YAML, with its comments; None of any other accelerator."""
    found = _presets().get(name)
    return None if found is None or found.name.endswith(".json") else found.read_text(encoding="utf-8")


@functools.cache
def _preset(name: str) -> Accelerator:
    return _parsed(_text(name))  # a test checks them all: that takes five times as long


def parse_accelerator(document: bytes | object) -> Accelerator:
    """Returns the accelerator of a JSON or YAML text, or of a parsed document.

    It has one of three forms: a whole document; the ten keys of ``vta_config.json``; or ``{"vta_config": {ten keys},
    "variant": {...}}``.

    Raises:
        InvalidAccelerator: it is neither JSON nor YAML, has none of the forms, or fails a check. ``field`` is the
            key to mend, such as ``LOG_ACC_BUFF_SIZE``, or a path such as ``accelerator.memories.0.depth``.
    """
    accelerator = _parsed(document)
    if accelerator.name in _presets() and accelerator == _preset(accelerator.name):
        return _preset(accelerator.name)  # as most programs have: to check it takes ten times as long
    check_accelerator(accelerator)
    return accelerator


@functools.lru_cache(maxsize=_LATEST)
def parse_once(document: str) -> Accelerator:
    """Returns the accelerator of a JSON text; the latest ones are not checked again, and are the same objects.

    Raises:
        InvalidAccelerator: as :func:`parse_accelerator`.
    """
    return parse_accelerator(json.loads(document))


def checked_accelerator(document: bytes) -> Accelerator:
    """Returns the accelerator of a document that :func:`canonical` wrote of a checked accelerator, without a new check.

    Raises:
        InvalidAccelerator: another version of this package wrote it, and its documents have another form.
    """
    return _validate(json.loads(document))


def _parsed(document: bytes | object) -> Accelerator:
    parsed = read_text(document) if isinstance(document, bytes) else document
    if not isinstance(parsed, dict):
        raise InvalidAccelerator(
            f"an accelerator is an object in JSON or YAML; found {type(parsed).__name__}", field="accelerator"
        )
    return read_config(parsed) if is_config(parsed) else _validate(parsed)


def check_accelerator(accelerator: Accelerator) -> None:
    """Refuses a document that contradicts itself, that its family cannot execute, or for which nothing can be compiled.

    Raises:
        InvalidAccelerator: ``field`` is the path, such as ``accelerator.instructions.4.loops``.
        AcceleratorTooLarge: with every default written out it is beyond the limits.
    """
    family = family_of(accelerator)
    with together() as apart:
        with apart():
            check_document(accelerator)
        _check_parameters(accelerator, family)
    with together() as apart:
        with apart():
            family.check(accelerator)
        check_compilable(accelerator)
    check_size(canonical(accelerator))  # what is kept is read again


def _check_parameters(accelerator: Accelerator, family: DocumentCheck) -> None:
    try:
        family.parameters.model_validate(accelerator.parameters)
    except pydantic.ValidationError as error:
        raise schema_error(error, accelerator.parameters, family.parameters, "parameters") from error


def canonical(accelerator: Accelerator) -> bytes:
    """Returns the document as JSON with sorted keys and no spaces; equal accelerators have equal bytes.

    Raises:
        InvalidAccelerator: its ``source`` or ``parameters`` cannot be written as JSON: NaN, infinity, too deep.
    """
    try:
        document = accelerator.model_dump(mode="json")
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidAccelerator(f"the source cannot be kept: {error}", field="accelerator.source") from error


def accelerator_id(accelerator: Accelerator) -> str:
    """Returns the SHA-256 of the canonical document, in hexadecimal digits."""
    return hashlib.sha256(canonical(accelerator)).hexdigest()


def _validate(document: dict[str, Any]) -> Accelerator:
    try:
        return Accelerator.model_validate(document)
    except pydantic.ValidationError as error:
        raise schema_error(error, document, Accelerator) from error
    except RecursionError as error:
        raise InvalidAccelerator("the document is nested too deeply", field="accelerator") from error
