"""JSON that strangers wrote: bounded before it is parsed, and strict."""

import json
import re
from typing import Any

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
