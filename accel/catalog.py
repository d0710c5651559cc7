"""Where accelerators are found: the presets, files of the user's own, and the forms that a document may have."""

import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pydantic

from accel.accelerator.check import check_document
from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.vta.check import check_vta
from accel.isa.vta.read_config import is_config, read_config

MAX_BYTES = 1 << 20  # of a document


def preset_names() -> list[str]:
    """Names of the accelerators that come with Cyclops."""
    presets = resources.files("accel.accelerator") / "presets"
    return sorted(entry.name.removesuffix(".json") for entry in presets.iterdir() if entry.name.endswith(".json"))


def load_accelerator(name: str | Path) -> Accelerator:
    """A preset by its name, or the accelerator of a file by its path, which ends in ``.json``.

    Raises:
        InvalidAccelerator: there is neither, or it is none; see :func:`parse_accelerator`.
    """
    if name in preset_names():
        return parse_accelerator((resources.files("accel.accelerator") / "presets" / f"{name}.json").read_bytes())
    path = Path(name)
    if path.suffix != ".json" or not path.is_file():
        raise InvalidAccelerator(
            f"there is no accelerator {str(name)!r}; the presets are {', '.join(preset_names())}, and a file ends in "
            ".json",
            field="accelerator",
        )
    with path.open("rb") as file:
        return parse_accelerator(file.read(MAX_BYTES + 1))


def parse_accelerator(document: bytes | object) -> Accelerator:
    """An accelerator from JSON, or from what JSON was parsed to.

    It has one of three forms: a whole document; the ten keys of ``vta_config.json``; or ``{"vta_config": {ten keys},
    "variant": {...}}``.

    Raises:
        InvalidAccelerator: no JSON, none of the forms, or no accelerator that can work. ``field`` is the key to mend,
            such as ``LOG_ACC_BUFF_SIZE``, or a path such as ``accelerator.memories.0.depth``.
    """
    parsed = _parse(document) if isinstance(document, bytes) else document
    if not isinstance(parsed, dict):
        raise InvalidAccelerator(
            f"an accelerator is an object in JSON; found {type(parsed).__name__}", field="accelerator"
        )
    accelerator = read_config(parsed) if is_config(parsed) else _validate(parsed)
    check_accelerator(accelerator)
    return accelerator


def check_accelerator(accelerator: Accelerator) -> None:
    """Refuse a document that contradicts itself, or that its family's compiler and simulator cannot execute.

    Raises:
        InvalidAccelerator: ``field`` is the path, such as ``accelerator.instructions.4.loops``.
    """
    check_document(accelerator)
    check_vta(accelerator)
    canonical(accelerator)


def canonical(accelerator: Accelerator) -> bytes:
    """The document as JSON with sorted keys and no spaces: equal accelerators give equal bytes.

    Raises:
        InvalidAccelerator: its ``source`` is no JSON: numbers that are none, or nested too deeply.
    """
    try:
        document = accelerator.model_dump(mode="json")
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidAccelerator(f"the source cannot be kept: {error}", field="accelerator.source") from error


def accelerator_id(accelerator: Accelerator) -> str:
    """The SHA-256 of the canonical document, in hexadecimal digits."""
    return hashlib.sha256(canonical(accelerator)).hexdigest()


def _parse(document: bytes) -> Any:
    if len(document) > MAX_BYTES:
        raise InvalidAccelerator(f"the document is larger than {MAX_BYTES} bytes", field="accelerator")
    try:
        parsed = json.loads(document, parse_constant=_refuse_constant, object_pairs_hook=_once)
        json.dumps(parsed, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise InvalidAccelerator(f"the document is not JSON: {error}", field="accelerator") from error
    return parsed


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are there once; else it would depend on the reader which of them counts."""
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidAccelerator(f"{twice[:64]}: the key is there twice", field=twice[:64])
    return result


def _validate(document: dict[str, Any]) -> Accelerator:
    try:
        return Accelerator.model_validate(document)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:64] for part in first["loc"])
        raise InvalidAccelerator(f"{where}: {first['msg']}", field=f"accelerator.{where}") from error
    except RecursionError as error:
        raise InvalidAccelerator("the document is nested too deeply", field="accelerator") from error
