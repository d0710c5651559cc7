"""Assertions on a document, each of which refuses it with the path of the field at fault."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from accel.errors import InvalidAccelerator

_SHOWN = 20
MOST_ERRORS = 50
"""The errors of one document that are told at once."""


class _Apart:
    """Collects errors of what is done within, by their place; it may be entered again, and inside of itself."""

    def __init__(self) -> None:
        self.found: dict[str | None, InvalidAccelerator] = {}

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, InvalidAccelerator):
            return False
        for each in (error, *error.others):
            self.found.setdefault(each.field, each)
        return True


class together:  # noqa: N801 - a context, as functions make them, of which a document's check enters thousands
    """Gives what makes contexts for checks that take nothing of each other for granted, so that all of them run.

    Of each place the first error counts, as a later one there comes of it as a rule; and 50 in all.

    Raises:
        InvalidAccelerator: the first error of the checks and of the body itself, with the others.
    """

    def __init__(self) -> None:
        self._apart = _Apart()

    def __enter__(self) -> Callable[[], AbstractContextManager[None]]:
        return lambda: self._apart

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        taken = self._apart.__exit__(kind, error, trace)
        if self._apart.found and (taken or error is None):
            first, *others = list(self._apart.found.values())[:MOST_ERRORS]
            first.others = tuple(others)
            raise first


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
    with together() as apart:
        for index, name in enumerate(names):
            with apart():
                again = f"there are two called {name}; each needs a name of its own"
                require(name not in names[:index], f"{path}.{index}", again)


def listed(names: Sequence[str]) -> str:
    """Returns the clause of a message that lists the names that exist, the first 20 of them."""
    if not names:
        return "there are none"
    more = "" if len(names) <= _SHOWN else ", ..."
    return f"there are {', '.join(names[:_SHOWN])}{more}"
