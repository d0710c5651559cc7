"""Every cycle is of one category: against a reference that walks from cycle to cycle, on programs of all families."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import SimulationError
from accel.isa.decode import decode
from accel.isa.family_registry import family_of
from accel.simulate.cycle_account import account_launch, merge_accounts
from tests.helpers.documents.explicit_documents import document, random_rows
from tests.helpers.documents.explicit_documents import stream as explicit_stream
from tests.helpers.programs.gemmini_programs import Writer
from tests.helpers.programs.golden import board, needs_golden
from tests.helpers.programs.streams import stream
from tests.integration.accel.isa.explicit.test_explicit_timing import items
from tests.integration.accel.isa.gemmini.test_gemmini_timing import trace
from tests.integration.accel.isa.vta.test_timing_rtl import random_launch
from tests.reference.cycle_account import Piece, account
from tests.reference.explicit_timing import meet

DRAM = 400


def pieces_of(decoded, timing):
    """The pieces in program order: of the activity where a family has one, else the instructions."""
    accelerator = decoded.accelerator
    if timing.activity is not None:
        found = timing.activity()
        units, kinds, held, waits = found.unit, found.kind, found.held, found.waits
        start, end = found.start, found.end
    else:
        units = np.array([accelerator.units.index(each.unit) for each in accelerator.instructions])[decoded.kind]
        kinds, start, end = decoded.kind, timing.start, timing.end
        held = timing.waits.get("memory", np.zeros(len(kinds), np.int64))
        waits = {cause: lost for cause, lost in timing.waits.items() if cause != "memory"}
    return [
        Piece(
            accelerator.units[units[at]],
            accelerator.instructions[kinds[at]].name,
            int(start[at]),
            int(end[at]),
            int(held[at]),
            [(cause, int(lost[at])) for cause, lost in waits.items()],
        )
        for at in range(len(kinds))
    ]


def flat(shares):
    return Counter({(kind, cause): cycles for kind, found in shares.items() for cause, cycles in found.items()})


def kind_of(family, accelerator, copies):
    """From the reference's words to the categories of the report."""
    queues = set(family.token_queues(accelerator))

    def kind(what, name, *, whole):
        if what == "runs":
            return "memory" if whole and name in copies else "busy"
        if what == "other":
            return "memory" if name in copies else "other"
        if what == "waits":
            return "token" if name in queues else "fetch" if name in ("fetch", "processor") else "other"
        return {"held": "memory", "ended": "idle"}[what]

    return kind


def check(decoded, timing, main, blocker):
    accelerator, family = decoded.accelerator, family_of(decoded.accelerator)
    copies = {each.name for each in accelerator.instructions if each.kind == "copy"}
    copies |= {part for name in copies for part in accelerator.instruction(name).sequence}
    kind = kind_of(family, accelerator, copies)
    found = account_launch(decoded, timing)
    pieces = pieces_of(decoded, timing)
    total, by_unit = account(pieces, accelerator.units, main, timing.cycles, blocker(pieces))
    named = Counter()
    for (what, name), cycles in total.items():
        named[kind(what, name, whole=True), name] += cycles
    assert flat(found.total) == named
    for unit in accelerator.units:
        expected = Counter({(kind(*each, whole=False), each[1]): n for each, n in by_unit[unit].items()})
        assert flat(found.units[unit]) == expected
    for shares in (found.total, *found.units.values()):
        assert flat(shares).total() == timing.cycles
        assert ("other", "unknown") not in flat(shares)
    return found


def by_queue(_pieces):
    return lambda _index, cause, _now: cause.partition("_to_")[0] if "_to_" in cause else None


@pytest.mark.parametrize("seed", range(25))
def test_a_vta(seed):
    random = np.random.default_rng(seed)
    accelerator = board()
    depths = dict.fromkeys(accelerator.units, int(random.choice([4, 512])))
    accelerator = accelerator.model_copy(update={"parameters": accelerator.parameters | {"queue_depths": depths}})
    # a store after FINISH may outlive the launch, and what it does then is of no cycle of it
    instructions = [*random_launch(random, int(random.integers(1, 40))), ("finish", {})]
    decoded = stream(accelerator, instructions)
    found = check(decoded, family_of(accelerator).time(decoded, {}), "compute", by_queue)
    assert found.total["busy"]["finish"] == 2


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "synchronisation",
    [{"kind": "in_order"}, {"kind": "hazards", "window": 3}, {"kind": "hazards", "window": 16}],
    ids=str,
)
def test_a_machine_that_waits_for_addresses(synchronisation, seed):
    accelerator = document(synchronisation, 1 + seed % 2, shared_bus=seed % 4 > 1)
    rows = random_rows(np.random.default_rng(seed), 40, accelerator, DRAM)
    decoded = explicit_stream(accelerator, rows)
    touched = items(decoded, rows)

    def blocker(pieces):
        def unit_of(index, cause, now):
            piece = pieces[index]
            if cause == "issue":
                before = pieces[index - 1] if index else None
                return before.unit if before is not None and before.start > now else None
            if cause != "hazard":
                return None
            until = piece.start - dict(piece.waits)["port"]
            whose = {
                pieces[at].unit
                for at in range(index)
                if pieces[at].end == until and pieces[at].unit != piece.unit and meet(touched[at], touched[index])
            }
            order = sorted(whose, key=accelerator.units.index)  # of several, all end in that cycle
            return order[0 if synchronisation["kind"] == "in_order" else -1]

        return unit_of

    check(decoded, family_of(accelerator).time(decoded, {}), "compute", blocker)


