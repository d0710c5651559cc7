import json
import threading

import pydantic
import pytest

from worker.records.job_record import FORMAT, Stage, Summary
from worker.records.job_request import JobOptions, JobRequest
from worker.records.job_store import Jobs
from worker.records.problem_details import problem
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store

RESULT = Summary(verified=True, cycles=7, macs_share=1.0)


def test_a_job_goes_from_queued_to_succeeded(jobs: Jobs, request_: JobRequest) -> None:
    job_id = jobs.create(request_)
    assert jobs.get(job_id).state == "queued"
    assert jobs.open_ids() == [job_id]

    jobs.progress(job_id, 2, utc_now(), Stage(name="simulate", step=1, total=4))
    running = jobs.get(job_id)
    assert running.state == "running"
    assert running.stage == Stage(name="simulate", step=1, total=4)
    assert running.attempt == 2

    assert jobs.succeed(job_id, 2, RESULT)
    job = jobs.get(job_id)
    assert job.state == "succeeded"
    assert job.result == RESULT
    assert (job.attempt, job.owner, job.format) == (2, "local", FORMAT)
    assert not {"owner", "format"} & job.model_dump().keys()
    assert job.created <= job.started <= job.finished
    assert jobs.open_ids() == []


def test_the_first_end_stays(jobs: Jobs, request_: JobRequest) -> None:
    job_id = jobs.create(request_)
    assert jobs.cancel(job_id)
    assert not jobs.fail(job_id, problem("x", "x", "x"))
    assert not jobs.succeed(job_id, 1, RESULT)
    assert jobs.get(job_id).state == "canceled"


def test_an_ended_job_names_the_attempt_that_ended_it(jobs: Jobs, request_: JobRequest) -> None:
    ended, canceled = jobs.create(request_), jobs.create(request_)
    for job_id in (ended, canceled):
        jobs.progress(job_id, 2, utc_now(), None)
    jobs.fail(ended, problem("x", "x", "x"), attempt=1)  # by one that was taken for dead
    jobs.cancel(canceled)
    assert (jobs.get(ended).attempt, jobs.get(canceled).attempt) == (1, None)


def test_one_end_of_many_at_once(jobs: Jobs, request_: JobRequest) -> None:
    job_id = jobs.create(request_)
    ended: list[bool] = []
    threads = [threading.Thread(target=lambda: ended.append(jobs.cancel(job_id))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended.count(True) == 1


def test_ids_are_newest_first(jobs: Jobs, request_: JobRequest) -> None:
    created = [jobs.create(request_) for _ in range(5)]
    assert jobs.ids() == created[::-1]
    assert len(set(created)) == 5


@pytest.mark.parametrize("job_id", ["", "..", "../models", "0" * 31, "0" * 32, "Z" * 32])
def test_unknown_jobs(jobs: Jobs, job_id: str) -> None:
    with pytest.raises(KeyError):
        jobs.get(job_id)


@pytest.mark.parametrize(
    "options",
    [{"seed": -1}, {"seed": 2**32}, {"seed": 1.5}, {"seed": "1"}, {"trace": 1}, {"inputs": "../x"}, {"colour": "red"}],
)
def test_options_out_of_range(options: dict) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        JobOptions.model_validate(options)
    assert caught.value.errors()[0]["loc"] == tuple(options)


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        ({}, ["model", "program"]),
        ({"model": "a" * 64, "program": "b" * 64, "accelerator": "vta"}, ["model", "program"]),
        ({"model": "a" * 64}, ["accelerator"]),
        ({"model": "a" * 64, "accelerator": "vta", "options": {"engine": "function"}}, ["options.engine"]),
        ({"program": "b" * 64, "options": {"calibration": "c" * 64}}, ["options.calibration"]),
        ({"program": "b" * 64, "options": {"schedule": "quick"}}, ["options.schedule"]),
    ],
)
def test_requests_that_contradict_themselves(request_: dict, fields: list[str]) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        JobRequest.model_validate(request_)
    (error,) = caught.value.errors()
    assert error["ctx"]["fields"] == fields


@pytest.mark.parametrize("engine", ["function", "timing", "both"])
def test_a_program_in_place_of_a_model(jobs: Jobs, engine: str) -> None:
    asked = JobRequest.model_validate({"program": "b" * 64, "options": {"engine": engine}})
    job_id = jobs.create(asked)
    jobs.succeed(job_id, 1, Summary(verified=None, cycles=None, macs_share=None))
    job = jobs.get(job_id)
    assert (job.model, job.program, job.accelerator, job.options.engine) == (None, "b" * 64, None, engine)
    assert job.result == Summary(verified=None, cycles=None, macs_share=None)


def test_a_withdrawn_job_never_was(jobs: Jobs, request_: JobRequest) -> None:
    job_id = jobs.create(request_)
    assert jobs.withdraw(job_id)
    with pytest.raises(KeyError):
        jobs.get(job_id)
    assert not jobs.succeed(job_id, 1, RESULT)
    assert not jobs.runnable(job_id)
    assert jobs.open_ids() == jobs.existing(jobs.ids()) == []


def test_a_job_that_has_ended_is_not_withdrawn(jobs: Jobs, request_: JobRequest) -> None:
    job_id = jobs.create(request_)
    jobs.succeed(job_id, 1, RESULT)
    assert not jobs.withdraw(job_id)
    assert jobs.get(job_id).state == "succeeded"


def test_what_a_worker_may_run(jobs: Jobs, request_: JobRequest, store: Store) -> None:
    job_id = jobs.create(request_)
    assert jobs.runnable(job_id)
    later = json.loads(store.read(f"jobs/{job_id}/request.json")) | {"format": FORMAT + 1, "model": ["of another form"]}
    store.write(f"jobs/{job_id}/request.json", json.dumps(later).encode())
    assert not jobs.runnable(job_id)
    assert not jobs.runnable("f" * 32)
    assert not jobs.runnable("../" + "f" * 29)


def test_the_records_of_an_older_version(store: Store) -> None:
    job_id = "1" * 32
    options = {"seed": 3, "trace": True, "inputs": None, "calibration": None}
    request = {"model": "a" * 64, "accelerator": "vta", "options": options, "created": "2026-01-02T03:04:05Z"}
    error = {"type": "/problems/x", "title": "X.", "status": None, "detail": "x", "field": None, "errors": None}
    end = {"state": "failed", "finished": "2026-01-02T03:05:00Z", "result": None, "error": error}
    for name, document in (("request", request), ("end", end)):
        store.create(f"jobs/{job_id}/{name}.json", json.dumps(document).encode())
    job = Jobs(store).get(job_id)
    assert (job.model, job.program, job.options.seed, job.options.engine) == ("a" * 64, None, 3, "both")
    assert json.loads(job.model_dump_json())["error"] == {"type": "/problems/x", "title": "X.", "detail": "x"}
