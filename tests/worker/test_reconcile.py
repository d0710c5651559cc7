from datetime import timedelta
from pathlib import Path

import pytest

from worker import reconcile as module
from worker.jobs import JobRequest, Jobs, now
from worker.queue import JobQueue
from worker.reconcile import reconcile, sweep
from worker.store import Store


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE", timedelta(0))


def test_an_accepted_job_that_redis_lost_is_enqueued_again(jobs: Jobs, queue: JobQueue, request_: JobRequest) -> None:
    job_id = jobs.create(request_)
    reconcile(jobs, queue)
    assert queue.rq.job_ids == [job_id]
    reconcile(jobs, queue)
    assert queue.rq.job_ids == [job_id]


def test_a_job_that_just_came_is_left_alone(
    jobs: Jobs, queue: JobQueue, request_: JobRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GRACE", timedelta(seconds=5))
    jobs.create(request_)
    reconcile(jobs, queue)
    assert queue.rq.job_ids == []


def test_a_job_left_running_by_a_dead_worker_fails(jobs: Jobs, queue: JobQueue, request_: JobRequest) -> None:
    job_id = jobs.create(request_)
    jobs.progress(job_id, now(), None)
    reconcile(jobs, queue)
    job = jobs.get(job_id)
    assert job.state == "failed"
    assert job.error.type == "/problems/worker-lost"
    assert jobs.open_ids() == []


def test_ended_and_half_created_jobs(jobs: Jobs, queue: JobQueue, request_: JobRequest, store: Store) -> None:
    ended = jobs.create(request_)
    jobs.cancel(ended)
    store.create(f"open/{ended}", b"")
    store.create("open/" + "0" * 32, b"")
    reconcile(jobs, queue)
    assert queue.rq.job_ids == []
    assert jobs.open_ids() == ["0" * 32]


def test_directories_of_ended_jobs_are_swept(jobs: Jobs, request_: JobRequest, tmp_path: Path) -> None:
    ended, running = jobs.create(request_), jobs.create(request_)
    jobs.cancel(ended)
    for name in (f"job-{ended}", f"job-{running}", "job-unknown", "upload-x"):
        (tmp_path / "scratch" / name / "out").mkdir(parents=True)
    sweep(jobs, tmp_path / "scratch")
    assert {path.name for path in (tmp_path / "scratch").iterdir()} == {f"job-{running}", "upload-x"}
