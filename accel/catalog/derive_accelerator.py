"""Deriving a document from another: a few keys of its configuration set, and everything that follows."""

import re
from collections.abc import Mapping
from typing import Any

import pydantic

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import check_accelerator, schema_error
from accel.errors import InvalidAccelerator
from accel.isa.document_changes import titled
from accel.isa.family import Derives
from accel.isa.family_registry import family_of

MOST_KEYS = 64
_NAME = 64  # characters


def derive_accelerator(accelerator: Accelerator, keys: Mapping[str, Any], name: str | None = None) -> Accelerator:
    """Returns the checked document of the accelerator's configuration with some keys set.

    Args:
        accelerator: a document that follows from a configuration of its family.
        keys: values by key of the configuration; a key within an object is ``object.key``.
        name: of the new document; None: the old one's, with what was set.

    Raises:
        InvalidAccelerator: the document follows from no configuration; a key is unknown, or its value no accelerator's.
            ``field`` is ``set.KEY`` where a key is at fault by itself.
    """
    family = family_of(accelerator)
    if not isinstance(family, Derives):
        message = (
            f"documents of the family {family.name} follow from no configuration: all that {accelerator.name} has is "
            "in its document, which can be changed itself"
        )
        raise InvalidAccelerator(message, field="accelerator")
    if not 0 < len(keys) <= MOST_KEYS:
        raise InvalidAccelerator(f"{len(keys)} keys are set; there must be 1 to {MOST_KEYS}", field="set")
    current = family.configuration(accelerator)
    said = current.model_dump(mode="json")
    for key, value in keys.items():
        _set(said, key, value)
    try:
        configuration = type(current).model_validate(said)
    except pydantic.ValidationError as error:
        raise _of_keys(schema_error(error, said, type(current), "set")) from error
    called = {"name": _derived_name(accelerator.name, keys) if name is None else name}
    derived = family.derive(accelerator, configuration)
    if derived.title == accelerator.title:  # which says nothing of what was set
        derived = titled(derived, ", ".join(f"{key} {value}" for key, value in keys.items()))
    try:
        derived = Accelerator.model_validate({**derived.model_dump(), **called})
    except pydantic.ValidationError as error:
        raise schema_error(error, called, Accelerator) from error
    check_accelerator(derived)
    return derived


def _set(said: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    at = said
    for part in path:
        inner = at.get(part)
        if inner is None and part in at:  # an object that the configuration leaves out
            inner = at[part] = {}
        if not isinstance(inner, dict):
            at[key] = value  # no key is called so: the schema says which there are
            return
        at = inner
    at[last] = value


def _of_keys(error: InvalidAccelerator) -> InvalidAccelerator:
    found = InvalidAccelerator(error.detail, field=(error.field or "").removeprefix("accelerator."))
    found.others = tuple(_of_keys(other) for other in error.others)
    return found


def _derived_name(name: str, keys: Mapping[str, Any]) -> str:
    said = "-".join(f"{key}-{value}" for key, value in keys.items())
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", f"{name}-{said}")[:_NAME].rstrip("-")
