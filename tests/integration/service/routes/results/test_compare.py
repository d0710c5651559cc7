"""``GET /v1/compare`` over jobs that left real reports; whose they are, and which have none."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.program.program_model import Program
from accel.report.documents.memory_documents import MemoryPlan, OnChipMemory
from tests.helpers.idle_service import Quiet, quiet_service
from tests.helpers.programs.streams import small_program
from tests.helpers.records import RESULT, publish_all
from worker.identity.api_keys import ApiKeys
from worker.records.problem_details import problem

Check = Callable[..., dict]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("quiet"), auth="keys") as made:
        yield made


def wider(program: Program) -> Program:
    accelerator = program.accelerator
    dram = accelerator.dram.model_copy(update={"bus_bytes": 2 * accelerator.dram.bus_bytes})
    return replace(program, accelerator=accelerator.model_copy(update={"dram": dram}))


def ended(quiet: Quiet, seed: int, program: Program, out: Path) -> str:
    """A job that left what running the program leaves."""
    out.mkdir()
    run_program(program, SimulateOptions(), out)
    job_id = quiet.post(quiet.request(seed=seed))["id"]
    publish_all(quiet.store, job_id, 1, out)
    quiet.jobs.succeed(job_id, 1, RESULT)
    return job_id


@pytest.fixture(scope="module")
def two(quiet: Quiet, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    out, program = tmp_path_factory.mktemp("out"), small_program()
    return ended(quiet, 1, program, out / "a"), ended(quiet, 2, wider(program), out / "b")


def compare(client: httpx2.Client, a: str, b: str, **more: str) -> httpx2.Response:
    return client.get("/v1/compare", params={"a": a, "b": b, **more})


def test_a_wider_bus_is_the_difference_and_explains_it(quiet: Quiet, two: tuple[str, str]) -> None:
    answer = compare(quiet.client, *two)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    width = small_program().accelerator.dram.bus_bytes
    assert found["document"] == [{"field": "/dram/bus_bytes", "before": width, "after": 2 * width}]
    assert found["a"]["cycles"] + found["difference"] == found["b"]["cycles"] < found["a"]["cycles"]
    assert {cause["category"] for cause in found["causes"] if cause["difference"]} <= {"memory", "fetch"}
    assert sum(cause["difference"] for cause in found["causes"]) == found["difference"]
    assert sum(layer["difference"] for layer in found["layers"]) == found["difference"]
    tag = answer.headers["etag"]
    assert quiet.client.get(str(answer.url), headers={"if-none-match": tag}).status_code == 304
    same = compare(quiet.client, two[0], two[0]).json()
    assert (same["difference"], same["document"], same["provenance"]) == (0, [], [])


def test_a_job_of_an_earlier_version_is_compared_without_its_document(
    quiet: Quiet, two: tuple[str, str], tmp_path: Path
) -> None:
    run_program(small_program(), SimulateOptions(), tmp_path)
    (tmp_path / "accelerator.json").unlink()
    report = json.loads((tmp_path / "report.json").read_text())
    for key in ("account", "limits", "machine"):
        report.pop(key)
    for launch in report["launches"]:
        launch.pop("account")
        launch.pop("roofline")
    (tmp_path / "report.json").write_text(json.dumps(report))
    job_id = quiet.post(quiet.request(seed=3))["id"]
    publish_all(quiet.store, job_id, 1, tmp_path)
    quiet.jobs.succeed(job_id, 1, RESULT)
    assert quiet.client.get(f"/v1/jobs/{job_id}/report").json() == report
    found = compare(quiet.client, job_id, two[1]).json()
    assert (found["document"], found["causes"]) == (None, None)
    assert "accelerator.json of a" in found["document_left_out"]
    assert found["difference"] < 0


def test_a_memory_plan_is_served_and_a_program_has_none(
    quiet: Quiet, two: tuple[str, str], is_problem: Check, tmp_path: Path
) -> None:
    found = is_problem(quiet.client.get(f"/v1/jobs/{two[0]}/memory"), 404, "not-found", "name")
    assert found["detail"] == "the job has left no 'memory.json'"
    plan = MemoryPlan(memories=[OnChipMemory(name="inp", elements=8, element_bytes=16)], layers=[])
    (tmp_path / "memory.json").write_text(plan.model_dump_json())
    job_id = quiet.post(quiet.request(seed=7))["id"]
    quiet.succeed(job_id, tmp_path)
    answer = quiet.client.get(f"/v1/jobs/{job_id}/memory")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert MemoryPlan.model_validate_json(answer.content) == plan


def test_jobs_that_have_no_report(quiet: Quiet, two: tuple[str, str], is_problem: Check, tmp_path: Path) -> None:
    waits = quiet.post(quiet.request(seed=4))["id"]
    found = is_problem(compare(quiet.client, two[0], waits), 409, "conflict", "b")
    assert found["detail"] == f"the job {waits} is queued; wait until it has ended"
    quiet.jobs.fail(waits, problem("time-limit", "The job took too long.", "it took 3 s"))
    found = is_problem(compare(quiet.client, waits, two[0]), 409, "conflict", "a")
    assert found["detail"] == f"the job {waits} has failed: there is nothing to compare"
    canceled = quiet.post(quiet.request(seed=5))["id"]
    assert quiet.client.post(f"/v1/jobs/{canceled}/cancel").status_code == 200
    assert "was canceled" in is_problem(compare(quiet.client, canceled, two[0]), 409, "conflict", "a")["detail"]
    is_problem(compare(quiet.client, "0" * 32, two[0]), 404, "not-found", "a")
    is_problem(compare(quiet.client, two[0], "../x"), 422, "invalid-request", "b")
    is_problem(quiet.client.get("/v1/compare", params={"a": two[0]}), 422, "invalid-request", "b")
    empty = quiet.post(quiet.request(seed=6))["id"]
    quiet.succeed(empty, tmp_path)
    found = is_problem(compare(quiet.client, empty, two[0]), 422, "invalid-report", "a")
    assert "run it again" in found["detail"]


def test_jobs_of_others_are_compared_by_their_links_alone(
    quiet: Quiet, two: tuple[str, str], is_problem: Check, tmp_path: Path
) -> None:
    key = ApiKeys(quiet.store).add("other", "other")[1]
    with httpx2.Client(base_url=quiet.client.base_url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as other:
        is_problem(compare(other, *two), 404, "not-found", "a")
        tokens = [quiet.client.post(f"/v1/jobs/{job_id}/share").json()["token"] for job_id in two]
        is_problem(compare(other, *two, share=tokens[0]), 404, "not-found", "b")
        found = compare(other, *two, share=tokens)
        assert found.status_code == 200, found.text
        assert found.json() == compare(quiet.client, *two).json()
    with httpx2.Client(base_url=quiet.client.base_url, timeout=30) as nobody:
        is_problem(compare(nobody, *two, share=tokens), 401, "unauthorized")
