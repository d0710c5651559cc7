"""How a document is refused."""

from collections.abc import Iterable, Sequence

from accel.errors import InvalidAccelerator

_SHOWN = 20


def require(condition: bool, path: str, message: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Refuse a document.

    Raises:
        InvalidAccelerator: ``condition`` does not hold; ``path`` is the place in the document.
    """
    if not condition:
        raise InvalidAccelerator(f"{path}: {message}", field=f"accelerator.{path}")


def require_known(name: str, known: Iterable[str], path: str, what: str) -> None:
    """Refuse a name that names nothing; ``what`` is what it should, such as ``memory``.

    Raises:
        InvalidAccelerator: ``name`` is not among ``known``.
    """
    names = list(known)
    require(name in names, path, f"there is no {what} {name}; {listed(names)}")


def require_distinct(names: Sequence[str], path: str) -> None:
    """Refuse two of one name.

    Raises:
        InvalidAccelerator: the place of the second.
    """
    seen: set[str] = set()
    for index, name in enumerate(names):
        require(name not in seen, f"{path}.{index}", f"there are two called {name}; each must be called something else")
        seen.add(name)


def listed(names: Sequence[str]) -> str:
    """What there is."""
    if not names:
        return "there are none"
    more = "" if len(names) <= _SHOWN else ", ..."
    return f"there are {', '.join(names[:_SHOWN])}{more}"
