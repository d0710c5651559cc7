"""The text of a document, JSON or YAML, to what JSON would be parsed to."""

import json
import re
from typing import Any

from accel.accelerator.once import from_pairs, require_once
from accel.accelerator.read_yaml import MAX_DEPTH, MAX_VALUES, TooLargeError, read_yaml
from accel.errors import AcceleratorTooLarge, InvalidAccelerator

MAX_BYTES = 256 << 10
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # the last may have no end: none is looked at twice
_BRACKET = re.compile(rb"[][{}]")


def read_text(document: bytes) -> Any:
    """What a document's text stands for: objects, lists, texts, numbers, truth values and null, and nothing else.

    Text that begins with a brace or a bracket is JSON, any other is YAML; both are UTF-8.

    Raises:
        AcceleratorTooLarge: it has more than ``MAX_BYTES`` bytes, ``MAX_VALUES`` keys and values, or ``MAX_DEPTH``
            levels, which is found before anything is made of them.
        InvalidAccelerator: it is not what it begins as, or has a key twice.
    """
    check_bytes(document)
    form = "JSON" if document.lstrip()[:1] in (b"{", b"[") else "YAML"
    try:
        text = document.decode()
        if form == "JSON":
            _check_json(document)
            parsed = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=from_pairs)
        else:
            parsed = read_yaml(text)
        json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()  # half of a surrogate pair is no text
    except TooLargeError as error:
        raise AcceleratorTooLarge(f"the document is too large: {error}", field="accelerator") from error
    except ValueError as error:
        raise InvalidAccelerator(f"the document is not {form}: {error}", field="accelerator") from error
    require_once(parsed)
    return parsed


def check_size(document: bytes) -> None:
    """Refuse a document in JSON that :func:`read_text` would refuse for its size.

    Raises:
        AcceleratorTooLarge: it has too many bytes, keys and values, or levels.
    """
    check_bytes(document)
    try:
        _check_json(document)
    except TooLargeError as error:
        raise AcceleratorTooLarge(f"written out, the document is too large: {error}", field="accelerator") from error


def check_bytes(document: bytes) -> None:
    """Refuse a text of too many bytes.

    Raises:
        AcceleratorTooLarge: it has more than ``MAX_BYTES``.
    """
    if len(document) > MAX_BYTES:
        raise AcceleratorTooLarge(f"the document is larger than {MAX_BYTES} bytes", field="accelerator")


def _check_json(document: bytes) -> None:
    """Count keys, values and levels in the text.

    Raises:
        TooLargeError: there are too many.
    """
    bare = _STRING.sub(b"", document)
    values = 1 + sum(bare.count(sign) for sign in (b"[", b"{", b",", b":"))
    if values > MAX_VALUES:
        raise TooLargeError(f"{values} keys and values; the limit is {MAX_VALUES}")
    depth = 0
    for bracket in _BRACKET.findall(bare):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise TooLargeError(f"nested more than {MAX_DEPTH} deep")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
