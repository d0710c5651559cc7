"""Where accelerators are found: the presets, and documents of the user's own."""

import json
from importlib import resources
from pathlib import Path

import pydantic

from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator

_LIMIT = 1 << 20  # bytes of a document


def preset_names() -> list[str]:
    """Names of the accelerators that come with Cyclops."""
    presets = resources.files("accel.accelerator") / "presets"
    return sorted(entry.name.removesuffix(".json") for entry in presets.iterdir() if entry.name.endswith(".json"))


def load_accelerator(name: str) -> Accelerator:
    """A preset by its name, or a document by the path of its file.

    Raises:
        InvalidAccelerator: there is neither, or the document does not fit the schema; ``field`` is the path in it.
    """
    if name in preset_names():
        return parse_accelerator((resources.files("accel.accelerator") / "presets" / f"{name}.json").read_bytes())
    path = Path(name)
    if path.suffix != ".json" or not path.is_file():
        raise InvalidAccelerator(
            f"there is no accelerator {name!r}; the presets are {', '.join(preset_names())}", field="accelerator"
        )
    if path.stat().st_size > _LIMIT:
        raise InvalidAccelerator(f"the document is larger than {_LIMIT} bytes", field="accelerator")
    return parse_accelerator(path.read_bytes())


def parse_accelerator(document: bytes) -> Accelerator:
    """An accelerator from its JSON document.

    Raises:
        InvalidAccelerator: not JSON, or not of the schema.
    """
    try:
        return Accelerator.model_validate(json.loads(document))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidAccelerator(f"{where}: {first['msg']}", field=f"accelerator.{where}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidAccelerator(f"the document is not JSON: {error}", field="accelerator") from error
