"""Followers over a real Redis and a real store; the jobs are played by the test."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import redis

from service.events import hub as feeds_module
from service.events.event_ids import resume_point_of
from service.events.follower import JobEvent, JobFollower
from service.events.hub import EventHub
from tests.helpers.records import publish_all
from worker.config.settings import Settings
from worker.queue.job_queue import JobQueue
from worker.records.event_journal import EventJournal, events_key
from worker.records.job_record import Summary
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.storage.connections import open_async_redis
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store
from worker.storage.redis_server import connect

RESULT = Summary(verified=True, cycles=7, macs_share=1.0)
REQUEST = JobRequest(model="a" * 64, accelerator="vta")


class World:
    """One job, those who follow it, and who runs it."""

    def __init__(self, feeds: EventHub, store: Store, connection: redis.Redis, directory: Path) -> None:
        self.feeds = feeds
        self.store = store
        self.jobs = Jobs(store)
        self.queue = JobQueue(connection, "test")
        self.redis = connection
        self.out = directory
        self.id = self.jobs.create(REQUEST)
        self.journal = EventJournal(self.id, 1, connection, 1 << 20)

    def begin(self, attempt: int = 1) -> None:
        self.journal = EventJournal(self.id, attempt, self.redis, 1 << 20)
        self.jobs.progress(self.id, attempt, utc_now(), None)
        self.journal.add("state", {"state": "running", "attempt": attempt})
        self.journal.flush()

    def log(self, *lines: str) -> None:
        for line in lines:
            self.journal.add("log", {"line": line})
        self.journal.flush()

    def end(self, attempt: int = 1, *, told: bool = True) -> None:
        self.out.mkdir(exist_ok=True)
        self.journal.save(self.out)
        publish_all(self.store, self.id, attempt, self.out)
        assert self.jobs.succeed(self.id, attempt, RESULT)
        if told:
            self.queue.publish_end(self.id, self.journal.last)

    def follow(self, last_event_id: str | None = None, heartbeat: float = 15) -> AsyncIterator[list[JobEvent]]:
        place = resume_point_of(last_event_id)
        return JobFollower(self.feeds, self.store, lambda job: f'"{job.state}"', heartbeat, self.id, place).events()

    async def all(self, last_event_id: str | None = None, seconds: float = 10) -> list[JobEvent]:
        async with asyncio.timeout(seconds):
            return [event async for some in self.follow(last_event_id) for event in some]

    async def ids(self, last_event_id: str | None = None, seconds: float = 10) -> list[str]:
        return [event.id for event in await self.all(last_event_id, seconds)]


Play = Callable[[Callable[[World], Awaitable[None]]], None]


@pytest.fixture
def play(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    monkeypatch.setattr(feeds_module, "_POLL_SECONDS", 0.1)

    def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        async def main() -> None:
            settings = Settings(redis_url=redis_url)
            with contextlib.closing(connect(redis_url)) as connection:
                connection.flushall()
                store = Store(tmp_path / "store")
                waiting = JobQueue(connection, "test").waiting
                clients = [open_async_redis(settings, timeout=timeout) for timeout in (None, 1.0)]
                feeds = EventHub(Jobs(store), waiting, *clients)
                async with feeds.run():
                    await scenario(World(feeds, store, connection, tmp_path / "out"))
                assert not feeds._feeds

        asyncio.run(main())

    return run


def test_as_it_happens_and_once_it_is_over(play: Play) -> None:
    async def scenario(world: World) -> None:
        live = asyncio.create_task(world.all())
        await asyncio.sleep(0.2)
        world.begin()
        for number in range(5):
            world.log(f"line {number}")
            await asyncio.sleep(0.02)
        world.end()
        events = await live
        ids = ["queued", *(f"1-{number}" for number in range(6)), "end"]
        assert [event.id for event in events] == ids
        assert [event.kind for event in events] == ["state", "state", *["log"] * 5, "end"]
        assert events[3].data == '{"line":"line 1"}'
        assert events[-1].data == '"succeeded"'
        assert await world.all() == events
        for place, last in enumerate(ids):
            assert await world.ids(last) == ids[place + 1 :] or last == "end"
        world.redis.flushall()
        assert await world.all() == events

    play(scenario)


@pytest.mark.slow
def test_whoever_comes_again_in_the_middle_misses_nothing(play: Play) -> None:
    async def scenario(world: World) -> None:
        async def in_pieces() -> list[str]:
            """A client that leaves after every third event."""
            found: list[str] = []
            while not found or found[-1] != "end":
                stream = world.follow(found[-1] if found else None)
                async with contextlib.aclosing(stream):
                    seen = 0
                    async for some in stream:
                        found += [event.id for event in some[: 3 - seen]]
                        seen += len(some)
                        if seen >= 3:
                            break
            return found

        clients = [asyncio.create_task(in_pieces()) for _ in range(5)]
        world.begin()
        for number in range(100):
            world.log(f"line {number}")
            await asyncio.sleep(0.005)
        world.end()
        for client in clients:
            assert await client == ["queued", *(f"1-{number}" for number in range(101)), "end"]

    play(scenario)


@pytest.mark.slow
def test_whoever_is_slow_misses_nothing(play: Play) -> None:
    async def scenario(world: World) -> None:
        stream = world.follow()
        found = [event.id for event in await anext(stream)]
        world.begin()
        for number in range(0, 1000, 10):
            world.log(*(f"{'x' * 500} {number + step}" for step in range(10)))
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.3)
        world.end()
        async for some in stream:
            found += [event.id for event in some]
        assert found == ["queued", *(f"1-{number}" for number in range(1001)), "end"]

    play(scenario)


def test_another_attempt(play: Play) -> None:
    async def scenario(world: World) -> None:
        live = asyncio.create_task(world.ids())
        await asyncio.sleep(0.1)
        world.begin()
        world.log("one")
        world.begin(2)
        world.log("two")
        world.end(2)
        ids = ["queued", "1-0", "1-1", "2-0", "2-1", "end"]
        assert await live == await world.ids() == ids
        world.redis.flushall()  # what the attempt told that died is gone
        assert await world.ids() == ["queued", "2-0", "2-1", "end"]
        assert await world.ids("1-0") == ["2-0", "2-1", "end"]

    play(scenario)


@pytest.mark.slow
def test_a_job_that_waits_again(play: Play) -> None:
    """The processes of its attempt died."""

    async def scenario(world: World) -> None:
        live = asyncio.create_task(world.all())
        await asyncio.sleep(0.1)
        world.begin()
        world.log("one")
        await asyncio.sleep(0.1)
        assert world.jobs.wait_again(world.id) == 1
        world.queue.submit(world.id, again=True)
        world.queue.publish_wait(world.id, 1)
        world.queue.publish_wait(world.id, 2)  # there is none
        await asyncio.sleep(1.5)  # whoever follows jobs looks at the queue each second
        world.begin(2)
        world.queue.publish_wait(world.id, 1)  # too late
        world.end(2)
        found = await live
        again = ["queued", "1-0", "1-1", "1-2", "1-2", "2-0", "end"]
        assert [event.id for event in found] == again
        assert [json.loads(event.data).get("state") for event in found[3:6:2]] == ["queued", "running"]
        assert (found[4].kind, json.loads(found[4].data)) == ("position", {"position": 0})
        assert await world.ids() == [*again[:4], *again[5:]]
        assert await world.ids("1-2") == ["2-0", "end"]

    play(scenario)


def test_what_is_gone_is_counted(play: Play) -> None:
    async def scenario(world: World) -> None:
        world.begin()
        world.log("one", "two", "three", "four")
        world.redis.xtrim(events_key(world.id), maxlen=2, approximate=False)
        stream = world.follow()
        found = [event for _ in range(2) for event in await anext(stream)]
        await stream.aclose()
        assert [(event.id, event.kind) for event in found] == [
            *[("queued", "state"), ("1-0", "state"), ("1-2", "gap")],
            *[("1-3", "log"), ("1-4", "log")],
        ]
        assert found[2].data == '{"events":2}'
        world.end()
        assert await world.ids("1-0") == ["1-1", "1-2", "1-3", "1-4", "end"]  # all of it was kept

    play(scenario)


def test_an_end_that_redis_does_not_tell(play: Play) -> None:
    async def scenario(world: World) -> None:
        world.begin()
        live = [asyncio.create_task(world.ids()) for _ in range(3)]
        await asyncio.sleep(0.3)
        world.redis.flushall()
        world.journal.add("log", {"line": "nobody hears it"})
        world.end(told=False)
        for client in live:
            assert await client == ["queued", "1-0", "1-1", "end"]

    play(scenario)


@pytest.mark.parametrize("began", [False, True])
def test_a_canceled_job(play: Play, began: bool) -> None:
    async def scenario(world: World) -> None:
        if began:
            world.begin()
            world.log("one")
        live = asyncio.create_task(world.all())
        await asyncio.sleep(0.2)
        assert world.jobs.cancel(world.id)
        world.queue.cancel(world.id)
        async with asyncio.timeout(1):
            events = await live
        assert [event.id for event in events] == ["queued", *(["1-0", "1-1"] if began else []), "end"]
        assert events[-1].data == '"canceled"'
        assert await world.all() == events

    play(scenario)


@pytest.mark.slow
def test_places_in_the_queue(play: Play) -> None:
    async def scenario(world: World) -> None:
        others = [f"{number:032x}" for number in range(2)]
        for job_id in [*others, world.id]:
            world.queue.submit(job_id)
        assert await world.feeds.positions([*others, world.id, "f" * 32]) == [0, 1, 2, None]
        live = asyncio.create_task(world.all())
        for other in others:
            await asyncio.sleep(0.3)
            world.queue.forget(other)
        await asyncio.sleep(0.3)
        world.queue.forget(world.id)
        again = asyncio.create_task(world.ids("queued-0"))
        await asyncio.sleep(0.3)
        world.begin()
        world.end()
        assert [event.id for event in await live] == ["queued", "queued-2", "queued-1", "queued-0", "1-0", "end"]
        assert await again == ["1-0", "end"]

    play(scenario)


def test_silence_is_broken(play: Play) -> None:
    async def scenario(world: World) -> None:
        stream = world.follow(heartbeat=0.05)
        assert await anext(stream)
        for _ in range(3):
            async with asyncio.timeout(10):
                assert await anext(stream) == []
        await stream.aclose()

    play(scenario)


def test_all_leave_when_the_service_does(play: Play) -> None:
    async def scenario(world: World) -> None:
        live = [asyncio.create_task(world.ids()) for _ in range(3)]
        await asyncio.sleep(0.1)
        world.feeds.close()
        async with asyncio.timeout(1):
            assert await asyncio.gather(*live) == [["queued"]] * 3

    play(scenario)


def test_a_job_that_is_gone(play: Play) -> None:
    async def scenario(world: World) -> None:
        live = asyncio.create_task(world.ids())
        await asyncio.sleep(0.2)
        assert world.jobs.withdraw(world.id)
        with pytest.raises(KeyError):
            await live

    play(scenario)
