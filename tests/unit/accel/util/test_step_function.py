"""Sums of spans over time against the same at each instant."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accel.util.step_function import StepFunction

LAST = 40
spans = st.lists(st.tuples(st.integers(0, LAST), st.integers(0, LAST), st.integers(1, 9)), max_size=8)


@given(spans, st.sets(st.integers(0, LAST + 5), min_size=2))
def test_it_is_the_sum_at_each_instant(found: list[tuple[int, int, int]], edges: set[int]) -> None:
    """Catches spans that share an instant, empty ones, and parts before the first, after the last or within one."""
    held = np.zeros(LAST + 5, np.int64)
    for begin, end, amount in (ordered := [(min(a, b), max(a, b), amount) for a, b, amount in found]):
        held[begin:end] += amount
    steps = StepFunction.of_spans(*np.array(ordered, np.int64).reshape(-1, 3).T)
    parts = sorted(edges)
    assert steps.most(np.array(parts)).tolist() == [held[begin:end].max() for begin, end in pairwise(parts)]
    assert (steps.peak, steps.total) == (held.max(), held.sum())
    assert steps.peak_at == (held.argmax() if held.any() else None)
