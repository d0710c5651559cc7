"""The options of commands that set a model's dynamic axes: ``--dim batch=4``, ``--shape x=1,3,32,32``."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

_LARGEST = 2**31 - 1
_EXTENTS = re.compile(r"[0-9]{1,10}(,[0-9]{1,10})*", re.ASCII)

Dim = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=EXTENT", help="Extent of a dynamic axis, else 1; may be repeated."),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(metavar="INPUT=EXTENT,...", help="Shape of an input with dynamic axes; may be repeated."),
]


def dims_of(given: Sequence[str] | None) -> dict[str, int]:
    """The extents of axes by name.

    Raises:
        typer.BadParameter: one is of another form, or is set twice.
    """
    found: dict[str, int] = {}
    for name, extents in _pairs(given, "--dim", "batch=4"):
        if len(extents) > 1:
            raise typer.BadParameter(f"{name} is one axis; {len(extents)} extents are given", param_hint="--dim")
        found[name] = extents[0]
    return found


def shapes_of(given: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs by name.

    Raises:
        typer.BadParameter: one is of another form, or is set twice.
    """
    return dict(_pairs(given, "--shape", "x=1,3,32,32"))


def _pairs(given: Sequence[str] | None, option: str, example: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    names: set[str] = set()
    for text in given or ():
        name, equals, value = text.rpartition("=")  # a name may have a sign of its own
        if not name or not equals or not _EXTENTS.fullmatch(value.replace(" ", "")):
            raise typer.BadParameter(f"{text!r} is not of the form {example}", param_hint=option)
        if name in names:
            raise typer.BadParameter(f"{name} is set twice", param_hint=option)
        extents = tuple(map(int, value.split(",")))
        if not all(1 <= extent <= _LARGEST for extent in extents):
            raise typer.BadParameter(f"{text}: an extent is 1 to {_LARGEST}", param_hint=option)
        names.add(name)
        yield name, extents
