"""JSON from strangers: bounded before it is parsed, and refused where a key stands twice.

Which of two values counts would otherwise depend on the reader.
"""

import json
import re
from typing import Any

from accel.errors import InvalidAccelerator

_OPENING = (b"[", b"{", b",")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(data: bytes, *, most_bytes: int, most_values: int) -> Any:
    """The value of ``data``.

    Args:
        data: UTF-8.
        most_bytes: the limit of its length.
        most_values: the limit of the values in it, which take far more memory than their text; the brackets and
            commas are counted, those inside strings too.

    Raises:
        ValueError: beyond a limit, nested too deeply, not JSON, a key that comes twice, NaN or Infinity, or text that
            UTF-8 cannot say.
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
    """An object of a text that has ``key`` twice."""

    key: str


def object_from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of a text's keys and values, marked for :func:`require_once` if it has a key twice."""
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    seen: set[str] = set()
    marked = _Repeated(result)
    marked.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return marked


def require_unique_keys(document: Any) -> None:
    """Refuse a document whose objects were made by :func:`from_pairs` if one has a key twice.

    Raises:
        InvalidAccelerator: ``field`` is the path of the key.
    """
    if (path := repeated_key(document)) is not None:
        raise InvalidAccelerator(f"{path}: the key is there twice", field=f"accelerator.{path}")


def repeated_key(document: Any) -> str | None:
    """The path of a key that is there twice in a document whose objects were made by :func:`from_pairs`, if one is."""
    left: list[tuple[str, Any]] = [("", document)]
    while left:
        at, value = left.pop()
        if isinstance(value, _Repeated):
            return at + value.key[:_LONGEST]
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        left += [(f"{at}{key!s:.64}.", item) for key, item in items]
    return None
