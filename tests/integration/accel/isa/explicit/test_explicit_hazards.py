"""Races and reads of what nobody wrote, against sets of elements and a search of the whole order."""

from typing import Any

import numpy as np
import pytest

from accel.errors import SimulationError
from accel.isa.explicit.explicit_family import FAMILY
from tests.helpers.documents.explicit_documents import PAD, document, random_rows, row, stream
from tests.reference import explicit_timing

DRAM = 400
Cells = dict[tuple[str, int], bool]  # element -> whether it is written
SIZES = {"load_x": ("x", 2, 1), "load_w": ("w", 4, 4), "load_c": ("c", 16, 16)}
SIZES |= {"store": ("c", 4, 1), "store_wide": ("c", 16, 16)}
UNITS = {"gemm": "compute", "alu": "compute", "nop": "compute", "store": "store", "store_wide": "store"}


def touched(given: dict[str, Any]) -> tuple[set, set]:
    """The elements that an instruction reads and those that it writes."""
    op, f = given["op"], {"rows": 1, "columns": 1, "outer": 1, "inner": 1, "count": 1} | given["fields"]
    get = lambda name: f.get(name, 0)  # noqa: E731
    reads, writes = set(), set()
    if op == "gemm":
        for o in range(f["outer"]):
            for i in range(f["inner"]):
                into = ("c", get("c") + o * get("c_outer"))
                writes.add(into)
                if get("op") == 0:
                    reads.add(into)
                    data = get("x") + o * get("x_outer") + i * get("x_inner")
                    reads |= {("x", data), ("x", data + 1), ("w", get("w") - o + i * get("w_inner"))}
    elif op == "alu":
        for n in range(f["count"]):
            writes.add(("c", get("d") + n))
            reads |= {("c", get("d") + n)} if get("op") != 3 else set()
            reads |= {("c", get("s") + n * get("s_step"))} if get("op") in (0, 3) else set()
    elif op != "nop" and f["rows"] * f["columns"]:
        memory, size, unit = SIZES[op]
        top, bottom, left, right = (get(name) for name in PAD)
        count = (f["rows"] + top + bottom) * (f["columns"] + left + right)
        chip = {(memory, get("sram") + n) for n in range(count)}
        begins = [(get("dram") + r * get("row_stride")) * unit for r in range(f["rows"])]
        dram = {("dram", begin + n) for begin in begins for n in range(f["columns"] * size)}
        reads, writes = (dram, chip) if op.startswith("load") else (chip, dram)
    return reads, writes


def unit_of(given: dict[str, Any]) -> str:
    return UNITS.get(given["op"], "load")


def items(rows: list[dict[str, Any]]) -> list[explicit_timing.Item]:
    found = []
    for given in rows:
        unit, field = unit_of(given), given["fields"]
        others = {"load": ["compute"], "compute": ["load", "store"], "store": ["compute"]}[unit]
        pops = [f"{o}_to_{unit}" for o, n in zip(others, ("pop", "pop_store"), strict=False) if field.get(n)]
        pushes = [f"{unit}_to_{o}" for o, n in zip(others, ("push", "push_store"), strict=False) if field.get(n)]
        found.append(explicit_timing.Item(unit, 1, [], pops, pushes))
    return found


def before(rows: list[dict[str, Any]], counters: dict[str, int]) -> list[set[int]]:
    """For each instruction all that have ended when it starts."""
    parents: list[set[int]] = [set() for _ in rows]
    senders: dict[str, list[int | None]] = {queue: [None] * count for queue, count in counters.items()}
    listed = items(rows)
    for at, item in enumerate(listed):
        for queue in item.pushes:
            senders[queue].append(at)
    for at, item in enumerate(listed):
        earlier = [other for other in range(at) if listed[other].unit == item.unit]
        parents[at] |= set(earlier[-1:])
    taken = dict.fromkeys(senders, 0)
    for at, item in enumerate(listed):
        for queue in item.pops:
            sender = senders[queue][taken[queue]]
            taken[queue] += 1
            parents[at] |= set() if sender is None else {sender}
    known = [set(found) for found in parents]
    changed = True
    while changed:
        grown = [found.union(*(known[parent] for parent in found)) for found in known]
        changed, known = grown != known, grown
    return known


