"""The part of a job's page that shows its report, with figures that reports of this version may lack."""

from types import SimpleNamespace
from typing import Any

import pytest

from accel.report.documents.memory_documents import Allocation, LayerMemory, MemoryPlan, OnChipMemory
from accel.report.documents.report_documents import FieldDifference
from service.jobs.job_changes import ChangeJob, JobChange, JobChanges
from service.web.figures.report_figures import CATEGORIES
from service.web.figures.report_values import report_values
from service.web.templating.environment import make_environment
from service.web.templating.rendering import Frame
from tests.helpers.html_pages import Page, read_page
from tests.helpers.reports import report

HOSTILE = "<script>alert(1)</script>"


VIEWS = dict.fromkeys(("graph", "passes", "timeline", "accelerator"), True)


def shown(document: dict[str, Any], changes: JobChanges | None = None, plan: MemoryPlan | None = None) -> Page:
    values = report_values(document, None, plan)
    template = make_environment().get_template("job_report.html")
    context = {
        "report": document,
        "categories": CATEGORIES,
        "job": {"id": "0" * 32},
        "link": Frame.link.__get__(SimpleNamespace(share=None)),
        "table_address": "/v1/jobs/0/report/{}.csv".format,
        "views": VIEWS,
        "memory": None,
        "changes": changes,
    }
    made = template.render(**context, **values)
    head, foot = "<!doctype html><html><head><title></title></head><body>", "</body></html>"
    page = read_page(f"{head}<header></header><main><h1></h1>{made}</main><footer></footer>{foot}")
    assert page.faults == []
    return page


def test_what_limits_and_what_would_help() -> None:
    fields = [{"field": f"/dram/{HOSTILE}", "before": 8, "after": HOSTILE}]
    change = {
        "resource": "the bus",
        "change": f"16 {HOSTILE}",
        "fields": fields,
        "cycles": 1500,
        "gain": 0.25,
        "layers": [],
    }
    nothing = change | {"change": "less", "fields": [], "gain": -0.1}
    document = report(HOSTILE).model_dump() | {
        "limits": {"sentence": f"bound by {HOSTILE}", "changes": [change, nothing], "left_out": "3 were not tried"},
        "machine": {"peak_macs_per_cycle": 256, "bus_bytes_per_cycle": 8, "clock_mhz": 200.0},
        "account": {"total": {"busy": {HOSTILE: 2000}}, "units": {HOSTILE: {"idle": {"ended": 2000}}}},
    }
    page = shown(document)
    for text in (
        f"Bound by {HOSTILE}.",
        "1,500",
        "25.0 %",
        "-10.0 %",
        "8 → " + HOSTILE,
        "3 were not tried",
        "no field",
    ):
        assert text in page.text, text
    for text in ("10.0 µs", "at 200 MHz", f"busy: {HOSTILE}", "accelerator", "100.0 %"):
        assert text in page.text, text
    assert "roofline" in page.ids  # by the report's own machine, without the document


@pytest.mark.parametrize("held", [False, True])
def test_where_nothing_ran_no_picture_is_asked_for(held: bool) -> None:
    """Catches a part of the page that cannot load, as there are no buffers, and bars of no cycles."""
    place = {"memory": "inp", "begin": 0, "end": 5, "copies": 1, "buffer": "b", "role": "data", "tensors": []}
    when = {"first_instruction": 0, "last_instruction": 1, "begin_cycle": 2, "end_cycle": 9}
    layers = [LayerMemory(name="l", begin_cycle=0, end_cycle=9, allocations=[Allocation.model_validate(place | when)])]
    memory = OnChipMemory(name="inp", elements=8, element_bytes=16)
    plan = MemoryPlan(memories=[memory], layers=layers if held else [])
    page = shown(report("x", cycles=2000 if held else 0).model_dump(), plan=plan)
    assert ("/jobs/" + "0" * 32 + "/memory" in page.links) == held
    assert "memory" in page.ids
    assert ("cycles" in page.ids) == held


def change(number: int, job: ChangeJob | None = None, refused: str | None = None) -> JobChange:
    return JobChange(
        name=f"memory-{number}",
        resource=f"the size of {HOSTILE}",
        change=f"{HOSTILE} of {number} KiB",
        fields=[FieldDifference(field=f"/x/{place}/{HOSTILE}", before=None, after=HOSTILE) for place in range(number)],
        refused=refused,
        accelerator=None,
        job=job,
        cycles=1234 if job and job.state == "succeeded" else None,
        gain=0.25 if job and job.state == "succeeded" else None,
    )


