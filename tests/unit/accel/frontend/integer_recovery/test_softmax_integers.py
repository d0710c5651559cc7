"""Constants of softmax for any scale and row, against Python's integers, which do not wrap."""

import math

import numpy as np
import pytest

from accel.frontend.integer_recovery.softmax_integers import octaves_of, softmax_of_integers
from accel.region.row_softmax import IntegerSoftmax

_INT32 = 1 << 31


def _exponential(below: int, softmax: IntegerSoftmax) -> tuple[int, int, int]:
    """exp of so much below 0, the largest number on the way, and how often it is halved."""
    halvings = below * softmax.inverse >> 16
    root = halvings * softmax.ln2 - below + softmax.b
    parabola = root * root + softmax.c
    return parabola >> halvings, max(below * softmax.inverse, root * root, parabola), halvings


@pytest.mark.parametrize("seed", range(40))
def test_int32_holds_what_comes_between(seed: int) -> None:
    """A number that wraps, or is halved as often as it has bits; constants that are coarser than they need be."""
    random = np.random.default_rng(seed)
    scale, columns, octaves = float(10 ** random.uniform(-4, -1)), int(random.integers(2, 3000)), seed % 6
    found = softmax_of_integers(scale, columns, octaves)
    if isinstance(found, str):
        beyond = scale * 255 / math.log(2) + octaves > 31 or 2.79 / scale**2 * columns > 0.98 * _INT32
        assert beyond, found
        return
    assert 0 < found.weight < 128
    for difference in range(256):
        stored, largest, _ = _exponential(difference * found.weight, found)
        summed, other, halvings = _exponential(difference * found.weight - found.offset, found)
        assert max(largest, other) < _INT32
        assert halvings < 32
        assert columns * summed < _INT32
        assert abs(stored / (found.b**2 + found.c) - math.exp(-difference * scale)) < 0.02
        assert abs(summed * 2**octaves - stored) <= max(0.02 * stored, 2 ** (octaves + 1))


@pytest.mark.parametrize("octaves", range(8))
def test_units_of_results(octaves: int) -> None:
    """A 128th, which is what most quantisers take a 127th for, and what lies between two powers of two."""
    for unit in (127, 128):
        assert octaves_of(1 / unit / 2**octaves, 0) == octaves
    assert "its result is" in str(octaves_of(1 / 124 / 2**octaves, 0))
    assert "zero point" in str(octaves_of(1 / 127 / 2**octaves, -128))
