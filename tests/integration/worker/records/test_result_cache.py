from pathlib import Path

import pytest

from accel.catalog.load_accelerator import accelerator_id, load_accelerator, preset_names
from accel.report.provenance import versions
from tests.helpers.records import RESULT, publish_all
from worker.records import result_cache as module
from worker.records.accelerator_store import Accelerators
from worker.records.job_artifacts import discard
from worker.records.job_record import Job
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.records.problem_details import problem
from worker.records.result_cache import ResultCache
from worker.storage.object_store import Store

ASKED = {"model": "a" * 64, "accelerator": "vta", "options": {"seed": 3, "host_nodes": ["b", "a"]}}
MINE = load_accelerator("vta").model_copy(update={"clock_mhz": 123.0})
OTHER = next(name for name in preset_names() if name != "vta")


def request_of(**change: object) -> JobRequest:
    return JobRequest.model_validate(ASKED | change)


@pytest.fixture
def jobs(any_store: Store) -> Jobs:
    return Jobs(any_store)


@pytest.fixture
def answers(any_store: Store, jobs: Jobs) -> ResultCache:
    return ResultCache(any_store, jobs, Accelerators(any_store))


@pytest.fixture
def done(any_store: Store, jobs: Jobs, answers: ResultCache, tmp_path: Path) -> Job:
    """A job of somebody that has succeeded."""
    job_id = jobs.create(request_of(), "somebody")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text("{}")
    publish_all(any_store, job_id, 1, tmp_path / "out")
    jobs.succeed(job_id, 1, RESULT)
    answers.put(jobs.get(job_id))
    return jobs.get(job_id)


def test_the_same_request_has_the_job_for_its_answer(answers: ResultCache, done: Job) -> None:
    assert answers.find(request_of(), "somebody") == done
    assert answers.find(request_of(options={"seed": 3, "host_nodes": ["a", "b", "a"]}), "somebody") == done
    assert answers.find(request_of(accelerator=accelerator_id(load_accelerator("vta"))), "somebody") == done


@pytest.mark.parametrize(
    "change",
    [
        {"model": "b" * 64},
        {"model": None, "program": "a" * 64, "options": {"seed": 3}},
        {"accelerator": OTHER},
        {"options": {"seed": 4, "host_nodes": ["b", "a"]}},
        {"options": {"seed": 3}},
        {"options": {"seed": 3, "host_nodes": ["b", "a"], "trace": False}},
        {"options": {"seed": 3, "host_nodes": ["b", "a"], "inputs": "c" * 64}},
        {"options": {"seed": 3, "host_nodes": ["b", "a"], "calibration": "c" * 64}},
        {"options": {"seed": 3, "host_nodes": ["b", "a"], "verify_seconds": 0}},
        {"options": {"seed": 3, "host_nodes": ["b", "a"], "schedule": "quick"}},
        {"options": {"seed": 3, "host_nodes": ["b", "a"], "dims": {"batch": 4}}},
        {"options": {"seed": 3, "host_nodes": ["b", "a"], "shapes": {"x": [4, 3]}}},
    ],
)
def test_another_request_has_not(answers: ResultCache, done: Job, change: dict) -> None:
    assert answers.find(request_of(**change), "somebody") is None


@pytest.mark.parametrize("owner", ["local", "somebody else", "", "Somebody"])
def test_nobody_has_the_answers_of_another(answers: ResultCache, done: Job, owner: str) -> None:
    assert answers.find(request_of(), owner) is None


def test_an_entry_that_names_the_job_of_another_is_none(answers: ResultCache, done: Job, any_store: Store) -> None:
    any_store.write(answers.key(request_of(), "other"), any_store.read(answers.key(request_of(), "somebody")))
    assert answers.find(request_of(), "other") is None


def test_another_version_asks_anew(answers: ResultCache, done: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMAT", 99)
    assert answers.find(request_of(), "somebody") is None


@pytest.mark.parametrize("library", ["cyclops", "tvm", "onnxruntime", "numpy"])
def test_other_versions_ask_anew(
    answers: ResultCache, done: Job, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setattr(module, "versions", lambda: versions().model_copy(update={library: "99"}))
    assert answers.find(request_of(), "somebody") is None


def test_a_document_in_another_file_asks_anew(
    answers: ResultCache, jobs: Jobs, any_store: Store, tmp_path: Path
) -> None:
    """Its report would name the file that the first job had."""
    owned = Accelerators(any_store).seen_by("somebody")
    request = request_of(accelerator=owned.add(MINE, "1" * 64))
    job_id = jobs.create(request, "somebody", document=owned.source(request.accelerator))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text("{}")
    publish_all(any_store, job_id, 1, tmp_path / "out")
    jobs.succeed(job_id, 1, RESULT)
    answers.put(jobs.get(job_id))
    assert answers.find(request, "somebody") == jobs.get(job_id)
    owned.add(MINE, "2" * 64)
    assert answers.find(request, "somebody") is None
    owned.add(MINE, "1" * 64)
    assert answers.find(request, "somebody") == jobs.get(job_id)


def test_a_job_without_its_artifacts_is_no_answer(answers: ResultCache, done: Job, any_store: Store) -> None:
    discard(any_store, done.id, 1)
    assert answers.find(request_of(), "somebody") is None


def test_a_job_that_is_gone_is_no_answer(answers: ResultCache, done: Job, any_store: Store) -> None:
    any_store.delete(f"jobs/{done.id}/request.json")
    assert answers.find(request_of(), "somebody") is None


@pytest.mark.parametrize("end", ["open", "failed", "canceled"])
def test_only_success_is_an_answer(answers: ResultCache, jobs: Jobs, end: str) -> None:
    job_id = jobs.create(request_of(), "somebody")
    if end == "failed":
        jobs.fail(job_id, problem("x", "x", "x"), 1)
    elif end == "canceled":
        jobs.cancel(job_id)
    answers.put(jobs.get(job_id))
    assert answers.find(request_of(), "somebody") is None


def test_the_last_one_answers(answers: ResultCache, jobs: Jobs, done: Job, any_store: Store, tmp_path: Path) -> None:
    again = jobs.create(request_of(), "somebody")
    publish_all(any_store, again, 2, tmp_path / "out")
    jobs.succeed(again, 2, RESULT)
    answers.put(jobs.get(again))
    assert answers.find(request_of(), "somebody") == jobs.get(again)
