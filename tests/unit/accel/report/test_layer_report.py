from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accel.report.layer_report import _before, _busy

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=8)


def covered(spans: list[tuple[int, int]]) -> set[int]:
    return {cycle for begin, length in spans for cycle in range(begin, begin + length)}


@given(SPANS, SPANS)
def test_the_cycles_that_both_units_are_busy_are_counted(loads: list, computes: list) -> None:
    ordered = [sorted(loads), sorted(computes)]
    joined = np.array([*ordered[0], *ordered[1]], np.int64).reshape(-1, 2)
    timing = SimpleNamespace(start=joined[:, 0], end=joined.sum(axis=1))
    loading = np.arange(len(joined)) < len(loads)
    mine, other = _busy(timing, loading), _busy(timing, ~loading)
    both = (_before(mine[1], *other) - _before(mine[0], *other)).sum()
    assert (mine[1] - mine[0]).sum() == len(covered(loads))
    assert both == len(covered(loads) & covered(computes))
