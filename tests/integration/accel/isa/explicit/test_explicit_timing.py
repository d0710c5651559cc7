"""Cycles of random streams, against the rules step by step, and what the rules say of single cases."""

from typing import Any

import numpy as np
import pytest

from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.explicit.clock.timing import token_limit
from accel.isa.explicit.explicit_family import FAMILY
from tests.helpers.documents.explicit_documents import PAD, document, random_rows, row, stream
from tests.reference import explicit_timing

DRAM = 400
SYNCHRONISATIONS = [
    {"kind": "in_order"},
    {"kind": "hazards", "window": 1},
    {"kind": "hazards", "window": 3},
    {"kind": "hazards", "window": 16},
]
SIZES = {"load_x": ("x", 2, 1), "load_w": ("w", 4, 4), "load_c": ("c", 16, 16), "store": ("c", 4, 1)}
SIZES["store_wide"] = ("c", 16, 16)


def items(decoded: Decoded, rows: list[dict[str, Any]]) -> list[explicit_timing.Item]:
    return [_item(decoded, at, given["op"]) for at, given in enumerate(rows)]


def _item(decoded: Decoded, at: int, op: str) -> explicit_timing.Item:
    def field(name: str) -> int:
        return int(decoded.column(name)[at])

    if op == "nop":
        item = explicit_timing.Item("compute", 1)
    elif op == "gemm":
        item = explicit_timing.Item("compute", 2 + field("outer") * field("inner"), _gemm_ranges(field))
    elif op == "alu":
        item = explicit_timing.Item("compute", 1 + field("count"), _alu_ranges(field))
    else:
        item = _copy_item(op, field, shared_bus=decoded.accelerator.shares_bus)
    unit = item.unit
    others = {"load": ["compute"], "compute": ["load", "store"], "store": ["compute"]}[unit]
    item.pops = [f"{o}_to_{unit}" for o, name in zip(others, ("pop", "pop_store"), strict=False) if field(name)]
    item.pushes = [f"{unit}_to_{o}" for o, name in zip(others, ("push", "push_store"), strict=False) if field(name)]
    return item


def _span(memory: str, writes: bool, addresses: list[int], count: int = 1) -> list[explicit_timing.Range]:
    return [(memory, writes, min(addresses), max(addresses) + count)] if addresses else []


def _gemm_ranges(field: Any) -> list[explicit_timing.Range]:
    points = [(o, i) for o in range(field("outer")) for i in range(field("inner"))]
    found = _span("c", True, [field("c") + o * field("c_outer") for o, _ in points])
    if field("op") == 0:
        found += _span("x", False, [field("x") + o * field("x_outer") + i * field("x_inner") for o, i in points], 2)
        found += _span("w", False, [field("w") - o + i * field("w_inner") for o, i in points])
    return found


def _alu_ranges(field: Any) -> list[explicit_timing.Range]:
    found = _span("c", True, [field("d") + i for i in range(field("count"))])
    if field("op") in (0, 3):
        found += _span("c", False, [field("s") + i * field("s_step") for i in range(field("count"))])
    return found


