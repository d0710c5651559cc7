"""``/v1/jobs/{id}/changes``: what is offered, which jobs come of it, and how they are found again."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accel.catalog.load_accelerator import canonical, load_accelerator
from accel.program_files.program_container import save_program
from tests.helpers import reports
from tests.helpers.idle_service import Quiet, quiet_service
from tests.helpers.programs.streams import small_program
from tests.helpers.records import RESULT, publish_all
from worker.identity.api_keys import ApiKeys
from worker.identity.share_links import ShareLinks, ShareTarget
from worker.inspection.inspector import Inspector
from worker.records.accelerator_store import Accelerators
from worker.records.job_record import Summary
from worker.records.result_cache import ResultCache
from worker.sandbox.confined_tasks import LimitError
from worker.storage.redis_server import connect

Check = Callable[..., dict]
PRESET = "vta-8"


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("quiet"), auth="keys") as made:
        yield made


def succeed(quiet: Quiet, job_id: str, directory: Path, cycles: int, *, verified: bool | None = True) -> None:
    """As a worker does it, with the document that the job ran on."""
    job = quiet.jobs.get(job_id)
    document = Accelerators(quiet.store).get(str(job.accelerator))
    (directory / "accelerator.json").write_bytes(canonical(document))
    publish_all(quiet.store, job_id, 1, directory)
    quiet.jobs.succeed(job_id, 1, Summary(verified=verified, cycles=cycles, macs_share=1.0))
    ResultCache(quiet.store, quiet.jobs, Accelerators(quiet.store)).put(quiet.jobs.get(job_id))


@pytest.fixture
def base(quiet: Quiet, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A job of its own for each test, on 1000 cycles."""
    seed = sum(map(ord, request.node.name))
    job_id = quiet.post({"model": quiet.model, "accelerator": PRESET, "options": {"seed": seed}, "label": "base"})["id"]
    succeed(quiet, job_id, tmp_path, 1000)
    return job_id


def listed(quiet: Quiet, job_id: str) -> dict[str, Any]:
    answer = quiet.client.get(f"/v1/jobs/{job_id}/changes")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def of(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in found["changes"] if each["name"] == name)


def compile_with(quiet: Quiet, job_id: str, *names: str) -> dict[str, Any]:
    answer = quiet.client.post(f"/v1/jobs/{job_id}/changes", json={"changes": list(names)})
    assert answer.status_code in {200, 202}, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_change_becomes_a_job_of_the_same_model_and_options_and_its_gain_is_told(
    quiet: Quiet, base: str, tmp_path: Path
) -> None:
    before = listed(quiet, base)
    assert (before["cycles"], before["sentence"], before["left_out"]) == (1000, None, None)
    assert all(each["job"] is None for each in before["changes"])
    asked = quiet.client.post(f"/v1/jobs/{base}/changes", json={"changes": ["memory-inp"]})
    assert asked.status_code == 202
    change = of(asked.json(), "memory-inp")
    assert change["job"]["state"] == "queued"
    job = quiet.client.get(f"/v1/jobs/{change['job']['id']}").json()
    first = quiet.client.get(f"/v1/jobs/{base}").json()
    assert (job["model"], job["options"]) == (first["model"], first["options"])
    assert job["accelerator"] == change["accelerator"]
    assert "inp of 16 KiB" in job["label"]
    assert "base" in job["label"]
    document = quiet.client.get(f"/v1/accelerators/{change['accelerator']}").json()
    depths = {memory["name"]: memory["depth"] for memory in document["memories"]}
    original = load_accelerator(PRESET)
    assert depths["inp"] == 2 * original.memory("inp").depth
    # asked again while it waits: the same job
    assert of(compile_with(quiet, base, "memory-inp", "memory-inp"), "memory-inp")["job"] == change["job"]
    succeed(quiet, job["id"], tmp_path, 750)
    found = listed(quiet, base)
    assert found["changes"][0]["name"] == "memory-inp", "what has run comes first"
    assert (found["changes"][0]["cycles"], found["changes"][0]["gain"]) == (750, 0.25)
    assert found["sentence"] == "bound by the size of inp: compiled for inp of 16 KiB it takes 25.0% fewer cycles"
    again = quiet.client.post(f"/v1/jobs/{base}/changes", json={"changes": ["memory-inp"]})
    assert (again.status_code, of(again.json(), "memory-inp")["job"]["id"]) == (200, job["id"])


