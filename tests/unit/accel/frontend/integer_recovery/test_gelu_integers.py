"""Constants of GELU for sums of any scale, against Python's integers, which do not wrap."""

import math

import numpy as np
import pytest

from accel.frontend.integer_recovery.gelu_integers import gelu_of_sums

_INT32 = 1 << 31


def _between(sums: list[int], qb: int, qc: int) -> tuple[list[int], int]:
    """What the store makes of sums before it scales, and the largest number on the way."""
    results, largest = [], 0
    for q in sums:
        bent = min(abs(q), -qb) + qb
        parabola = bent * bent + qc
        erf = (-parabola if q < 0 else parabola) + qc
        results.append(q * erf)
        largest = max(largest, *map(abs, (q, bent * bent, parabola, erf, q * erf)))
    return results, largest


@pytest.mark.parametrize("seed", range(30))
def test_int32_holds_what_comes_between(seed: int) -> None:
    """A bound that is looked at where the numbers are not largest, or one that refuses what fits."""
    random = np.random.default_rng(seed)
    scale, steps = float(10 ** random.uniform(-3, -0.5)), float(10 ** random.uniform(0.5, 2))
    magnitude = int(10 ** random.uniform(1, 6))
    found = gelu_of_sums(scale, magnitude, steps)
    unit = 2 / 0.2888 / scale**2
    if found is None:
        assert max(unit, 2 * unit * magnitude) > 0.99 * _INT32
        return
    sums = sorted({0, 1, -1, magnitude, -magnitude, *random.integers(-magnitude, magnitude + 1, 2000).tolist()})
    results, largest = _between(sums, found.gelu.qb, found.gelu.qc)
    assert largest < _INT32
    wanted = [q * scale / 2 * (1 + math.erf(q * scale / math.sqrt(2))) * steps for q in sums]
    stored = np.clip(np.rint(np.array(results, np.float32) * np.float32(found.scale)), -128, 127)
    error = np.abs(stored - np.clip(np.rint(wanted), -128, 127)).max()
    assert error <= found.error + 1  # between samples
    assert error <= 1 + 0.02 * steps + 0.3 * scale * steps  # with what whole constants lose


def test_a_scale_so_coarse_that_no_parabola_is_left() -> None:
    assert gelu_of_sums(2.0, 100, 10.0) is None
