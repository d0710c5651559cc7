"""Parsing of untrusted JSON: bounded before it is parsed, and refused where an object has a key twice.

Otherwise it would depend on the reader which of the two values counts.
"""

import json
import re
from typing import Any

from accel.errors import InvalidAccelerator

_OPENING = (b"[", b"{", b",")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(data: bytes, *, most_bytes: int, most_values: int) -> Any:
    """Returns the value of the JSON text ``data``.

    Args:
        data: UTF-8.
        most_bytes: the limit of its length.
        most_values: the limit of the values in it, which take far more memory than their text; the brackets and
            commas are counted, those inside strings too.

    Raises:
        ValueError: it is beyond a limit, nested too deeply, or not JSON, or it has a repeated key, NaN, Infinity, or
            text that UTF-8 cannot encode.
    """
    if len(data) > most_bytes:
        raise ValueError(f"it has {len(data)} bytes; the limit is {most_bytes}")
    values = sum(data.count(sign) for sign in _OPENING)
    if values > most_values:
        raise ValueError(f"it has about {values} values; the limit is {most_values}")
    try:
        value = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_constant)
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode()
        return value  # noqa: TRY300
    except UnicodeEncodeError as error:
        raise ValueError("it has half of a surrogate pair, which is no text") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} comes twice in an object")
    return result


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


_LONGEST = 64


class _Repeated(dict[str, Any]):
    """An object whose text has ``key`` twice."""

    key: str


class ObjectReader:
    """Makes the objects of a text as :func:`object_from_pairs` does, and knows whether there are ``repeated`` keys."""

    def __init__(self) -> None:
        self.repeated = False

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Returns the object of these keys and values."""
        found = object_from_pairs(pairs)
        self.repeated |= isinstance(found, _Repeated)
        return found


def object_from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object of a text's keys and values, marked for :func:`require_unique_keys` if a key is repeated."""
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    seen: set[str] = set()
    marked = _Repeated(result)
    marked.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return marked


def require_unique_keys(document: Any) -> None:
    """Refuses a document with a repeated key; its objects were made by :func:`object_from_pairs`.

    Raises:
        InvalidAccelerator: a key is repeated; ``field`` is its path.
    """
    if (path := repeated_key(document)) is not None:
        raise InvalidAccelerator(f"{path}: the key is there twice", field=f"accelerator.{path}")


def repeated_key(document: Any) -> str | None:
    """Returns the path of a repeated key; None if there is none. Objects were made by :func:`object_from_pairs`."""
    left: list[tuple[str, Any]] = [("", document)]
    while left:
        at, value = left.pop()
        if isinstance(value, _Repeated):
            return at + value.key[:_LONGEST]
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        left += [(f"{at}{key!s:.64}.", item) for key, item in items]
    return None