def test_a_job_of_the_host_alone_offers_nothing(quiet: Quiet, tmp_path: Path) -> None:
    """Catches changes of an accelerator that did nothing, whose jobs could be compared with no cycles."""
    job_id = quiet.post({"model": quiet.model, "accelerator": PRESET, "options": {"seed": 40_000}})["id"]
    succeed(quiet, job_id, tmp_path, 0, verified=None)
    found = listed(quiet, job_id)
    assert found["changes"] == []
    assert "nothing ran on the accelerator" in found["left_out"]
    asked = quiet.client.post(f"/v1/jobs/{job_id}/changes", json={"changes": ["memory-inp"]})
    assert (asked.status_code, asked.json()["field"]) == (422, "changes")


def test_what_is_wrong_or_slower_is_not_what_helps_most(quiet: Quiet, base: str, tmp_path: Path) -> None:
    for name, cycles, verified in (("memory-inp", 100, False), ("memory-acc", 1200, True), ("memory-wgt", 900, None)):
        job_id = of(compile_with(quiet, base, name), name)["job"]["id"]
        succeed(quiet, job_id, tmp_path, cycles, verified=verified)
    found = listed(quiet, base)
    assert "wgt of 32 KiB" in found["sentence"], "unverified as the accelerator had no work is no fault"
    assert of(found, "memory-acc")["gain"] == pytest.approx(-0.2)
    assert of(found, "memory-inp")["job"]["verified"] is False


def test_the_jobs_are_found_without_redis_knowing_of_them(quiet: Quiet, base: str, tmp_path: Path) -> None:
    found = compile_with(quiet, base, "memory-inp", "memory-acc")
    done, waiting = (of(found, name)["job"]["id"] for name in ("memory-inp", "memory-acc"))
    succeed(quiet, done, tmp_path, 500)
    connection = connect(str(quiet.settings.redis_url))
    connection.flushall()
    connection.close()
    found = listed(quiet, base)
    assert of(found, "memory-inp")["job"]["id"] == done
    assert of(found, "memory-acc")["job"] == {"id": waiting, "state": "queued", "verified": None}


def test_a_job_that_failed_or_was_canceled_is_made_anew(quiet: Quiet, base: str) -> None:
    first = of(compile_with(quiet, base, "memory-inp"), "memory-inp")["job"]["id"]
    quiet.client.post(f"/v1/jobs/{first}/cancel")
    assert of(listed(quiet, base), "memory-inp")["job"] == {"id": first, "state": "canceled", "verified": None}
    second = of(compile_with(quiet, base, "memory-inp"), "memory-inp")["job"]
    assert second["id"] != first
    assert second["state"] == "queued"
    quiet.client.post(f"/v1/jobs/{second['id']}/cancel")


def test_other_options_are_another_question(quiet: Quiet, base: str, tmp_path: Path) -> None:
    compiled = of(compile_with(quiet, base, "memory-inp"), "memory-inp")
    other = quiet.post({"model": quiet.model, "accelerator": PRESET, "options": {"seed": 1, "limits": "all"}})["id"]
    succeed(quiet, other, tmp_path, 1000)
    assert of(listed(quiet, other), "memory-inp")["job"] is None
    assert of(listed(quiet, base), "memory-inp")["job"] == compiled["job"]
    quiet.client.post(f"/v1/jobs/{compiled['job']['id']}/cancel")


def test_bad_requests_say_which_change(quiet: Quiet, base: str, tmp_path: Path, is_problem: Check) -> None:
    def refusal(body: Any, field: str, job_id: str = base) -> str:
        answer = quiet.client.post(f"/v1/jobs/{job_id}/changes", json=body)
        return str(is_problem(answer, 422, "invalid-request", field)["detail"])

    assert "memory-inp" in refusal({"changes": ["memory-acc", "memory-nothing"]}, "changes.1")
    refusal({"changes": []}, "changes")
    refusal({"change": ["memory-inp"]}, "change")
    assert of(listed(quiet, base), "memory-acc")["job"] is None, "nothing was made of the change before the wrong one"
    full = quiet.post(quiet.request(seed=5))["id"]  # a VTA whose micro-ops are full
    succeed(quiet, full, tmp_path, 10)
    reason = of(listed(quiet, full), "memory-acc")["refused"]
    assert reason in refusal({"changes": ["tile", "memory-acc"]}, "changes.1", full)


def test_a_job_without_a_report_has_none(quiet: Quiet, tmp_path: Path, is_problem: Check) -> None:
    job_id = quiet.post(quiet.request(seed=6))["id"]
    for answer in (
        quiet.client.get(f"/v1/jobs/{job_id}/changes"),
        quiet.client.post(f"/v1/jobs/{job_id}/changes", json={}),
    ):
        is_problem(answer, 409, "conflict", "id")
    quiet.jobs.succeed(job_id, 1, RESULT)  # as an earlier version did, which kept no document
    found = listed(quiet, job_id)
    assert found["changes"] == []
    assert "earlier version" in found["left_out"]


