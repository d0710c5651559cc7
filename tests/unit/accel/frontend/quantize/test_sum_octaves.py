"""Octaves of sums are those of a search that counts everything for each choice, and take work in proportion to them."""

import itertools
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.frontend.quantize import sum_octaves
from accel.frontend.quantize.sum_octaves import choose_octaves

DENSITY = 2
OCTAVES = 3
Shares = dict[str, dict[int, float]]
Sums = list[tuple[str, ...]]


def shares_of(names: Sequence[str], seed: int, density: int = DENSITY) -> Shares:
    """Errors of one scale more in the first fraction than in others."""
    random = np.random.default_rng(seed)
    tops = {name: density * int(random.integers(-1, 2)) for name in names}
    below = range(OCTAVES * density + 1)
    return {name: {top - each: float(random.random()) for each in below} for name, top in tops.items()}


def searched(shares: Shares, sums: Sums, part: int) -> tuple[dict[str, int], float]:
    """The octaves of one fraction, each sum's given all others', with every sum's shifts counted for every choice."""

    def best(errors: Mapping[int, float]) -> int:
        return min((index for index in errors if index % DENSITY == part), key=errors.__getitem__)

    indices = {name: best(errors) for name, errors in shares.items()}
    weights = [0.5 * sum(shares[name][indices[name]] for name in names) for names in sums]

    def shifts(found: Mapping[str, int]) -> float:
        total = 0.0
        for weight, (*operands, result) in zip(weights, sums, strict=True):
            low, high = (limit(found[name] for name in operands) for limit in (min, max))
            total += weight * ((high > low) + (found[result] != low))
        return total

    def cost(option: tuple[int, ...], members: tuple[str, ...]) -> float:
        chosen = dict(zip(members, option, strict=True))
        return sum(shares[name][at] for name, at in chosen.items()) + shifts(ChainMap(chosen, indices))

    for names in sums * 2:
        members = tuple(dict.fromkeys(names))
        choices = [[index for index in shares[name] if index % DENSITY == part] for name in members]
        if (OCTAVES + 1) ** len(members) <= 200:  # in the first fraction, which has most
            indices.update(zip(members, min(itertools.product(*choices), key=lambda o: cost(o, members)), strict=True))
    return indices, sum(shares[name][index] for name, index in indices.items()) + shifts(indices)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Shares, Sums]:
    """Sums of one tensor to six, of few tensors, so that they share them: also operands that are results."""
    names = [f"t{at}" for at in range(draw(st.integers(1, 7)))]
    sums = draw(st.lists(st.lists(st.sampled_from(names), min_size=3, max_size=3), max_size=6))
    wide = draw(st.lists(st.lists(st.sampled_from(names), min_size=2, max_size=7), max_size=2))
    return shares_of(names, draw(st.integers(0, 999))), [tuple(each) for each in (*sums, *wide)]


@given(networks())
def test_octaves_and_costs_are_those_of_a_search_that_forgets_nothing(network: tuple[Shares, Sums]) -> None:
    shares, sums = network
    for part, (indices, costs) in enumerate(choose_octaves(shares, sums, DENSITY)):
        expected, cost = searched(shares, sums, part)
        assert indices == expected
        assert sum(costs.values()) == pytest.approx(cost)


def test_without_tensors_there_is_nothing_to_choose() -> None:
    assert choose_octaves({}, [], DENSITY) == [({}, {})] * DENSITY


def chained(count: int) -> Sums:
    return [(f"t{at}", f"t{at + 1}", f"t{at + 2}") for at in range(count)]


def sharing(count: int) -> Sums:
    """All add one tensor."""
    return [(f"t{at}", "shared", f"t{at + 1}") for at in range(count)]


def apart(count: int) -> Sums:
    return [(f"a{at}", "shared", f"b{at}") for at in range(count)]


@pytest.mark.parametrize("make", [chained, sharing, apart])
def test_work_is_in_proportion_to_the_sums(make: Callable[[int], Sums], monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the choices whose shifts are looked at: one tensor in all sums once made them grow as their square."""
    looked_at = 0
    original = sum_octaves._shifts

    def counting(low: np.ndarray, high: np.ndarray, result: np.ndarray) -> np.ndarray:
        nonlocal looked_at
        found = original(low, high, result)
        looked_at += found.size
        return found

    monkeypatch.setattr(sum_octaves, "_shifts", counting)

    def work(count: int) -> int:
        nonlocal looked_at
        looked_at = 0
        sums = make(count)
        choose_octaves(shares_of(sorted({name for names in sums for name in names}), 0), sums, DENSITY)
        return looked_at

    few, many = work(40), work(160)
    assert many < 6 * few
