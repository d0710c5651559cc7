import itertools

import pytest

from service.web.figures.report_figures import host_groups, limit_sentence, peak_macs, ranked_layers, unit_cycles
from service.web.figures.roofline import HEIGHT, WIDTH, roofline
from tests.helpers.reports import layer, report


def test_every_cycle_is_in_one_category() -> None:
    [unit] = unit_cycles(report("unit").model_dump())
    assert unit.cycles == 2000
    found = {(each.category, each.cycles) for each in unit.slices}
    assert found == {
        *(("busy", 1200), ("wait-memory", 50), ("wait-token", 300), ("wait-fetch", 100)),
        *(("wait-other", 150), ("idle", 200)),
    }
    assert unit.slices[0].begin == 0
    for before, after in itertools.pairwise(unit.slices):
        assert after.begin == pytest.approx(before.begin + before.share)
    assert unit.slices[-1].begin + unit.slices[-1].share == pytest.approx(1)
    [token] = [each.cause for each in unit.slices if each.category == "wait-token"]
    assert token == "waits for a token of load"


def test_a_program_that_was_not_timed_has_no_units() -> None:
    assert unit_cycles({"units": None}) == []
    assert limit_sentence({}, []) == ""


def test_what_limits_in_a_sentence() -> None:
    units = {
        "load": {"instructions": 1, "busy": 300, "stalled": {"compute_to_load": 500}, "idle": 200},
        "compute": {"instructions": 1, "busy": 900, "stalled": {"load_to_compute": 60, "fetch": 40}, "idle": 0},
    }
    sentence = (
        "The unit compute limits it: it is at work for 90% of the cycles, and for 6% it waits for a token of load."
    )
    report = {"units": units, "cycles": 1000}
    assert limit_sentence(report, unit_cycles(report)) == sentence
    units["compute"] |= {"busy": 400, "idle": 500}
    assert limit_sentence(report, unit_cycles(report)).startswith("No unit is at work for half of the cycles: compute")
    known = report | {"limits": {"sentence": "bound by the bus: with more it would take 12.0% fewer cycles"}}
    assert limit_sentence(known, []) == "Bound by the bus: with more it would take 12.0% fewer cycles."
    unknown = report | {"limits": {"sentence": None}}
    assert limit_sentence(unknown, unit_cycles(report)).startswith("No unit")


def test_what_a_report_does_not_explain_is_not_left_out() -> None:
    units = {"execute": {"instructions": 1, "busy": 200, "stalled": {"load": 100}, "idle": 50}}
    [unit] = unit_cycles({"units": units, "cycles": 1000})
    assert unit.cycles == 1000
    assert unit.share("busy") == 0.2
    assert {(each.cause, each.cycles) for each in unit.slices if each.category == "wait-other"} == {
        ("waits for an instruction of load", 100),
        ("waits, and the report does not say for what", 650),
    }


def test_an_account_is_shown_as_it_is() -> None:
    units = {"load": {"instructions": 3, "busy": 0, "stalled": {}, "idle": 0}}
    account = {
        "total": {"busy": {"gemm": 900}, "memory": {"load_wgt": 80, "memory": 5}, "fetch": {"fetch": 15}},
        "units": {
            "load": {"busy": {"load_wgt": 300}, "token": {"a_to_b": 500}, "other": {"x": 50}, "idle": {"ended": 150}}
        },
    }
    whole, load = unit_cycles({"units": units, "cycles": 1000, "account": account})
    assert (whole.name, whole.instructions, whole.cycles) == ("accelerator", None, 1000)
    assert [(each.category, each.cause, each.cycles) for each in whole.slices] == [
        ("busy", "busy: gemm", 900),
        ("wait-memory", "waits for memory: load_wgt", 80),
        ("wait-memory", "waits for the bus", 5),
        ("wait-fetch", "waits for its next instruction to be fetched", 15),
    ]
    assert [(each.category, each.cycles) for each in load.slices] == [
        *(("busy", 300), ("wait-token", 500), ("wait-other", 50), ("idle", 150)),
    ]
    assert load.instructions == 3


def test_layers_by_rank() -> None:
    rows = ranked_layers([layer("a", cycles=100).model_dump(), layer("b", cycles=300, lower_bound=0).model_dump()])
    assert [(row.number, row.layer["name"], row.share, row.distance) for row in rows] == [
        (2, "b", 0.75, None),
        (1, "a", 0.25, 100 / 800),
    ]
    assert [row.share for row in ranked_layers([layer("a", cycles=0).model_dump()])] == [0.0]


def test_operators_of_the_host_for_one_reason_are_one_group() -> None:
    ops = [{"node": str(number), "op": "Relu", "reason": "slow" if number % 2 else "fast"} for number in range(100)]
    groups = host_groups(ops)
    assert [(group.op, group.reason, len(group.nodes)) for group in groups] == [
        ("Relu", "fast", 50),
        ("Relu", "slow", 50),
    ]


def test_the_roof_is_where_the_machine_says() -> None:
    layers = [
        layer("bus", macs=1000, cycles=1000, utilisation=1000 / 256_000).model_dump(),  # 0.25 MACs a byte, 1 a cycle
        layer("peak", macs=256_000, cycles=1000, utilisation=1.0, bytes_read=500, bytes_written=500).model_dump(),
        layer("none", macs=0, utilisation=0.0).model_dump(),
    ]
    peak = peak_macs(layers)
    assert peak == 256
    roof = roofline(layers, peak, 8)
    assert roof is not None
    assert (roof.ridge, len(roof.points)) == (32, 2)
    by_name = {point.name: point for point in roof.points}
    assert by_name["bus"].intensity == pytest.approx(0.25)
    assert by_name["bus"].rate == 1
    corners = [tuple(map(float, corner.split(","))) for corner in roof.roof.split()]
    assert corners[1][1] == corners[2][1] == by_name["peak"].y  # it does as many as can be
    assert by_name["bus"].y > corners[1][1]
    for point in roof.points:
        assert 0 < point.x < WIDTH
        assert 0 < point.y < HEIGHT
    at = {tick.text: tick.at for tick in roof.xs}
    assert at["1"] < corners[1][0] < at["100"]
    assert at["10"] - at["1"] == pytest.approx(at["100"] - at["10"], abs=0.2)  # decades are equally wide


def test_nothing_that_multiplies_has_no_roofline() -> None:
    assert peak_macs([layer("a", macs=0, utilisation=0.0).model_dump()]) is None
    assert roofline([layer("a", macs=0, utilisation=0.0).model_dump()], None, 8) is None
    assert roofline([layer("a", bytes_read=0, bytes_written=0).model_dump()], 256, 8) is None
