import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.driver.job_stages import JOB
from service.http.problems import JOB_TYPES, accel_types
from worker.queue.job_queue import JobQueue
from worker.storage.redis_server import connect
from worker.telemetry.counters import (
    CACHE,
    ENDED,
    FAILED,
    LOST,
    MEASURES,
    OTHER,
    STAGE,
    STAGES,
    WAIT,
    CountedMetric,
    Counters,
    counters_key,
    counts,
    distributions,
    parse_counters,
)

TIMES = CountedMetric("times", "Times.", buckets=(0.1, 1.0, 10.0))


def read(queue: JobQueue) -> dict[str, float]:
    return parse_counters(queue.connection.hgetall(counters_key(queue.name)))


def test_nothing_yet() -> None:
    assert counts(ENDED, {}) == {"succeeded": 0, "failed": 0, "canceled": 0}
    assert counts(LOST, {}) == {"": 0}
    assert counts(FAILED, {}) == {}
    assert distributions(STAGE, {}) == {}
    assert distributions(WAIT, {})[""].total == 0


def test_every_stage_and_problem_has_a_name() -> None:
    stages = {stage.name for stage in JOB.stages}
    assert set(STAGES) == stages | {"fetch", "publish", OTHER}
    assert set(FAILED.values) == {*accel_types(), *JOB_TYPES, "internal-error", OTHER}
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)


@given(st.lists(st.floats(0, 1e5), max_size=30))
def test_a_distribution_counts_what_is_not_above_its_bounds(seconds: list[float]) -> None:
    counters = Counters("q")
    for value in seconds:
        counters.observe(TIMES, value)
    found = distributions(TIMES, {**counters._counts, **counters._sums})[""]
    assert [bound for bound, _ in found.buckets] == ["0.1", "1.0", "10.0", "+Inf"]
    assert [count for _, count in found.buckets] == [
        sum(value <= bound for value in seconds) for bound in (*TIMES.buckets, float("inf"))
    ]
    assert found.total == pytest.approx(sum(seconds))


def test_many_processes_add_up(queue: JobQueue, redis_url: str) -> None:
    def add() -> None:
        connection = connect(redis_url)
        for _ in range(25):
            counters = Counters(queue.name)
            counters.count(CACHE, "hit", 2)
            counters.observe(WAIT, 0.5)
            counters.add(connection)
        connection.close()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(queue)
    assert counts(CACHE, found)["hit"] == 200
    waits = distributions(WAIT, found)[""]
    assert waits.buckets[-1] == ("+Inf", 100)
    assert waits.total == pytest.approx(50)


def test_what_was_added_is_not_added_again(queue: JobQueue) -> None:
    counters = Counters(queue.name)
    counters.count(LOST)
    counters.add(queue.connection)
    counters.add(queue.connection)
    assert counts(LOST, read(queue)) == {"": 1}


def test_clocks_that_differ(queue: JobQueue) -> None:
    counters = Counters(queue.name)
    counters.observe(WAIT, -3.0)
    counters.add(queue.connection)
    assert distributions(WAIT, read(queue))[""].total == 0


def test_without_redis_it_is_lost_and_nobody_is_hurt(tmp_path: Path) -> None:
    counters = Counters("q")
    counters.count(LOST)
    counters.add(connect(f"unix://{tmp_path}/nothing.sock", retries=0))


def test_what_others_wrote_into_the_hash(queue: JobQueue) -> None:
    queue.connection.hset(counters_key(queue.name), mapping={"cyclops_jobs_ended|failed|": "x", "y": "1"})
    assert counts(ENDED, read(queue))["failed"] == 0
