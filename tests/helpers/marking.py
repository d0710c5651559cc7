"""Values of parametrised tests of which a few are enough every time."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

_ALL = "all"  # the profile of `make test-all`
_SHARE = 4


def rest_slow(values: Iterable[Any], keep: int = 1) -> list[Any]:
    """The values; those after the first ``keep`` are of slow tests."""
    return [
        value if index < keep else pytest.param(*_arguments(value), marks=pytest.mark.slow)
        for index, value in enumerate(values)
    ]


def rest_all(values: Iterable[Any], keep: int = 1) -> list[Any]:
    """The values; those after the first ``keep`` are of tests that ``make test-all`` alone runs."""
    return [
        value if index < keep else pytest.param(*_arguments(value), marks=pytest.mark.all)
        for index, value in enumerate(values)
    ]


def rotated(rows: Iterable[Any], columns: Sequence[Any]) -> list[Any]:
    """Every pair of both: each row with one column, in turn, every time; the others are of ``make test-all`` alone."""
    return [
        (row, column) if at % len(columns) == index else pytest.param(row, column, marks=pytest.mark.all)
        for at, row in enumerate(rows)
        for index, column in enumerate(columns)
    ]


def _arguments(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def others_all(values: Iterable[Any], kept: Sequence[Any]) -> list[Any]:
    """The values; those that are not ``kept`` are of tests that ``make test-all`` alone runs."""
    return [value if value in kept else pytest.param(*_arguments(value), marks=pytest.mark.all) for value in values]


def pairwise(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The rows: so many every time that each pair of values of two columns comes, if it comes in any row."""
    pairs = {row: _pairs(row) for row in rows}
    missing = set[tuple[int, str, int, str]]().union(*pairs.values())
    kept: list[tuple[Any, ...]] = []
    while missing:
        kept.append(max(pairs, key=lambda row: len(missing & pairs[row])))
        missing -= pairs[kept[-1]]
    return others_all(pairs, kept)


def _pairs(row: tuple[Any, ...]) -> set[tuple[int, str, int, str]]:
    values = [(column, repr(value)) for column, value in enumerate(row)]
    return {(*one, *other) for one in values for other in values[: one[0]]}


def share(examples: int) -> int:
    """How many examples a slow property test draws: all of them in ``make test-all``, a quarter every time."""
    return examples if settings.get_current_profile_name() == _ALL else max(2, examples // _SHARE)
