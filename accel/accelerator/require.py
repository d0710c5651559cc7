"""Assertions on a document, each of which refuses it with the path of the field at fault."""

from collections.abc import Iterable, Sequence

from accel.errors import InvalidAccelerator

_SHOWN = 20


def require(condition: bool, path: str, message: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Refuses a document unless ``condition`` holds.

    Raises:
        InvalidAccelerator: ``condition`` does not hold; ``field`` is ``accelerator.`` and ``path``.
    """
    if not condition:
        raise InvalidAccelerator(f"{path}: {message}", field=f"accelerator.{path}")


def require_known(name: str, known: Iterable[str], path: str, what: str) -> None:
    """Refuses a name that is not defined; ``what`` is the kind of thing expected, such as ``memory``.

    Raises:
        InvalidAccelerator: ``name`` is not among ``known``.
    """
    names = list(known)
    require(name in names, path, f"there is no {what} {name}; {listed(names)}")


def require_distinct(names: Sequence[str], path: str) -> None:
    """Refuses a repeated name.

    Raises:
        InvalidAccelerator: two names are equal; ``field`` is ``path`` and the number of the second.
    """
    seen: set[str] = set()
    for index, name in enumerate(names):
        require(name not in seen, f"{path}.{index}", f"there are two called {name}; each needs a name of its own")
        seen.add(name)


def listed(names: Sequence[str]) -> str:
    """Returns the clause of a message that lists the names that exist, the first 20 of them."""
    if not names:
        return "there are none"
    more = "" if len(names) <= _SHOWN else ", ..."
    return f"there are {', '.join(names[:_SHOWN])}{more}"
