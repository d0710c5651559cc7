import threading
from collections import Counter

import pytest

from worker.records.idempotency import Idempotency, KeyReusedError, Proposal, SubmissionOutcome, Withdraw, expired_keys
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.storage.identifiers import new_id
from worker.storage.object_store import Store

DAY = 86400


class Door:
    """Makes jobs as the api does; ``fail`` has the next ones fail, before or after the job is recorded."""

    def __init__(self, store: Store) -> None:
        self.store, self.jobs, self.now = store, Jobs(store), 1.5 * DAY
        self.keys = Idempotency(store, self.jobs, DAY, lambda: self.now)
        self.fail: list[str] = []
        self.accepts = 0

    def post(
        self, key: str = "k", request: str = "r", owner: str = "local", cached: str | None = None
    ) -> SubmissionOutcome:
        def begin() -> Proposal:
            return Proposal(cached, cached=True) if cached else Proposal(new_id(), cached=False)

        return self.keys.once(owner, key, request, begin, self.accept)

    def accept(self, job_id: str, withdraw: Withdraw) -> None:
        self.accepts += 1
        fault = self.fail.pop() if self.fail else ""
        if fault == "before":
            raise ConnectionError
        self.jobs.create(JobRequest(model="a" * 64, accelerator="vta"), job_id=job_id)
        if fault == "died":
            raise SystemExit
        if fault == "after" and withdraw(job_id):
            raise ConnectionError


@pytest.fixture
def door(any_store: Store) -> Door:
    return Door(any_store)


def test_the_same_again_has_the_same_job(door: Door) -> None:
    first = door.post()
    assert first == SubmissionOutcome(first.job)
    assert [door.post() for _ in range(3)] == [SubmissionOutcome(first.job, replayed=True)] * 3
    assert door.accepts == 1
    assert len({first.job, door.post("other").job, door.post(owner="other").job}) == 3


def test_another_request_is_refused_and_changes_nothing(door: Door) -> None:
    first = door.post()
    with pytest.raises(KeyReusedError):
        door.post(request="another")
    assert door.post() == SubmissionOutcome(first.job, replayed=True)


def test_a_key_is_good_for_its_time_across_windows(door: Door) -> None:
    first = door.post()
    door.now += DAY - 1
    assert door.post() == SubmissionOutcome(first.job, replayed=True)
    door.now += 2
    second = door.post(request="another")
    assert second.job != first.job
    assert not second.replayed
    door.now += DAY - 1
    assert door.post(request="another") == SubmissionOutcome(second.job, replayed=True)


def test_what_is_refused_leaves_the_key_free(door: Door) -> None:
    def refuse() -> Proposal:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - our own
        door.keys.once("local", "k", "r", refuse, door.accept)
    assert not door.post(request="mended").replayed


@pytest.mark.parametrize("fault", ["before", "died", "after"])
def test_after_a_failure_the_next_one_makes_the_job(door: Door, fault: str) -> None:
    door.fail = [fault]
    with pytest.raises((ConnectionError, SystemExit)):
        door.post()
    recorded = door.jobs.ids() if fault == "died" else []
    done = door.post()
    assert door.jobs.get(done.job).state == "queued"
    assert door.post() == SubmissionOutcome(done.job, replayed=True)
    assert [job.id for job in door.jobs.existing(door.jobs.ids())] == [done.job]
    assert recorded in ([], [done.job])


def test_who_withdrew_and_died_is_helped(door: Door) -> None:
    """Between the word and the deed."""
    door.fail = ["died"]
    with pytest.raises(SystemExit):
        door.post()
    (begun,) = [key for key in door.store.sizes("idempotency") if key.endswith("begun.json")]
    door.store.create(begun.replace("begun", "settled"), b'{"accepted": false}')
    done = door.post()
    assert [job.id for job in door.jobs.existing(door.jobs.ids())] == [done.job]


def test_a_failure_of_one_is_no_withdrawal_of_what_the_other_was_told(door: Door) -> None:
    told: list[SubmissionOutcome] = []

    def slow(job_id: str, withdraw: Withdraw) -> None:
        door.jobs.create(JobRequest(model="a" * 64, accelerator="vta"), job_id=job_id)
        told.append(door.post())  # at the same time, and successfully
        assert not withdraw(job_id)

    done = door.keys.once("local", "k", "r", lambda: Proposal(new_id(), cached=False), slow)
    assert told == [SubmissionOutcome(done.job, replayed=True)]
    assert door.jobs.get(done.job).state == "queued"


def test_an_answer_that_was_there_is_the_answer_again(door: Door) -> None:
    job = door.jobs.create(JobRequest(model="a" * 64, accelerator="vta"))
    assert door.post(cached=job) == SubmissionOutcome(job, cached=True)
    assert door.post() == SubmissionOutcome(job, cached=True, replayed=True)
    assert door.accepts == 0


def test_the_key_of_an_erased_job_is_free(door: Door) -> None:
    first = door.post()
    door.store.delete(f"jobs/{first.job}/request.json")
    second = door.post(request="another")
    assert second.job != first.job
    assert door.post(request="another") == SubmissionOutcome(second.job, replayed=True)


@pytest.mark.slow
def test_many_at_once_make_one_job(door: Door) -> None:
    done: list[SubmissionOutcome] = []
    start = threading.Barrier(12)

    def post() -> None:
        start.wait()
        done.append(door.post())

    threads = [threading.Thread(target=post) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.job for each in done}) == 1
    assert Counter(each.replayed for each in done) == {True: 11, False: 1}
    assert len(door.jobs.ids()) == 1


def test_old_windows_expire(door: Door) -> None:
    door.post()
    made = list(door.store.sizes("idempotency"))
    assert expired_keys(door.store, door.now + DAY) == []
    assert expired_keys(door.store, 2 * DAY + DAY) == made
