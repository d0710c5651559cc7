"""The ten keys as JSON, alone or with a variant, to an accelerator.

Beside the ten keys of today's ``vta_config.json``, those are read that earlier originals had and that the original's
own tools print. They must agree with the ten; two of them say what a variant says now.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import pydantic

from accel.accelerator.base import Label
from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator

_LABEL: pydantic.TypeAdapter[str] = pydantic.TypeAdapter(Label)
_KEYS = tuple(VtaConfig.model_fields)
_OPTIONAL = ("HW_VER",)
_DERIVED: dict[
    str, Callable[[Mapping[str, int]], int]
] = {  # what pkg_config.py adds to the keys, and the files of 2018 had in their place
    "LOG_BLOCK_IN": lambda keys: keys["LOG_BLOCK"],
    "LOG_BLOCK_OUT": lambda keys: keys["LOG_BLOCK"],
    "LOG_OUT_WIDTH": lambda keys: keys["LOG_INP_WIDTH"],
    "LOG_OUT_BUFF_SIZE": lambda keys: keys["LOG_ACC_BUFF_SIZE"] + keys["LOG_INP_WIDTH"] - keys["LOG_ACC_WIDTH"],
}
_IGNORED = ("HW_CLK_TARGET", "ACC_DEP_DISTANCE")  # of the synthesis: ns to aim at, stages of an accumulator
_TO_VARIANT = ("HW_FREQ", "LOG_BUS_WIDTH")  # MHz; log2 of bits a beat
KNOWN_KEYS = (*_KEYS, *_DERIVED, *_IGNORED, *_TO_VARIANT)
_LARGEST = 64  # of a log2: figures stay readable


def is_config(document: object) -> bool:
    """Whether this is the ten keys, or the form that has them under ``vta_config``."""
    if not isinstance(document, Mapping) or {"family", "memories", "instructions"} & document.keys():
        return False
    return "vta_config" in document or any(str(key).upper() in KNOWN_KEYS for key in document)


def read_config(document: Mapping[str, Any]) -> Accelerator:
    """The accelerator of ``{ten keys}``, or of ``{"vta_config": {ten keys}, "variant": {...}, "name": ...}``.

    Raises:
        InvalidAccelerator: a key is unknown, missing or of the wrong type, or there can be no such accelerator;
            ``field`` is the key to mend, such as ``LOG_ACC_BUFF_SIZE`` or ``variant.bus_bytes``.
    """
    if "vta_config" not in document:
        config, implied = _read_keys(document)
        return vta_accelerator(config, Variant.model_validate(implied))
    for key in document:
        if key not in ("vta_config", "variant", "name"):
            raise _unknown(key, ("vta_config", "variant", "name"))
    keys, said = document["vta_config"], document.get("variant", {})
    for key, part in (("vta_config", keys), ("variant", said)):
        if not isinstance(part, Mapping):
            raise InvalidAccelerator(f"{key}: an object is expected; found {_shown(part)}", field=key)
    config, implied = _read_keys(keys)
    return vta_accelerator(config, _read_variant({**implied, **said}), name=_read_name(document.get("name")))


def _read_name(name: object) -> str | None:
    if name is None:
        return None
    try:
        return _LABEL.validate_python(name, strict=True)
    except pydantic.ValidationError as error:
        raise InvalidAccelerator(
            f"name: up to 64 letters, digits and any of _.+- are expected; found {_shown(name)}", field="name"
        ) from error


def _read_keys(document: Mapping[str, Any]) -> tuple[VtaConfig, dict[str, Any]]:
    """The configuration, and what its older keys say of the variant."""
    for key in document:
        if key not in KNOWN_KEYS:
            raise _unknown(key, KNOWN_KEYS)
    keys = dict(document)
    if "LOG_BLOCK" not in keys and "LOG_BLOCK_IN" in keys:
        keys["LOG_BLOCK"] = keys["LOG_BLOCK_IN"]
    for key in _KEYS:
        if key not in keys and key not in _OPTIONAL:
            raise InvalidAccelerator(f"{key}: the key is missing; the keys are {', '.join(_KEYS)}", field=key)
    for key, value in keys.items():
        _check_type(key, value)
    for key, derived in _DERIVED.items():
        if key in keys and keys[key] != derived(keys):
            raise InvalidAccelerator(f"{key}: {keys[key]}; the other keys make it {derived(keys)}", field=key)
    return VtaConfig(**{key: keys[key] for key in _KEYS if key in keys}), _implied(keys)


def _implied(keys: Mapping[str, Any]) -> dict[str, Any]:
    implied: dict[str, Any] = {}
    if "HW_FREQ" in keys:
        implied["clock_mhz"] = float(keys["HW_FREQ"])
    if "LOG_BUS_WIDTH" in keys:
        if not 5 <= (bits := keys["LOG_BUS_WIDTH"]) <= 10:
            raise InvalidAccelerator(
                f"LOG_BUS_WIDTH: {bits} is outside 5 to 10 (32 to 1024 bits)", field="LOG_BUS_WIDTH"
            )
        implied["bus_bytes"] = (1 << bits) // 8
    return implied


def _check_type(key: str, value: object) -> None:
    if key in ("TARGET", "HW_VER"):
        if not isinstance(value, str) or not 1 <= len(value) <= 64:
            raise InvalidAccelerator(f"{key}: text of 1 to 64 characters is expected; found {_shown(value)}", field=key)
    elif type(value) is not int:
        raise InvalidAccelerator(f"{key}: a whole number is expected; found {_shown(value)}", field=key)
    elif key in _TO_VARIANT and not 1 <= value <= 100_000:
        raise InvalidAccelerator(f"{key}: {value} is outside 1 to 100000", field=key)
    elif key.startswith("LOG_") and abs(value) > _LARGEST:
        raise InvalidAccelerator(f"{key}: a log2 beyond {_LARGEST} is out of all proportion", field=key)


def _shown(value: object) -> str:
    """A value of JSON and what it is, in few characters."""
    kinds = {bool: "a truth value", str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    kind = kinds.get(type(value), "null")
    text = repr(value) if isinstance(value, bool | int | float | str) else ""
    return f"{kind}{', ' if text else ''}{text if len(text) <= 40 else text[:40] + '...'}"


def _unknown(key: object, known: tuple[str, ...], prefix: str = "") -> InvalidAccelerator:
    nearest = difflib.get_close_matches(str(key).upper() if known is KNOWN_KEYS else str(key), known, n=1, cutoff=0)
    field = prefix + str(key)[:64]
    hint = f"; the nearest known is {nearest[0]}" if nearest else ""
    return InvalidAccelerator(f"{field}: the key is unknown{hint}", field=field)


def _read_variant(said: Mapping[str, Any]) -> Variant:
    for key in said:
        if key not in Variant.model_fields:
            raise _unknown(key, tuple(Variant.model_fields), "variant.")
    try:
        return Variant.model_validate(said)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(["variant", *map(str, first["loc"])])
        raise InvalidAccelerator(f"{field}: {first['msg']}; found {_shown(first['input'])}", field=field) from error
