import threading
import time

import pytest

from worker.queue import reconciler as module
from worker.queue.job_queue import JobQueue
from worker.queue.lease import lease_key
from worker.queue.reconciler import reconcile, reconciler, take_reconcile_turn
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store, StoreUnavailableError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_APART", 0.05)


def twice(jobs: Jobs, queue: JobQueue) -> None:
    reconcile(jobs, queue)
    time.sleep(0.06)
    reconcile(jobs, queue)


def test_an_accepted_job_that_redis_lost_is_enqueued_again(jobs: Jobs, queue: JobQueue, request_: JobRequest) -> None:
    ids = [jobs.create(request_) for _ in range(3)]
    reconcile(jobs, queue)
    assert queue.rq.job_ids == []  # they may be on their way
    twice(jobs, queue)
    assert queue.rq.job_ids == ids
    twice(jobs, queue)
    assert queue.rq.job_ids == ids


def test_a_job_that_waits_or_runs_is_left_alone(jobs: Jobs, queue: JobQueue, request_: JobRequest) -> None:
    waits, runs = jobs.create(request_), jobs.create(request_)
    queue.submit(waits)
    queue.connection.set(lease_key(runs), b"token")
    twice(jobs, queue)
    assert queue.rq.job_ids == [waits]


def test_a_job_seen_twice_but_found_in_between_is_left_alone(jobs: Jobs, queue: JobQueue, request_: JobRequest) -> None:
    job_id = jobs.create(request_)
    reconcile(jobs, queue)
    queue.connection.set(lease_key(job_id), b"token")
    twice(jobs, queue)
    queue.connection.delete(lease_key(job_id))
    reconcile(jobs, queue)
    assert queue.rq.job_ids == []


def test_ended_withdrawn_and_half_created_jobs(jobs: Jobs, queue: JobQueue, request_: JobRequest, store: Store) -> None:
    ended, withdrawn = jobs.create(request_), jobs.create(request_)
    jobs.cancel(ended)
    jobs.withdraw(withdrawn)
    being_created, never_created = f"{time.time_ns() // 1000:014x}" + "0" * 18, "0" * 32
    for job_id in (ended, withdrawn, being_created, never_created):
        store.create(f"open/{job_id}", b"")
    twice(jobs, queue)
    assert queue.rq.job_ids == []
    assert jobs.open_ids() == [being_created]


def test_a_job_of_a_later_version_is_left_to_later_workers(
    jobs: Jobs, queue: JobQueue, request_: JobRequest, store: Store
) -> None:
    job_id = jobs.create(request_)
    store.write(f"jobs/{job_id}/request.json", b'{"format": 99, "model": [1]}')
    twice(jobs, queue)
    assert queue.rq.job_ids == []
    assert jobs.open_ids() == [job_id]


