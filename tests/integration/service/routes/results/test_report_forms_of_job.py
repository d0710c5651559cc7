"""``GET /v1/jobs/{id}/report/{table}.csv`` and ``report.html`` over a job that left a real report, and over others."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.report.documents.memory_documents import Allocation, LayerMemory, MemoryPlan, OnChipMemory
from tests.helpers.html_pages import Page, read_page
from tests.helpers.idle_service import Quiet, quiet_service
from tests.helpers.programs.streams import small_program
from tests.helpers.records import RESULT, publish_all
from tests.reference.timeline import decoded
from worker.identity.api_keys import ApiKeys
from worker.records.problem_details import problem

Check = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("quiet"), auth="keys") as made:
        yield made


@pytest.fixture(scope="module")
def job_id(quiet: Quiet, tmp_path_factory: pytest.TempPathFactory) -> str:
    return quiet.run_small_program(tmp_path_factory.mktemp("out"))


def table(client: httpx2.Client, job_id: str, name: str, **query: str) -> list[dict[str, str]]:
    answer = client.get(f"/v1/jobs/{job_id}/report/{name}.csv", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}-{job_id[:12]}.csv"'
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def test_tables_add_up_to_the_report(quiet: Quiet, job_id: str) -> None:
    report = quiet.client.get(f"/v1/jobs/{job_id}/report").json()
    layers = table(quiet.client, job_id, "layers")
    assert [(row["name"], int(row["cycles"])) for row in layers] == [
        (launch["name"], launch["cycles"]) for launch in report["launches"]
    ]
    sums: Counter[tuple[str, str]] = Counter()
    for row in table(quiet.client, job_id, "cycles"):
        sums[row["layer"], row["unit"]] += int(row["cycles"])
    units = ["", *report["account"]["units"]]
    assert {sums["0", unit] for unit in units} == {report["cycles"]}
    for number, launch in enumerate(report["launches"], 1):
        assert {sums[str(number), unit] for unit in units} == {launch["cycles"]}
    changes = table(quiet.client, job_id, "limits")
    assert [int(row["cycles"]) for row in changes] == [change["cycles"] for change in report["limits"]["changes"]]
    assert table(quiet.client, job_id, "accuracy") == table(quiet.client, job_id, "host-ops") == []


def page_of(client: httpx2.Client, job_id: str, **query: str) -> Page:
    answer = client.get(f"/v1/jobs/{job_id}/report.html", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-disposition"] == f'attachment; filename="cyclops-{job_id[:12]}.html"'
    return read_page(answer.text, alone=True)


def test_the_file_shows_the_report_and_its_timeline(quiet: Quiet, job_id: str) -> None:
    report = quiet.client.get(f"/v1/jobs/{job_id}/report").json()
    page = page_of(quiet.client, job_id)
    assert page.faults == []
    assert all(link.startswith(("#", "data:text/csv")) for link in page.links)  # its tables go with it
    assert page.tags["script"] == page.tags["link"] == 0
    assert f"{report['cycles']:,} cycles from left to right" in page.text
    for launch in report["launches"]:
        assert f"{launch['name']}: {launch['cycles']:,} cycles" in page.text
    assert "timeline" in page.ids
    assert '"title": "VTA"' in page.text  # the document


@pytest.mark.slow
def test_who_may_have_a_table(quiet: Quiet, job_id: str, is_problem: Check) -> None:
    key = ApiKeys(quiet.store).add("other", "other")[1]
    token = quiet.client.post(f"/v1/jobs/{job_id}/share").json()["token"]
    with httpx2.Client(base_url=quiet.client.base_url, timeout=30) as nobody:
        for path in (f"/v1/jobs/{job_id}/report/layers.csv", f"/v1/jobs/{job_id}/report.html"):
            is_problem(nobody.get(path), 401, "unauthorized")
            is_problem(nobody.get(path, headers={"Authorization": f"Bearer {key}"}), 404, "not-found")
        assert table(nobody, job_id, "layers", share=token) == table(quiet.client, job_id, "layers")
        assert page_of(nobody, job_id, share=token) == page_of(quiet.client, job_id)


def test_jobs_and_tables_that_are_not_there(quiet: Quiet, job_id: str, is_problem: Check) -> None:
    is_problem(quiet.client.get(f"/v1/jobs/{job_id}/report/x.csv"), 422, "invalid-request", "table")
    waits = quiet.post(quiet.request(seed=2))["id"]
    forms = ("report/layers.csv", "report.html")
    for form in forms:
        is_problem(quiet.client.get(f"/v1/jobs/{waits}/{form}"), 409, "conflict", "id")
    quiet.jobs.fail(waits, problem("time-limit", "The job took too long.", "it took 3 s"))
    for form in forms:
        found = is_problem(quiet.client.get(f"/v1/jobs/{waits}/{form}"), 404, "not-found", "id")
        assert found["detail"] == "the job has failed, and has left no report"


def test_a_report_that_is_no_table(quiet: Quiet, is_problem: Check, tmp_path: Path) -> None:
    """Catches a stack trace over a report that a later version wrote."""
    (tmp_path / "report.json").write_text('{"layers": 7}')
    job_id = quiet.post(quiet.request(seed=3))["id"]
    quiet.succeed(job_id, tmp_path)
    for form in ("report/layers.csv", "report.html"):
        found = is_problem(quiet.client.get(f"/v1/jobs/{job_id}/{form}"), 404, "not-found", "id")
        assert "as JSON" in found["detail"]


def test_a_memory_plan_has_a_page_a_table_and_counters(
    quiet: Quiet, job_id: str, is_problem: Check, tmp_path: Path
) -> None:
    """Catches a page without keys, text that is markup, and a timeline whose memories are not the plan's."""
    hostile = "<b>&amp;"
    for part in ("memory", "timeline"):  # of a program's job
        found = quiet.client.get(f"/jobs/{job_id}/{part}", headers={"Accept": "text/html"})
        assert (found.status_code, "How full the memories" in found.text) == (404 if part == "memory" else 200, False)
    place = {"memory": "acc", "begin": 4, "end": 12, "copies": 2, "role": "result", "tensors": [hostile]}
    more = {"buffer": hostile, "first_instruction": 0, "last_instruction": 1, "begin_cycle": 3, "end_cycle": 9}
    layer = LayerMemory(
        name=hostile, begin_cycle=0, end_cycle=20, allocations=[Allocation.model_validate(place | more)]
    )
    plan = MemoryPlan(memories=[OnChipMemory(name="acc", elements=16, element_bytes=64)], layers=[layer])
    run_program(small_program(), SimulateOptions(), tmp_path)
    (tmp_path / "memory.json").write_text(plan.model_dump_json())
    held: str = quiet.post(quiet.request(seed=4))["id"]
    publish_all(quiet.store, held, 1, tmp_path)
    quiet.jobs.succeed(held, 1, RESULT)
    token = quiet.client.post(f"/v1/jobs/{held}/share").json()["token"]
    (row,) = table(quiet.client, held, "memory")
    assert (row["name"], row["size [bytes]"]) == (hostile, "512")
    window = decoded(quiet.client.get(f"/v1/jobs/{held}/timeline", params={"begin": 0, "end": 12, "bins": 4}).content)
    assert window.counters == [[0, 8, 8, 0]]
    (memory,) = quiet.client.get(f"/v1/jobs/{held}/timeline/tracks").json()["memories"]
    assert (memory["peak"], memory["peak_cycle"], memory["elements"]) == (8, 3, 16)
    with httpx2.Client(base_url=quiet.client.base_url, timeout=30) as nobody:
        is_problem(nobody.get(f"/jobs/{held}/memory"), 401, "unauthorized")
        shown = nobody.get(f"/jobs/{held}/memory", params={"share": token}, headers={"Accept": "text/html"})
        page = read_page(shown.text)
        assert page.faults == []
        assert page.text.count(hostile) > 3
        assert page.tags["b"] == 0
        assert all(f"share={token}" in link for link in page.links if "/jobs/" in link)