@pytest.mark.parametrize("seed", range(80))
def test_races_are_those_of_the_search(seed):
    accelerator = document({"kind": "tokens"})
    rng = np.random.default_rng(seed)
    counters = {name: int(rng.integers(2)) for name in FAMILY.token_queues(accelerator)}
    rows = random_rows(rng, int(rng.integers(2, 14)), accelerator, DRAM)
    decoded, checker = stream(accelerator, rows), FAMILY.hazard_checker(accelerator, counters, DRAM)
    checker.wrote(0, DRAM)
    left = dict(counters)
    if not explicit_timing.tokens(items(rows), 2, left, 255):
        with pytest.raises(SimulationError, match="deadlock"):
            checker.check(decoded, None)
        return
    known, cells = before(rows, counters), [touched(given) for given in rows]
    expected = {
        (a, b): common
        for b in range(len(rows))
        for a in range(b)
        if a not in known[b] and b not in known[a]
        if (common := cells[a][1] & (cells[b][0] | cells[b][1]) | cells[b][1] & cells[a][0])
    }
    found = checker.check(decoded, None).races
    assert bool(found) == bool(expected)
    for race in found:
        common = expected[race.first, race.second]
        assert {(race.memory, race.begin), (race.memory, race.end - 1)} <= common


@pytest.mark.parametrize("kind", ["in_order", "hazards", "tokens"])
@pytest.mark.parametrize("seed", range(20))
def test_reads_of_what_nobody_wrote_are_found(kind, seed):
    accelerator = document({"kind": kind})
    rng = np.random.default_rng(seed)
    checker, written = FAMILY.hazard_checker(accelerator, {}, DRAM), set()
    begin = int(rng.integers(DRAM))
    checker.wrote(begin, DRAM)
    written |= {("dram", at) for at in range(begin, DRAM)}
    for _ in range(3):
        rows = random_rows(rng, 12, document({"kind": "in_order"}), DRAM)
        if kind == "tokens":  # all in the order of the program, as one unit would do them
            rows = [given for given in rows if unit_of(given) == "compute"]
        expected = []
        for at, given in enumerate(rows):
            reads, writes = touched(given)
            expected += [(at, memory) for memory in sorted({memory for memory, _ in reads - written})]
            written |= writes
        found = checker.check(stream(accelerator, rows), None)
        assert not found.races
        assert sorted({(read.instruction, read.memory) for read in found.unwritten}) == expected


def test_a_missing_token_is_a_race_and_a_token_mends_it():
    accelerator = document({"kind": "tokens"})

    def races(*rows):
        return FAMILY.hazard_checker(accelerator, {}, DRAM).check(stream(accelerator, list(rows)), None).races

    (race,) = races(row("load_c", sram=2, columns=3), row("gemm", op=1, c=1, outer=2, c_outer=2))
    assert (race.first, race.second, race.memory, race.begin, race.end) == (0, 1, "c", 3, 4)
    assert not races(row("load_c", sram=2, columns=3, push=1), row("gemm", op=1, c=1, outer=2, c_outer=2, pop=1))
    # strides between elements that nobody touches are no race
    assert not races(row("store_wide", sram=1), row("gemm", op=1, c=0, outer=2, c_outer=2))


def test_launches_end_before_the_next_begins_and_their_tokens_stay():
    accelerator = document({"kind": "tokens"})
    checker = FAMILY.hazard_checker(accelerator, {}, DRAM)
    assert not checker.check(stream(accelerator, [row("load_c", sram=2, push=1)]), None).races
    assert not checker.check(stream(accelerator, [row("alu", op=1, d=2, pop=1)]), None).races
    with pytest.raises(SimulationError, match="load_to_compute"):
        checker.check(stream(accelerator, [row("nop", pop=1)]), None)


def test_dram_is_told_apart_byte_by_byte():
    accelerator = document({"kind": "tokens"})
    checker = FAMILY.hazard_checker(accelerator, {}, DRAM)
    assert not checker.check(stream(accelerator, [row("store_wide", dram=2), row("load_x", dram=48)]), None).races
    (race,) = checker.check(stream(accelerator, [row("store_wide", dram=2), row("load_x", dram=47)]), None).races
    assert (race.memory, race.begin, race.end) == ("dram", 47, 48)
