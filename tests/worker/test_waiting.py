import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker.job_request import JobRequest
from worker.jobs import Jobs
from worker.queue import JobQueue
from worker.reconcile import reconcile

JOBS = st.sampled_from([f"{number:032x}" for number in range(5)])
STEPS = st.one_of(
    st.tuples(st.just("enter"), JOBS, st.sampled_from("ab")),
    st.tuples(st.just("leave"), st.lists(JOBS)),
    st.tuples(st.just("keep"), st.lists(JOBS)),
)


@given(steps=st.lists(STEPS, max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_the_numbers_are_those_of_the_jobs(queue: JobQueue, steps: list[tuple]) -> None:
    queue.connection.flushall()
    waiting: dict[str, str] = {}
    for step in steps:
        match step:
            case ("enter", job, owner):
                queue.waiting.enter(job, owner)
                waiting.setdefault(job, owner)
            case ("leave", jobs):
                queue.waiting.leave(*jobs)
                waiting = {job: owner for job, owner in waiting.items() if job not in jobs}
            case ("keep", jobs):
                queue.waiting.keep(jobs)
                waiting = {job: owner for job, owner in waiting.items() if job in jobs}
        for owner in "ab":
            assert queue.waiting.of(owner) == list(waiting.values()).count(owner)
    if not waiting:
        assert queue.connection.keys("cyclops:waiting:*") == []


def test_a_job_counts_while_it_waits(queue: JobQueue) -> None:
    first, second = f"{1:032x}", f"{2:032x}"
    queue.submit(first, owner="a")
    queue.submit(second, owner="a")
    assert (queue.length(), queue.waiting.of("a"), queue.waiting.of("b")) == (2, 2, 0)
    queue.forget(first)
    assert (queue.length(), queue.waiting.of("a")) == (1, 1)


def test_the_reconciler_mends_the_numbers(jobs: Jobs, queue: JobQueue, request_: JobRequest) -> None:
    job_id = jobs.create(request_, "a")
    queue.submit(job_id, owner="a")
    queue.waiting.enter(f"{7:032x}", "b")  # of a process that died before it could enqueue
    reconcile(jobs, queue)
    assert (queue.waiting.of("a"), queue.waiting.of("b")) == (1, 0)


def test_ten_thousand_leave_at_once(queue: JobQueue) -> None:
    jobs = [f"{number:032x}" for number in range(10_000)]
    with queue.connection.pipeline(transaction=False) as pipeline:
        pipeline.hset("cyclops:waiting:{test.2}:jobs", mapping=dict.fromkeys(jobs, "a"))
        pipeline.hset("cyclops:waiting:{test.2}:owners", "a", 10_000)
        pipeline.execute()
    assert isinstance(queue.connection, redis.Redis)
    assert queue.waiting.of("a") == 10_000
    queue.waiting.keep([])
    assert queue.waiting.of("a") == 0
