"""Keys that are there once: else it would depend on the reader which of two values counts."""

from typing import Any

from accel.errors import InvalidAccelerator

_LONGEST = 64


class _Repeated(dict[str, Any]):
    """An object of a text that has ``key`` twice."""

    key: str


def from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of a text's keys and values, marked for :func:`require_once` if it has a key twice."""
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    seen: set[str] = set()
    marked = _Repeated(result)
    marked.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return marked


def require_once(document: Any) -> None:
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
