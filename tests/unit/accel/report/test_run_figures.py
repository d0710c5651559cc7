"""The figures of runs: parameters by which accelerators differ, and the Pareto front beside a search of all pairs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.report.compare.run_figures import RunFigures, differing_parameters, pareto_front, run_figures

BETTER = st.sampled_from(["less", "more"])
POINT = st.one_of(st.none(), st.tuples(st.integers(0, 5), st.integers(0, 5)))


def report(**changes: Any) -> bytes:
    source = {"name": "vta", "title": "VTA", "label": None, "sha256": None, "id": "0" * 64}
    whole = {
        "provenance": {"accelerator": source},
        "cycles": 1000,
        "seconds": 1e-5,
        "macs": {"total": 200_000, "accelerator": 128_000, "share": 0.64},
        "machine": {"peak_macs_per_cycle": 256.0, "bus_bytes_per_cycle": 8, "clock_mhz": 100.0},
        "layers": [{"bytes_read": 30, "bytes_written": 4}, {"bytes_read": 5, "bytes_written": 1}],
        "quantisation": [{"sqnr_db": 40.0}, {"sqnr_db": 31.5}],
    }
    return json.dumps(whole | changes).encode()


def document(name: str) -> bytes:
    return load_accelerator(name).model_dump_json().encode()


@given(st.lists(POINT, max_size=12), st.tuples(BETTER, BETTER))
def test_on_the_front_is_what_nothing_dominates(points: list[Any], better: tuple[str, str]) -> None:
    """Catches a front that loses equal points, or takes one that is worse in one figure and no better in the other."""
    signs = [1 if each == "less" else -1 for each in better]

    def dominates(one: tuple[int, int], other: tuple[int, int]) -> bool:
        gains = [sign * (other[axis] - one[axis]) for axis, sign in enumerate(signs)]
        return min(gains) >= 0 and max(gains) > 0

    wanted = [
        point is not None and not any(other is not None and dominates(other, point) for other in points)
        for point in points
    ]
    assert pareto_front(points, better) == wanted


def test_figures_are_those_of_the_report_and_the_document() -> None:
    found = run_figures(report(), document("vta"))
    memories = load_accelerator("vta").memories
    on_chip = {f"/memories/{each.name}": each.depth * each.element_bytes for each in memories}
    assert found.figures == {
        "cycles": 1000,
        "seconds": 1e-5,
        "dram_bytes": 40,
        "on_chip_bytes": sum(on_chip.values()),
        "utilisation": 0.5,
        "macs_share": 0.64,
        "sqnr_db": 31.5,
    }
    assert found.parameters.items() >= {**on_chip, "peak_macs_per_cycle": 256.0, "/dram/bus_bytes": 8}.items()


def test_what_a_report_or_a_document_does_not_say_is_not_there() -> None:
    found = run_figures(report(machine=None, quantisation=[], seconds=None), None)
    assert set(found.figures) == {"cycles", "dram_bytes", "macs_share"}
    assert found.parameters == {}
    with pytest.raises(ValueError, match="cycles"):
        run_figures(b"{}", None)


def test_parameters_that_differ_and_that_all_have_the_main_ones_first() -> None:
    runs = [run_figures(report(), document(name)) for name in ("vta", "vta-small", "gemmini")]
    two = [column.name for column in differing_parameters(runs[:2])]
    assert two[:4] == [f"/memories/{each}" for each in ("uop", "wgt", "inp", "acc")]
    names = {column.name for column in differing_parameters(runs)}
    assert {"/clock_mhz", "/memories/acc"} <= names  # all have a memory of that name
    assert "/memories/wgt" not in names
    assert differing_parameters([]) == differing_parameters(runs[:1]) == []


def test_a_hostile_name_is_a_pointer() -> None:
    made = json.loads(document("vta"))
    made["memories"][0]["name"] = "a/b~c"
    found = RunFigures.model_validate(run_figures(report(), json.dumps(made).encode()))
    other = run_figures(report(), json.dumps(made | {"clock_mhz": 5}).encode())
    other.parameters["/memories/a~1b~0c"] = 1
    [clock, memory] = differing_parameters([found, other])
    assert (clock.title, memory.title, memory.unit) == ("clock", "memory a/b~c", "B")


def test_end_to_end_time_is_a_figure_where_the_host_is_modelled() -> None:
    """One whose host costs nothing would look faster than all others."""
    host = {"/host/clock_mhz", "/host/launch_cycles", "/host/elements_per_cycle/movement", "/host/cache/line_bytes"}
    for modelled in (True, False):
        found = run_figures(report(end_to_end={"modelled": modelled, "seconds": 2e-5}), document("vta"))
        assert found.figures.get("end_to_end_seconds") == (2e-5 if modelled else None)
        assert host < set(found.parameters)
