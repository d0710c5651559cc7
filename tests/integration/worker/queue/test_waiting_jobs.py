import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.marking import share
from worker.queue import reconciler as reconcile_module
from worker.queue.job_queue import JobQueue
from worker.queue.reconciler import reconcile
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs

OWNERS = st.sampled_from("abc")
JOBS = st.integers(0, 8).map(lambda number: f"{number:032x}")
STEPS = st.one_of(
    st.tuples(st.just("enter"), JOBS, OWNERS),
    st.tuples(st.just("again"), JOBS, OWNERS),
    st.tuples(st.just("leave"), st.lists(JOBS, max_size=2)),
    st.tuples(st.just("take")),
    st.tuples(st.just("over"), JOBS),
)


class Model:
    """The order in a few lines: those again, oldest first; then by turns the oldest of each owner who may."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.again: dict[str, str] = {}
        self.waiting: dict[str, list[str]] = {}  # the owners by their turns
        self.running: dict[str, str] = {}

    def owner(self, job: str) -> str | None:
        return self.again.get(job) or next((owner for owner, jobs in self.waiting.items() if job in jobs), None)

    def enter(self, job: str, owner: str) -> None:
        if self.owner(job) is None:
            self.running.pop(job, None)
            self.waiting[owner] = sorted([*self.waiting.get(owner, []), job])

    def enter_again(self, job: str, owner: str) -> None:
        if job not in self.again:
            self.leave(job)
            self.again[job] = self.running.pop(job, owner)

    def leave(self, job: str) -> None:
        self.again.pop(job, None)
        for owner, jobs in list(self.waiting.items()):
            self.waiting[owner] = [each for each in jobs if each != job]
            if not self.waiting[owner]:
                del self.waiting[owner]

    def take(self) -> str | None:
        if self.again:
            job = min(self.again)
            self.running[job] = self.again.pop(job)
            return job
        running = list(self.running.values())
        owner = next((each for each in self.waiting if running.count(each) < self.most), next(iter(self.waiting), None))
        if owner is None:
            return None
        job, *rest = self.waiting.pop(owner)
        if rest:
            self.waiting[owner] = rest
        self.running[job] = owner
        return job

    def order(self) -> list[str]:
        """Of all that wait, where nothing runs."""
        model = Model(1000)
        model.again, model.waiting = dict(self.again), {owner: list(jobs) for owner, jobs in self.waiting.items()}
        return list(iter(model.take, None))


@pytest.mark.slow
@given(steps=st.lists(STEPS, max_size=40), most=st.integers(1, 3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=share(60))
def test_the_order_is_that_of_the_turns(queue: JobQueue, steps: list[tuple], most: int) -> None:
    queue.connection.flushall()
    model = Model(most)
    for step in steps:
        match step:
            case ("enter", job, owner):
                queue.submit(job, owner=owner)
                model.enter(job, owner)
            case ("again", job, owner):
                queue.submit(job, owner=owner, again=True)
                model.enter_again(job, owner)
            case ("leave", jobs):
                for job in jobs:
                    queue.forget(job)
                    model.leave(job)
                    model.running.pop(job, None)
            case ("take",):
                assert taken(queue, most) == model.take()
            case ("over", job):
                if model.running.pop(job, None):
                    queue.forget(job)
        ordered = model.order()
        assert sorted(queue.waiting.ids()) == sorted(ordered)
        assert positions(queue, ordered) == list(range(len(ordered)))
        for owner in "abc":
            assert queue.waiting.count_of_owner(owner) == len(model.waiting.get(owner, []))


def taken(queue: JobQueue, most: int = 0) -> str | None:
    """What a worker takes that is woken."""
    message = queue.connection.lmove(queue.rq.key, queue.rq.intermediate_queue_key)
    return queue.waiting.take(message.decode(), most) if message is not None else None


def positions(queue: JobQueue, jobs: list[str]) -> list[int]:
    return queue.connection.eval(*queue.waiting.positions(jobs)) if jobs else []


def ids(first: int, count: int) -> list[str]:
    return [f"{number:032x}" for number in range(first, first + count)]


def test_sixty_jobs_of_one_delay_another_by_one(queue: JobQueue) -> None:
    for job in ids(0, 60):
        queue.submit(job, owner="many")
    assert [taken(queue) for _ in range(3)] == ids(0, 3)
    for number, owner in enumerate("abc"):
        queue.submit(ids(100, 3)[number], owner=owner)
    assert positions(queue, [*ids(3, 2), *ids(100, 3)]) == [0, 4, 1, 2, 3]
    for job in ids(0, 3):
        queue.forget(job)
    assert [taken(queue) for _ in range(5)] == [*ids(3, 1), *ids(100, 3), *ids(4, 1)]


def test_one_who_has_half_of_the_workers_lets_others_pass(queue: JobQueue) -> None:
    queue.connection.sadd(f"rq:workers:{queue.rq.name}", *(f"worker-{number}" for number in range(4)))
    for first, owner in ((0, "long"), (100, "short")):
        for job in ids(first, 10):
            queue.submit(job, owner=owner)
    took = [taken(queue) for _ in range(4)]
    assert took == [*ids(0, 1), *ids(100, 1), *ids(1, 1), *ids(101, 1)]
    for number in range(102, 110):  # those of the one end soon, the other's do not
        queue.forget(ids(number - 2, 1)[0])
        assert taken(queue) == ids(number, 1)[0]
    assert taken(queue) == ids(2, 1)[0]  # nobody else waits


def test_what_a_dead_worker_took_does_not_count(queue: JobQueue) -> None:
    for job, owner in zip(ids(0, 4), "aaba", strict=True):
        queue.submit(job, owner=owner)
    assert taken(queue, 1) == ids(0, 1)[0]
    queue.connection.hset("cyclops:waiting:{test.2}:running", ids(0, 1)[0], f"{int(queue.clock()) - 60} a")
    assert taken(queue, 1) == ids(2, 1)[0]
    assert taken(queue, 1) == ids(1, 1)[0]


def test_two_who_take_at_the_same_moment(queue: JobQueue) -> None:
    """The second is done before the first, whose message it takes the job of."""
    for job in ids(0, 3):
        queue.submit(job)
    first, second = (queue.connection.lmove(queue.rq.key, queue.rq.intermediate_queue_key).decode() for _ in range(2))
    assert queue.waiting.take(second, 0) == ids(0, 1)[0]
    assert queue.waiting.take(first, 0) == ids(1, 1)[0]
    assert queue.rq.job_ids == ids(2, 1)
    assert taken(queue) == ids(2, 1)[0]
    assert queue.waiting.take(first, 0) is None


def test_a_message_of_another_version_is_heeded(queue: JobQueue) -> None:
    """It entered the job into no order."""
    queue.submit(ids(1, 1)[0])
    queue._write_message(ids(0, 1)[0], again=True)
    assert [taken(queue), taken(queue)] == ids(0, 2)


def test_a_message_that_went_with_its_worker_is_written_again(
    queue: JobQueue, jobs: Jobs, request_: JobRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile_module, "_APART", 0.0)
    lost, other = jobs.create(request_), jobs.create(request_)
    queue.submit(lost)
    queue.submit(other)
    queue.connection.lmove(queue.rq.key, queue.rq.intermediate_queue_key)
    for _ in range(2):
        assert queue.rq.job_ids == [other]
        reconcile(jobs, queue)
    assert queue.rq.job_ids == [other, lost]
    assert [taken(queue), taken(queue)] == [lost, other]


def test_a_job_counts_while_it_waits(queue: JobQueue) -> None:
    first, second = f"{1:032x}", f"{2:032x}"
    queue.submit(first, owner="a")
    queue.submit(second, owner="a")
    assert (queue.length(), queue.waiting.count_of_owner("a"), queue.waiting.count_of_owner("b")) == (2, 2, 0)
    queue.forget(first)
    assert (queue.length(), queue.waiting.count_of_owner("a")) == (1, 1)


def test_the_reconciler_mends_the_numbers(jobs: Jobs, queue: JobQueue, request_: JobRequest) -> None:
    job_id = jobs.create(request_, "a")
    queue.submit(job_id, owner="a")
    queue.waiting.enter(f"{7:032x}", "b")  # of a process that died before it could enqueue
    reconcile(jobs, queue)
    assert (queue.waiting.count_of_owner("a"), queue.waiting.count_of_owner("b")) == (1, 0)


def test_ten_thousand_leave_at_once(queue: JobQueue) -> None:
    jobs = [f"{number:032x}" for number in range(10_000)]
    with queue.connection.pipeline(transaction=False) as pipeline:
        pipeline.hset("cyclops:waiting:{test.2}:jobs", mapping=dict.fromkeys(jobs, "a"))
        pipeline.hset("cyclops:waiting:{test.2}:owners", "a", 10_000)
        pipeline.execute()
    assert isinstance(queue.connection, redis.Redis)
    assert queue.waiting.count_of_owner("a") == 10_000
    for _ in range(40):
        queue.waiting.remove_stale([])
    assert queue.waiting.count_of_owner("a") == 0