def test_one_at_a_time(queue: JobQueue) -> None:
    took: list[bool] = []
    threads = [threading.Thread(target=lambda: took.append(take_reconcile_turn(queue, 60))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert took.count(True) == 1
    queue.connection.flushall()
    assert take_reconcile_turn(queue, 0.1)
    deadline = time.monotonic() + 60
    while not take_reconcile_turn(queue, 60):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_thread_of_its_own_outlives_an_outage(
    jobs: Jobs, queue: JobQueue, request_: JobRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([StoreUnavailableError("the store is away")])

    def once_away(*args: object) -> None:
        for error in answers:
            raise error
        reconcile(*args)

    monkeypatch.setattr(module, "reconcile", once_away)
    job_id = jobs.create(request_)
    with reconciler(jobs, queue, 0.1):
        deadline = time.monotonic() + 60
        while queue.rq.job_ids != [job_id] and time.monotonic() < deadline:
            time.sleep(0.02)
    assert queue.rq.job_ids == [job_id]


def test_one_record_that_cannot_be_read_is_no_obstacle(
    jobs: Jobs, queue: JobQueue, request_: JobRequest, store: Store
) -> None:
    broken, whole = jobs.create(request_), jobs.create(request_)
    store.write(f"jobs/{broken}/request.json", b"[]")
    twice(jobs, queue)
    assert queue.rq.job_ids == [whole]


def test_what_is_done_beside_goes_on_though_the_look_fails(
    jobs: Jobs, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise BlockingIOError(11, "no process")

    monkeypatch.setattr(module, "reconcile", fail)
    done = threading.Event()
    errors = iter([RuntimeError("can't start new thread"), OSError(24, "no descriptor")])

    def besides() -> None:
        for error in errors:
            raise error
        done.set()

    with reconciler(jobs, queue, 0.05, besides):
        assert done.wait(60)


def test_a_job_that_rests_comes_to_the_head_in_time(jobs: Jobs, queue: JobQueue, request_: JobRequest) -> None:
    waits, rests, ended = (jobs.create(request_) for _ in range(3))
    queue.submit(waits)
    for job_id in (rests, ended):
        queue.delay(job_id, 60)
    jobs.cancel(ended)
    twice(jobs, queue)
    assert queue.rq.job_ids == [waits]
    for job_id in (rests, ended):
        queue.delay(job_id, 0.01)
    time.sleep(0.02)
    reconcile(jobs, queue)
    assert queue.rq.job_ids == [rests, waits]
    assert queue.due() == []


def test_what_it_asks_of_redis_does_not_grow_with_the_queue(
    jobs: Jobs, queue: JobQueue, request_: JobRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost job among many is found all the same, and one that was taken is looked at each time."""
    monkeypatch.setattr(module, "_AT_ONCE", 3)
    waiting = [jobs.create(request_) for _ in range(20)]
    for job_id in waiting[:-1]:
        queue.submit(job_id)
    message = queue.connection.lmove(queue.rq.key, queue.rq.intermediate_queue_key).decode()
    assert queue.waiting.take(message, 0) == waiting[0]
    queue.connection.set(lease_key(waiting[0]), b"token")
    asked: list[list[str]] = []
    missing = JobQueue.missing
    monkeypatch.setattr(JobQueue, "missing", lambda queue, ids: asked.append(ids) or missing(queue, ids))
    monkeypatch.setattr(JobQueue, "restore_messages", None)  # it reads the queue
    for _ in range(8):
        reconcile(jobs, queue)
    assert all(len(ids) <= 5 and waiting[0] in ids for ids in asked)
    time.sleep(0.06)
    reconcile(jobs, queue)
    assert sorted(queue.waiting.ids()) == waiting[1:]


def test_the_job_of_a_dead_worker_waits_again_before_all_others(
    jobs: Jobs, queue: JobQueue, request_: JobRequest
) -> None:
    ran, waits = jobs.create(request_, "b"), jobs.create(request_)
    queue.submit(waits)
    jobs.progress(ran, 1, utc_now(), None)
    twice(jobs, queue)
    job = jobs.get(ran)
    assert (job.state, job.attempt, job.started) == ("queued", None, None)
    assert queue.connection.eval(*queue.waiting.positions([ran, waits])) == [0, 1]
    assert not queue.connection.exists(lease_key(ran))


def test_a_job_that_is_taken_meanwhile_runs(
    jobs: Jobs, queue: JobQueue, request_: JobRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at its lease and what is done about it."""
    job_id = jobs.create(request_)
    jobs.progress(job_id, 1, utc_now(), None)
    missing = JobQueue.missing

    def then_taken(queue: JobQueue, ids: list[str]) -> list[str]:
        found = missing(queue, ids)
        queue.connection.set(lease_key(job_id), b"token")
        return found

    reconcile(jobs, queue)
    time.sleep(0.06)
    monkeypatch.setattr(JobQueue, "missing", then_taken)
    reconcile(jobs, queue)
    assert jobs.get(job_id).state == "running"
    assert queue.rq.job_ids == []
