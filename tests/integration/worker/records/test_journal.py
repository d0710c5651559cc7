import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from worker.queue.job_queue import JobQueue
from worker.records.event_journal import END_ID, EVENTS_FILE, EventJournal, events_key
from worker.records.job_record import Stage
from worker.records.job_store import Jobs
from worker.runner.job_reporting import ProgressReporter
from worker.storage.object_store import Store
from worker.storage.redis_server import connect

ID = "0" * 32


@pytest.fixture
def connection(queue: JobQueue) -> redis.Redis:
    return queue.connection


def stream(connection: redis.Redis) -> list[tuple[str, str, object]]:
    entries = connection.xrange(events_key(ID))
    return [(key.decode(), fields[b"kind"].decode(), json.loads(fields[b"data"])) for key, fields in entries]


def lines(count: int) -> list[tuple[str, str, object]]:
    return [(f"1-{number}", "log", {"line": str(number)}) for number in range(count)]


def journal(connection: redis.Redis, attempt: int = 1, most_bytes: int = 10_000, count: int = 0) -> EventJournal:
    found = EventJournal(ID, attempt, connection, most_bytes)
    for number in range(count):
        found.add("log", {"line": str(number)})
    return found


def test_the_stream_and_the_file_have_the_same(connection: redis.Redis, tmp_path: Path) -> None:
    told = journal(connection)
    assert told.last is None
    for number in range(3):
        told.add("log", {"line": str(number)})
        told.flush()
    told.save(tmp_path)
    assert stream(connection) == lines(3)
    assert told.last == "1-2"
    found = [json.loads(line) for line in (tmp_path / EVENTS_FILE).read_text().splitlines()]
    assert [(line["id"], line["event"], line["data"]) for line in found] == lines(3)
    assert connection.ttl(events_key(ID)) > 60


def test_more_than_is_sent_at_once(connection: redis.Redis) -> None:
    journal(connection, most_bytes=10**6, count=1234).flush()
    assert stream(connection) == lines(1234)


def test_a_redis_that_forgot_is_told_again(connection: redis.Redis) -> None:
    told = journal(connection, count=5)
    told.flush()
    connection.flushall()
    told.flush()
    assert stream(connection) == []
    told.add("log", {"line": "5"})
    told.flush()
    assert stream(connection) == lines(6)


def test_a_redis_that_is_away_hears_all_once_it_is_back(
    connection: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = connect(f"unix://{tmp_path}/no.sock", retries=0)
    told = journal(away, count=2)
    told.flush()
    told._connection = connection
    told.add("log", {"line": "2"})
    told.flush()  # it is left alone for a while
    assert stream(connection) == []
    monkeypatch.setattr("worker.records.event_journal.time.monotonic", lambda: 1e12)
    told.flush()
    assert stream(connection) == lines(3)


def test_an_attempt_that_was_taken_the_place_of_is_not_heard(connection: redis.Redis) -> None:
    before, after = journal(connection, 1, count=1), journal(connection, 2, count=1)
    before.flush()
    after.flush()
    before.add("log", {"line": "late"})
    before.flush()
    assert [entry[0] for entry in stream(connection)] == ["1-0", "2-0"]


def test_nothing_comes_after_the_end(connection: redis.Redis) -> None:
    told = journal(connection, count=1)
    told.flush()
    queue = JobQueue(connection, "test")
    queue.publish_end(ID, told.last)
    queue.publish_end(ID)
    told.add("log", {"line": "late"})
    told.flush()
    assert stream(connection) == [*lines(1), (END_ID, "end", {"last": "1-0"})]


def test_so_much_and_no_more(connection: redis.Redis, tmp_path: Path) -> None:
    told = journal(connection, most_bytes=2000)
    for _ in range(100):
        told.add("log", {"line": "\x00\u20ac" * 10})
    told.save(tmp_path)
    assert 1000 < (tmp_path / EVENTS_FILE).stat().st_size < 2200


def test_the_file_is_no_link_that_the_job_made(connection: redis.Redis, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("safe")
    (tmp_path / EVENTS_FILE).symlink_to(victim)
    journal(connection, count=1).save(tmp_path)
    assert victim.read_text() == "safe"


def test_every_stage_is_told_and_steps_are_thinned(connection: redis.Redis, store: Store) -> None:
    reporter = ProgressReporter(ID, 1, Jobs(store), journal(connection), interval=60)
    for name in ("import", "simulate"):
        for step in range(1, 4):
            reporter.stage(Stage(name=name, step=step, total=3))
    told = [(kind, data.get("name")) for _, kind, data in stream(connection)]
    assert told == [("state", None)]  # what comes at once is told together
    time.sleep(0.06)
    reporter.stage(None)
    found = [(kind, data.get("name"), data.get("step")) for _, kind, data in stream(connection)]
    assert found == [("state", None, None), ("stage", "import", 1), ("stage", "simulate", 1)]
    reporter.finish()
    assert stream(connection)[-1][2]["step"] == 3


def test_threads_that_tell_at_one_time(connection: redis.Redis) -> None:
    told = journal(connection, most_bytes=1_000_000)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(1000):
                pool.submit(told.add, "log", {"line": "x"})
                pool.submit(told.flush)
    finally:
        sys.setswitchinterval(before)
    told.flush()
    assert [key for key, _, _ in stream(connection)] == [f"1-{number}" for number in range(1000)]