def _copy_item(op: str, field: Any, *, shared_bus: bool) -> explicit_timing.Item:
    memory, size, unit = SIZES[op]
    rows, columns = field("rows"), field("columns")
    loads = op.startswith("load")
    moved = rows * columns * size
    beats = -(-moved // 4)
    cycles = max(1, beats + 5 * loads)
    ranges: list[explicit_timing.Range] = []
    if moved:
        pads = [field(name) for name in PAD] if op == "load_x" else [0, 0, 0, 0]
        count = (rows + pads[0] + pads[1]) * (columns + pads[2] + pads[3])
        ranges += [(memory, loads, field("sram"), field("sram") + count)]
        begins = [(field("dram") + r * field("row_stride")) * unit for r in range(rows)]
        ranges += _span("dram", not loads, begins, columns * size)
    item = explicit_timing.Item("load" if loads else "store", cycles, ranges)
    if shared_bus:
        item.beats = {"load_c": max(beats, 2 * rows), "store_wide": beats + 1}.get(op, beats)
        item.cycles = max(cycles, item.beats)
    return item


@pytest.mark.parametrize("shared_bus", [False, True], ids=["apart", "shared"])
@pytest.mark.parametrize("ports", [1, 2])
@pytest.mark.parametrize("synchronisation", SYNCHRONISATIONS, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_random_streams_take_the_cycles_of_the_reference(synchronisation, ports, seed, shared_bus):
    accelerator = document(synchronisation, ports, shared_bus=shared_bus)
    rows = random_rows(np.random.default_rng(seed), 40, accelerator, DRAM)
    decoded = stream(accelerator, rows)
    FAMILY.check_launch(decoded, DRAM)
    timing = FAMILY.time(decoded, {})
    expected = items(decoded, rows)
    if synchronisation["kind"] == "in_order":
        explicit_timing.in_order(expected, ports)
    else:
        explicit_timing.hazards(expected, ports, synchronisation["window"])
    assert timing.start.tolist() == [item.start for item in expected]
    assert timing.end.tolist() == [item.end for item in expected]
    assert timing.cycles == max(timing.end)
    _every_cycle_is_accounted_for(decoded, timing)
    _waits_for_addresses_end_with_who_held_them(timing, expected)
    if shared_bus:
        _what_the_bus_cost_is_told_of_who_had_it(timing, expected)


def _what_the_bus_cost_is_told_of_who_had_it(timing: Any, items: list[explicit_timing.Item]) -> None:
    """Catches cycles lost to the bus that are not told, and another copy named than the last that it gave way to."""
    for index, item in enumerate(items):
        back, lost = int(timing.awaited["memory"][index]), int(timing.waits["memory"][index])
        assert lost == item.end - item.start - item.cycles
        assert (items[index - back] is item.gave_way) if lost else (back == 0)


def _waits_for_addresses_end_with_who_held_them(timing: Any, items: list[explicit_timing.Item]) -> None:
    """Catches another instruction named than the last of those before that held an address, or one where none did."""
    for index, item in enumerate(items):
        back, lost = int(timing.awaited["hazard"][index]), int(timing.waits["hazard"][index])
        free = item.start - int(timing.waits["port"][index])
        held = [other.end for other in items[:index] if explicit_timing.meet(other, item)]
        if lost:
            assert 0 < back <= index
            other = items[index - back]
            assert explicit_timing.meet(other, item)
            assert other.end == max(held) == free
        else:
            assert back == 0
            assert max(held, default=0) <= free


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("seed", range(30))
def test_random_tokens_are_those_of_the_reference(seed, limit):
    accelerator = document({"kind": "tokens", "limit": limit}, ports=1 + seed % 2, shared_bus=seed % 3 == 0)
    rng = np.random.default_rng(seed)
    decoded = stream(accelerator, rows := random_rows(rng, int(rng.integers(2, 25)), accelerator, DRAM))
    counters = {name: int(rng.integers(limit + 1)) for name in FAMILY.token_queues(accelerator)}
    assert sorted(counters) == ["compute_to_load", "compute_to_store", "load_to_compute", "store_to_compute"]
    expected, left = items(decoded, rows), dict(counters)
    if not explicit_timing.tokens(expected, 1 + seed % 2, left, token_limit(accelerator)):
        with pytest.raises(SimulationError, match="waits at instruction") as caught:
            FAMILY.time(decoded, counters)
        assert caught.value.kind == "deadlock"
        stuck = {at for at, item in enumerate(expected) if item.start is None}
        assert caught.value.instruction == min(stuck)
        return
    timing = FAMILY.time(decoded, counters)
    assert timing.start.tolist() == [item.start for item in expected]
    assert timing.end.tolist() == [item.end for item in expected]
    assert timing.tokens == left
    _every_cycle_is_accounted_for(decoded, timing)


def _every_cycle_is_accounted_for(decoded: Decoded, timing: Any) -> None:
    """Each unit is at work or waits for something named, from the beginning to the end of its last instruction."""
    units = decoded.accelerator.units
    of = np.array([units.index(instruction.unit) for instruction in decoded.accelerator.instructions])[decoded.kind]
    for number, unit in enumerate(units):
        rows = np.flatnonzero(of == number)
        waited = sum(int(lost[rows].sum()) for cause, lost in timing.waits.items() if cause != "memory")
        assert all((lost >= 0).all() for lost in timing.waits.values())
        assert timing.busy[unit] + waited == timing.end[rows].max(initial=0)
    assert FAMILY.work(decoded).lower_bound <= timing.cycles


def test_two_engines_on_one_bus_take_the_time_of_their_bytes():
    """Catches a bus that gives both engines all its bytes, and one that a load keeps while it waits for an answer."""
    copies = [row("load_w", rows=4, columns=2, row_stride=2), row("store", sram=4, rows=4, columns=2, dram=64)]
    apart, shared = (document({"kind": "hazards"}, shared_bus=shared) for shared in (False, True))
    assert FAMILY.time(stream(apart, copies), {}).end.tolist() == [5 + 8, 1 + 8]
    timing = FAMILY.time(stream(shared, copies), {})
    assert timing.start.tolist() == [0, 1]
    assert timing.end.tolist() == [13, 1 + 8 + 8]  # four cycles before the load's answer, then behind it
    assert timing.waits["memory"].tolist() == [0, 8]
    assert timing.awaited["memory"].tolist() == [0, 1]
    work = FAMILY.work(stream(shared, copies))
    assert (work.bus_cycles, work.lower_bound) == (16, 16)
    assert FAMILY.work(stream(apart, copies)).lower_bound == 13
    (bus,) = (each for each in FAMILY.variations(shared) if each.resource == "the bus")
    assert bus.time(stream(shared, copies), {}).cycles == 9


def test_a_chain_of_tokens_runs_one_after_the_other():
    accelerator = document({"kind": "tokens"})
    decoded = stream(
        accelerator, [row("load_c", push=1), row("gemm", op=1, pop=1, push_store=1), row("store_wide", pop=1)]
    )
    timing = FAMILY.time(decoded, {})
    assert timing.start.tolist() == [0, 9, 12]  # 5 + 16 / 4, then 2 + 1
    assert timing.end.tolist() == [9, 12, 16]
    assert timing.waits["load_to_compute"].tolist() == [0, 9, 0]
    assert timing.waits["compute_to_store"].tolist() == [0, 0, 12]
    assert timing.tokens == dict.fromkeys(FAMILY.token_queues(accelerator), 0)


def test_a_counter_drops_what_is_beyond_its_limit():
    accelerator = document({"kind": "tokens", "limit": 2})
    decoded = stream(accelerator, [row("load_c", push=1)] * 5)
    assert FAMILY.time(decoded, {}).tokens["load_to_compute"] == 2


def test_unknown_and_impossible_tokens_are_refused():
    accelerator = document({"kind": "tokens", "limit": 2})
    decoded = stream(accelerator, [row("nop")])
    for tokens in ({"load_to_store": 1}, {"load_to_compute": 3}):
        with pytest.raises(SimulationError) as caught:
            FAMILY.time(decoded, tokens)
        assert caught.value.field == "tokens"


@pytest.mark.parametrize("kind", ["in_order", "hazards", "tokens"])
def test_an_empty_launch_takes_no_time(kind):
    accelerator = document({"kind": kind})
    timing = FAMILY.time(stream(accelerator, []), {})
    assert timing.cycles == 0
    assert set(timing.busy.values()) == {0}


def test_a_cost_that_is_negative_is_an_error_of_the_program():
    accelerator = document({"kind": "in_order"})
    gemm = accelerator.instruction("gemm").model_copy(update={"cycles": "inner - 3"})
    changed = tuple(gemm if i.name == "gemm" else i for i in accelerator.instructions)
    accelerator = accelerator.model_copy(update={"instructions": changed})
    with pytest.raises(SimulationError, match="its cycles would be -1") as caught:
        FAMILY.time(stream(accelerator, [row("nop"), row("gemm", op=1, inner=2)]), {})
    assert (caught.value.kind, caught.value.instruction) == ("cost", 1)
