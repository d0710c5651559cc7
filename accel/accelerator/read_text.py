"""The text of a document, JSON or YAML, to what JSON would be parsed to."""

import json
from typing import Any

from accel.accelerator.once import from_pairs, require_once
from accel.accelerator.read_yaml import NestedError, read_yaml
from accel.errors import AcceleratorTooLarge, InvalidAccelerator

MAX_BYTES = 1 << 20


def read_text(document: bytes) -> Any:
    """What a document's text stands for: objects, lists, texts, numbers, truth values and null, and nothing else.

    Text that begins with a brace or a bracket is JSON, any other is YAML.

    Raises:
        AcceleratorTooLarge: it is larger than ``MAX_BYTES``, or nested too deeply.
        InvalidAccelerator: it is not what it begins as, or has a key twice.
    """
    if len(document) > MAX_BYTES:
        raise AcceleratorTooLarge(f"the document is larger than {MAX_BYTES} bytes", field="accelerator")
    form = "JSON" if document.lstrip()[:1] in (b"{", b"[") else "YAML"
    try:
        if form == "JSON":
            parsed = json.loads(document, parse_constant=_refuse_constant, object_pairs_hook=from_pairs)
        else:
            parsed = read_yaml(document.decode())
        json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()  # half of a surrogate pair is no text
    except (NestedError, RecursionError) as error:
        raise AcceleratorTooLarge(f"the document is not {form}: {error}", field="accelerator") from error
    except ValueError as error:
        raise InvalidAccelerator(f"the document is not {form}: {error}", field="accelerator") from error
    require_once(parsed)
    return parsed


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
