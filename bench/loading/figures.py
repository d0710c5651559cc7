"""Figures as rows of a table."""

from collections.abc import Sequence
from typing import NamedTuple

MB = 1e6


class Spread(NamedTuple):
    """The median and the tails of a sample."""

    median: float
    p95: float
    p99: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    """The values below which half, 95 % and 99 % of the sample are, and the largest."""
    ordered = sorted(values)
    median, p95, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95, 0.99))
    return Spread(median, p95, p99, ordered[-1])


def heading(title: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}")


def row(name: str, *cells: str) -> None:
    print(f"{name:52}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def times(name: str, seconds: Sequence[float]) -> None:
    """A row of milliseconds: median, 95 %, 99 %, most."""
    row(name, *(f"{1e3 * value:.1f}" for value in spread(seconds)))


def within(name: str, value: float, limit: float, unit: str) -> None:
    """A row that says whether a value is within its limit."""
    row(name, f"{value:.1f} {unit}", f"< {limit:g}", "yes" if value < limit else "NO")


def at_least(name: str, value: float, limit: float, unit: str) -> None:
    """A row that says whether a value reaches its limit."""
    row(name, f"{value:.0f} {unit}", f">= {limit:g}", "yes" if value >= limit else "NO")