def test_a_program_is_told_why_it_has_none(quiet: Quiet, tmp_path: Path, is_problem: Check) -> None:
    path = tmp_path / "program.zip"
    save_program(small_program(), path)
    uploaded = quiet.client.post("/v1/programs", content=path.read_bytes())
    job_id = quiet.post({"program": uploaded.json()["id"]})["id"]
    quiet.jobs.succeed(job_id, 1, RESULT)
    found = listed(quiet, job_id)
    assert found["changes"] == []
    assert "compiled already" in found["left_out"]
    path = f"/v1/jobs/{job_id}/changes"
    assert quiet.client.post(path, json={}).json() == found, "all that there are is none"
    answer = quiet.client.post(path, json={"changes": ["memory-inp"]})
    assert "compiled already" in is_problem(answer, 422, "invalid-request", "changes")["detail"]


def test_the_jobs_are_their_owners_and_no_readers(quiet: Quiet, base: str, is_problem: Check) -> None:
    made = of(compile_with(quiet, base, "memory-inp"), "memory-inp")["job"]["id"]
    token = ShareLinks(quiet.store).add(ShareTarget("jobs", base), "quiet")
    key = ApiKeys(quiet.store).add("other", "other")[1]
    path = f"/v1/jobs/{base}/changes"
    for headers in ({"Authorization": f"Bearer {key}"}, {"Authorization": ""}):
        shown = quiet.client.get(path, params={"share": token}, headers=headers)
        assert shown.status_code == 200, shown.text
        assert of(shown.json(), "memory-inp")["fields"]
        assert made not in shown.text
        assert quiet.client.get(path, headers=headers).status_code in {401, 404}
        refused = quiet.client.post(path, params={"share": token}, headers=headers, json={})
        assert refused.status_code in {401, 404}
    quiet.client.post(f"/v1/jobs/{made}/cancel")


def test_the_page_comes_without_what_cannot_be_found_out_now(
    quiet: Quiet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_problem: Check
) -> None:
    job_id = quiet.post({"model": quiet.model, "accelerator": PRESET, "options": {"seed": 77}})["id"]
    (tmp_path / "report.json").write_text(reports.report("x").model_dump_json())
    succeed(quiet, job_id, tmp_path, 1000)
    browser = {"Accept": "text/html"}
    assert 'id="change-memory-inp"' in quiet.client.get(f"/jobs/{job_id}", headers=browser).text

    def out_of_time(*_: object) -> None:
        raise LimitError("it took longer than 20 s")

    monkeypatch.setattr(Inspector, "changes", out_of_time)
    page = quiet.client.get(f"/jobs/{job_id}", headers=browser)
    assert page.status_code == 200
    assert "change-memory" not in page.text
    is_problem(quiet.client.get(f"/v1/jobs/{job_id}/changes"), 422, "inspection-failed")


@pytest.mark.slow
def test_a_full_queue_takes_what_it_has_room_for(tmp_path: Path, is_problem: Check) -> None:
    with quiet_service(tmp_path / "service", most_waiting=3) as quiet:
        job_id = quiet.post({"model": quiet.model, "accelerator": PRESET})["id"]
        (tmp_path / "files").mkdir()
        succeed(quiet, job_id, tmp_path / "files", 1000)  # its place in the queue is not given back: no worker takes it
        is_problem(quiet.client.post(f"/v1/jobs/{job_id}/changes", json={}), 429, "queue-full")
        states = [each["job"] and each["job"]["state"] for each in listed(quiet, job_id)["changes"]]
        assert states.count("queued") == 2


@pytest.mark.slow
def test_each_job_that_it_starts_counts_as_a_submission(tmp_path: Path, is_problem: Check) -> None:
    with quiet_service(tmp_path / "service", auth="keys", rate_submissions=3) as quiet:
        job_id = quiet.post({"model": quiet.model, "accelerator": PRESET})["id"]
        (tmp_path / "files").mkdir()
        succeed(quiet, job_id, tmp_path / "files", 1000)
        for _ in range(4):  # one starts a job, the others find it
            compile_with(quiet, job_id, "memory-inp")
        refused = quiet.client.post(f"/v1/jobs/{job_id}/changes", json={})
        is_problem(refused, 429, "rate-limited")
        assert int(refused.headers["Retry-After"]) > 0
        states = [each["job"] and each["job"]["state"] for each in listed(quiet, job_id)["changes"]]
        assert states.count("queued") == 2
