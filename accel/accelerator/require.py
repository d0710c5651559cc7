"""Assertions on a document, each of which refuses it with the path of the field at fault."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from accel.errors import InvalidAccelerator

_SHOWN = 20
MOST_ERRORS = 50
"""The errors of one document that are told at once."""


@contextmanager
def together() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Yields what makes contexts for checks that take nothing of each other for granted, so that all of them run.

    Of each place the first error counts, as a later one there comes of it as a rule; and 50 in all.

    Raises:
        InvalidAccelerator: the first error of the checks and of the body itself, with the others.
    """
    found: dict[str | None, InvalidAccelerator] = {}

    @contextmanager
    def apart() -> Iterator[None]:
        try:
            yield
        except InvalidAccelerator as error:
            for each in (error, *error.others):
                found.setdefault(each.field, each)

    with apart():
        yield apart
    if found:
        first, *others = list(found.values())[:MOST_ERRORS]
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
