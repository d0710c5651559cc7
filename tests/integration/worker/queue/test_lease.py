import threading
import time

import pytest
import redis

from worker.queue import lease as module
from worker.queue.job_queue import JobQueue
from worker.queue.lease import Lease, lease_key, release_lease, request_stop
from worker.storage.redis_server import connect

ID = "0" * 32


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RENEW_EVERY", 0.05)
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.02)


def lease(queue: JobQueue, token: str = "a", ended: threading.Event | None = None) -> Lease:
    return Lease(queue.connection, ID, token, (ended or threading.Event()).is_set)


def soon(condition: object) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(condition())


def test_one_has_it(queue: JobQueue) -> None:
    assert lease(queue).acquire()
    assert not lease(queue, "b").acquire()
    assert lease(queue).acquire()  # asked again, as when the answer got lost
    assert 5 < queue.connection.ttl(lease_key(ID)) <= 10
    release_lease(queue.connection, ID, "b")
    assert not lease(queue, "b").acquire()
    release_lease(queue.connection, ID, "a")
    assert lease(queue, "b").acquire()


def test_it_is_there_again_after_a_wipe_and_gone_at_the_end(queue: JobQueue) -> None:
    held = lease(queue)
    held.acquire()
    with held:
        queue.connection.flushall()
        assert soon(lambda: queue.connection.get(lease_key(ID)) == b"a")
    assert queue.connection.get(lease_key(ID)) is None


def test_it_notices_the_end(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AT_RECORD_EVERY", 60.0)
    ended = threading.Event()
    with lease(queue, ended=ended) as held:
        ended.set()
        time.sleep(0.1)
        assert not held.stopped()
        request_stop(queue.connection, ID)
        assert soon(held.stopped)


def test_it_notices_the_end_without_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AT_RECORD_EVERY", 0.1)
    ended = threading.Event()
    away = Lease(connect("unix:///nowhere", retries=0), ID, "a", ended.is_set)
    assert away.acquire()
    with away:
        ended.set()
        assert soon(away.stopped)


def test_a_message_alone_stops_nothing(queue: JobQueue) -> None:
    with lease(queue) as held:
        request_stop(queue.connection, ID)
        time.sleep(0.2)
        assert not held.stopped()


def test_who_asks_is_told_that_redis_is_away() -> None:
    with pytest.raises(redis.RedisError):
        request_stop(connect("unix:///nowhere", retries=0), ID)


def test_it_is_kept_while_the_store_hangs(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AT_RECORD_EVERY", 0.02)
    asked, back, answered = threading.Event(), threading.Event(), threading.Event()

    def ended() -> bool:
        asked.set()
        back.wait(60)
        answered.set()
        return False

    held = Lease(queue.connection, ID, "a", ended)
    held.acquire()
    with held:
        assert asked.wait(60)
        queue.connection.delete(lease_key(ID))
        assert soon(lambda: queue.connection.get(lease_key(ID)) == b"a")
    assert not answered.is_set()  # nor is the store waited for at the end
    back.set()