def test_changes_to_compile_with_in_each_state() -> None:
    states = ("succeeded", "running", "failed")
    jobs = [ChangeJob(id=str(number) * 32, state=state, verified=False) for number, state in enumerate(states)]
    changes = [change(number, job) for number, job in enumerate(jobs, 4)]
    changes += [change(1), change(2), change(3, refused=f"no room for {HOSTILE}")]
    page = shown(report("x").model_dump(), JobChanges(cycles=2000, sentence=None, changes=changes))
    for text in ("3 of 5 tried", "1,234", "25.0 %", "wrong", "1 job is under way", "and 2 more", "Running", "Failed"):
        assert text in page.text, text
    for text in (f"{HOSTILE} of 1 KiB", f"the size of {HOSTILE}", f"no room for {HOSTILE}", f"\N{EN DASH} → {HOSTILE}"):
        assert text in page.text, text
    assert {f"change-memory-{number}" for number in (1, 2, 4, 5, 6)} <= set(page.ids)
    assert "change-memory-3" not in page.ids
    assert page.text.count("Compile with it") == 2
    assert "Compile with the other 2" in page.text


def test_a_program_says_why_it_has_no_changes() -> None:
    made = JobChanges(cycles=1, sentence=None, changes=[], left_out=f"a program is compiled already {HOSTILE}")
    assert f"a program is compiled already {HOSTILE}." in shown(report("x").model_dump(), made).text


@pytest.mark.parametrize("left", ["nothing ran on the accelerator", None])
def test_where_nothing_was_tried(left: str | None) -> None:
    document = report("x").model_dump() | {"limits": {"sentence": None, "changes": [], "left_out": left}}
    page = shown(document)
    assert ("Nothing ran on the accelerator." in page.text) is (left is not None)
    assert "limits it" in page.text


def test_energy_is_shown_where_it_is_known() -> None:
    document = report("x", energy_pj=2.7e9).model_dump()
    document["layers"][0]["energy_pj"] = 1500.0
    page = shown(document)
    assert "2.70 mJ" in page.text
    assert "1.50 nJ" in page.text
    assert "energy" not in shown(report("x").model_dump()).text


def test_cycles_that_were_not_counted_are_not_told_as_none() -> None:
    """Catches launches of 0 cycles, a share of 0 % and a utilisation of 0 % where only function was simulated."""
    launches = [
        {**each, "cycles": 0, "utilisation": 0.0, "limited_by": None, "lower_bound": 8}
        for each in report("x").model_dump()["layers"]
    ]
    page = shown(report("x").model_dump() | {"layers": launches, "cycles": None, "units": None})
    assert "timing did not run" in page.text
    assert "In the order of the program" in page.text
    table = page.text.partition("In the order of the program")[2].partition("Layers as CSV")[0]
    assert "conv2d" in table
    assert "0.0 %" not in table


def test_findings_lead_to_their_instructions_on_the_timeline() -> None:
    """Catches a first wrong element, a race or a stale read without the way to the instruction that made it."""
    one, two, three = ({"index": index, "launch": HOSTILE, "op": "alu"} for index in (11, 1234, 33))
    place = {"memory": "acc", "begin": 0, "end": 4, "detail": HOSTILE}
    stored = {"tensor": HOSTILE, "address": 8192, "got": 1, "expected": 0, "instruction": 44}
    document = report("x").model_dump() | {
        "mismatches": [stored, stored | {"instruction": None}],
        "mismatch_count": 2,
        "races": [place | {"first": one, "second": two}],
        "race_count": 1,
        "stale_reads": [place | {"kind": "stale-out", "instruction": three, "since": three}],
        "stale_read_count": 5,
    }
    page = shown(document)
    found = {link for link in page.links if "/timeline?select=" in link}
    assert found == {f"/jobs/{'0' * 32}/timeline?select={number}" for number in (11, 1234, 33, 44)}
    for text in ("1 race\n", "5 stale reads", "The first 1 are shown", "1,234"):
        assert text in page.text, text


def test_a_machine_without_cycles_or_products() -> None:
    layers = [
        {**each, "cycles": 0, "macs": 0, "utilisation": 0.0, "lower_bound": 0}
        for each in report("x").model_dump()["layers"]
    ]
    page = shown(report("x").model_dump() | {"layers": layers, "cycles": 0, "units": {}, "host_ops": []})
    assert "roofline" not in page.ids
    assert "the accelerator runs every operator" in page.text