@pytest.mark.slow
def test_machines_that_wait_for_tokens():
    ended = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        accelerator = document({"kind": "tokens", "limit": 3}, ports=1 + seed % 2)
        decoded = explicit_stream(accelerator, random_rows(rng, int(rng.integers(2, 25)), accelerator, DRAM))
        counters = {name: int(rng.integers(4)) for name in family_of(accelerator).token_queues(accelerator)}
        try:
            timing = family_of(accelerator).time(decoded, counters)
        except SimulationError:
            continue
        check(decoded, timing, "compute", by_queue)
        ended += 1
    assert ended > 10


@pytest.mark.parametrize("seed", range(12))
def test_a_gemmini(seed):
    accelerator = load_accelerator("gemmini")
    core = {"issue_cycles": 3 if seed % 2 else 50} if seed % 4 else None
    parameters = accelerator.parameters | {"core": core, "load_entries": 2 if seed % 3 else 8}
    accelerator = accelerator.model_copy(update={"parameters": parameters})
    check_gemmini(decode(accelerator, Writer(seed, 16).draw(30)))


@needs_golden
def test_a_gemmini_whose_loops_are_many_instructions():
    check_gemmini(decode(load_accelerator("gemmini-lean"), trace("tiled_matmul_ws")))


def check_gemmini(decoded):
    def blocker(_pieces):
        return lambda _index, cause, _now: cause if cause in decoded.accelerator.units else None

    found = check(decoded, family_of(decoded.accelerator).time(decoded, {}), "execute", blocker)
    assert "loop_ws" not in found.units["execute"].get("busy", {})


def test_accounts_of_launches_add_up():
    accelerator = board()
    decoded = stream(accelerator, [("load_uop", {"x_size": 4, "y_size": 1, "x_stride": 4}), ("finish", {})])
    one = account_launch(decoded, family_of(accelerator).time(decoded, {}))
    both = merge_accounts([one, dataclasses.replace(one)])
    assert flat(both.total) == flat(one.total) + flat(one.total)
    assert {unit: flat(found) for unit, found in both.units.items()} == {
        unit: flat(found) + flat(found) for unit, found in one.units.items()
    }
    assert both.total["memory"]["load_uop"] == 2 * one.total["memory"]["load_uop"] > 0


def test_a_family_that_names_no_blockers_has_its_waits_as_they_are():
    accelerator = board()
    decoded = stream(
        accelerator,
        [
            ("load_inp", {"y_size": 1, "x_size": 40, "x_stride": 40, "push_next": 1}),
            ("load_uop", {"pop_prev": 1}),
            ("finish", {}),
        ],
    )
    timing = family_of(accelerator).time(decoded, {})
    waited = int(timing.waits["load_to_compute"].sum())
    followed = account_launch(decoded, timing)
    assert "token" not in followed.total
    assert followed.total["memory"]["load_inp"] == waited > 0
    older = account_launch(decoded, dataclasses.replace(timing, blockers={}))
    assert older.total["token"] == {"load_to_compute": waited}
    silent = account_launch(decoded, dataclasses.replace(timing, blockers={}, waits={}))
    assert silent.total["other"] == {"unknown": waited + int(timing.waits["fetch"][1:].sum())}  # of the compute unit
    for found in (followed, older, silent):
        assert flat(found.total).total() == timing.cycles


def test_several_causes_may_each_have_blockers_by_instruction():
    accelerator = board()
    load = {"y_size": 1, "x_size": 40, "x_stride": 40, "push_next": 1}
    decoded = stream(accelerator, [("load_inp", load), ("load_uop", {"pop_prev": 1}), ("finish", {})])
    timing = family_of(accelerator).time(decoded, {})
    units = accelerator.units
    by_instruction = {
        "fetch": np.full(3, units.index("store"), np.int64),  # which has nothing to do: no fault of its
        "load_to_compute": np.full(3, units.index("load"), np.int64),
    }
    found = account_launch(decoded, dataclasses.replace(timing, blockers=by_instruction))
    assert found == account_launch(decoded, timing)
