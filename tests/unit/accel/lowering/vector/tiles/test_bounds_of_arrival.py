"""Bounds of programs whose operands arrive in pieces, against programs in random pieces that are walked one by one.

It would catch a bound that some program goes below: of pieces of unlike sizes, in another order, of a short last one,
of operands of which a load brings a part at most.
"""

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from accel.expression.parser import parse_statement
from accel.lowering.vector.tiles.bounds_of_arrival import Needed, bound_of_arrival, bound_of_bus

TEXTS = (
    ("b[a0] = x[a0]", "c[a0] = z[a0]", "b[a0] = exp(b[a0])", "b[a0] = b[a0] + c[a0]", "y[a0] = b[a0]"),
    ("b[a0] = x[a0]", "c[a0] = b[a0] * 2.0", "d[a0] = exp(b[a0])", "d[a0] = d[a0] + c[a0]", "y[a0] = d[a0]"),
    ("b[a0] = x[a0]", "y[a0] = b[a0]"),
    ("b[a0] = x[a0]", "c[a0] = 0.0", "c[a0] += b[a0]", "d[a0] = z[a0]", "d[a0] = d[a0] - c[a0]", "y[a0] = d[a0]"),
)
Piece = tuple[float, float]


def needed_of(texts: Sequence[str], rng: random.Random) -> list[Needed]:
    """Statements with random costs: what reads x or z loads, what writes y stores, all else computes."""
    found = []
    for text in texts:
        statement = parse_statement(text)
        loads, stores = bool({"x", "z"} & set(statement.operands)), statement.target.name == "y"
        unit = "load" if loads else "store" if stores else "vector"
        begin, work = rng.choice([0.0, 6.0, 100.0]), rng.uniform(1, 400)
        at_once = rng.choice([1.0, 1.0, 1 / 2, 1 / 7]) if loads else 1.0
        found.append(Needed(statement, unit, work, begin, begin, latency=begin if loads else None, at_once=at_once))
    return found


def pieces(rng: random.Random, at_once: float) -> list[Piece]:
    """Random parts of all elements, in a random order, none larger than ``at_once``."""
    cuts = sorted(rng.random() ** 2 for _ in range(rng.choice([0, 0, 1, 2, 5])))
    found = list[Piece]()
    for low, high in zip([0.0, *cuts], [*cuts, 1.0], strict=True):
        whole = int((high - low) / at_once - 1e-9)
        ends = [low, *(low + at_once * (number + 1) for number in range(whole)), high]
        found += itertools.pairwise(ends)
    rng.shuffle(found)
    return found


def sources_of(needed: Sequence[Needed]) -> list[list[int]]:
    """The statements that make what each one reads."""
    writer: dict[str, int] = {}
    found = []
    for number, each in enumerate(needed):
        target = each.statement.target.name
        names = {access.name for access in each.statement.accesses} | ({target} if each.statement.updates else set())
        found.append([writer[name] for name in names if name in writer])
        writer[target] = number
    return found


def ready_at(piece: Piece, made: Sequence[tuple[Piece, float]]) -> float:
    """When all of a piece has been made; infinity if it has not."""
    low, high = piece
    inside = [(part, end) for part, end in made if part[0] < high and low < part[1]]
    covered = sum(min(high, part[1]) - max(low, part[0]) for part, _ in inside)
    return max((end for _, end in inside), default=0.0) if covered > high - low - 1e-9 else math.inf


def walked(needed: Sequence[Needed], rng: random.Random) -> float:
    """The cycles of a program in random pieces: each starts when its unit is free and what it reads has been made."""
    sources = sources_of(needed)
    left = [(number, piece) for number, each in enumerate(needed) for piece in pieces(rng, each.at_once)]
    done: list[list[tuple[Piece, float]]] = [[] for _ in needed]
    free = dict.fromkeys((each.unit for each in needed), 0.0)
    while left:
        ready = [max((ready_at(piece, done[each]) for each in sources[number]), default=0.0) for number, piece in left]
        place = rng.choice([place for place, at in enumerate(ready) if at < math.inf])
        number, piece = left.pop(place)
        each = needed[number]
        free[each.unit] = max(ready[place], free[each.unit]) + each.begin + each.work * (piece[1] - piece[0])
        done[number].append((piece, free[each.unit]))
    return max(free.values())


@pytest.mark.parametrize("texts", TEXTS, ids=["two operands", "two ways", "a copy", "a sum"])
def test_no_program_goes_below(texts: Sequence[str]) -> None:
    rng = random.Random(len(texts))
    for _ in range(12):
        needed = needed_of(texts, rng)
        bound = bound_of_arrival(needed)
        assert all(walked(needed, rng) >= bound - 1e-6 for _ in range(12))


def test_two_operands_by_hand() -> None:
    """Two loads of 100 + 10 cycles, an addition of 6 + 20, a store: no piece that comes earlier pays a latency."""
    texts = ("b[a0] = x[a0]", "c[a0] = z[a0]", "b[a0] = b[a0] + c[a0]", "y[a0] = b[a0]")
    costs = (("load", 10, 100, 101), ("load", 10, 100, 101), ("vector", 20, 6, 6), ("store", 4, 0, 1))
    needed = [
        Needed(parse_statement(text), unit, work, begin, least, 0 if unit == "vector" else 10, latency)
        for text, (unit, work, begin, least), latency in zip(texts, costs, (100, 100, None, None), strict=True)
    ]
    assert bound_of_arrival(needed) == pytest.approx(220 + 26 + 1, abs=0.01)
    assert bound_of_bus(needed) == 200 + 30


def test_an_operand_in_two_parts_by_hand() -> None:
    """Of a load of 100 + 10 cycles that brings half at most the second half's 20 cycles of work are left behind it."""
    texts = ("b[a0] = x[a0]", "b[a0] = exp(b[a0])", "y[a0] = b[a0]")
    load, work, store = (parse_statement(text) for text in texts)
    needed = [
        Needed(load, "load", 10, 100, 101, 10, 100, at_once=1 / 2),
        Needed(work, "vector", 40, 6, 6),
        Needed(store, "store", 4, 0, 1, 4),
    ]
    assert bound_of_arrival(needed) == pytest.approx(200 + 10 + 20 + 6 + 1, abs=0.01)
