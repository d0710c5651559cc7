"""Shares of a view that one copy can take, against every row, step and count that there is."""

import random

import numpy as np
import pytest

from accel.lowering.vector.tiles.program_bounds import most_at_once
from accel.region.affine_view import AffineView


def view(*levels: tuple[int, int]) -> AffineView:
    """A view of levels (extent, stride) of a line, outermost first."""
    size = 1 + sum((extent - 1) * stride for extent, stride in levels)
    extents, strides = zip(*levels, strict=True)
    return AffineView(tuple((extent,) for extent in extents), (size,), (0,), (strides,))


def largest(levels: list[tuple[int, int]]) -> float:
    """The largest share of a view that rows of one length at one step are, by trying all."""
    at = np.zeros(1, np.int64)
    for extent, stride in levels:
        at = (at[:, None] + stride * np.arange(extent)).ravel()
    there = np.zeros(int(at.max()) + 2, bool)
    there[at] = True
    size, best = len(there), 0
    runs = np.zeros(size, np.int64)  # elements from each on, without a gap
    for place in reversed(range(size - 1)):
        runs[place] = runs[place + 1] + 1 if there[place] else 0
    for step in range(1, size):
        for start in np.flatnonzero(there):
            columns = np.minimum.accumulate(np.minimum(runs[start::step], step))
            best = max(best, int((columns * np.arange(1, len(columns) + 1)).max()))
    return best / len(set(at.tolist()))


def test_no_copy_takes_more() -> None:
    """Would catch a step that takes a row from here and one from there, of blocks at any distance."""
    rng = random.Random(3)
    tighter = 0
    for _ in range(300):
        levels, span = list[tuple[int, int]](), 1
        for _ in range(rng.randint(1, 4)):
            extent, stride = rng.randint(2, 4), span + rng.choice([0, 0, 1, 2, 5, 9])
            if span + (extent - 1) * stride > 160:
                break
            levels.insert(0, (extent, stride))
            span += (extent - 1) * stride
        found = most_at_once(view(*levels))
        assert largest(levels) <= found + 1e-9, levels
        tighter += found < 1
    assert tighter > 30


@pytest.mark.parametrize(
    ("levels", "most"),
    [
        ([(2, 196), (8, 14), (8, 1)], 1 / 2),  # two blocks far from one another, of eight rows
        ([(2, 14), (8, 28), (8, 1)], 1.0),  # rows of two that lie between one another are at one step
        ([(16, 14), (8, 1)], 1.0),
        ([(4, 8), (8, 1)], 1.0),
    ],
)
def test_shares_by_hand(levels: list[tuple[int, int]], most: float) -> None:
    assert most_at_once(view(*levels)) == most
