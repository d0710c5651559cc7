"""The event hub of one api process: all followed jobs, over one connection to Redis and one look at the store.

A task reads the streams of all followed jobs with one blocking command. A stream that is added meanwhile is made known
to it by an entry in a stream of its own. Another task asks for the queue positions of all waiting jobs at once, and,
where Redis is silent, the store for jobs that have ended: seldom, or each second while Redis is away.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import cast

import redis
import redis.asyncio
from starlette.concurrency import run_in_threadpool

from service.events.event_ids import END, EventCursor
from service.events.job_feed import JobFeed, JournalEntry, entry_of
from worker.queue.waiting_jobs import WaitingJobs
from worker.records.event_journal import events_key
from worker.records.job_store import Jobs
from worker.storage.object_store import StoreUnavailableError

_log = logging.getLogger(__name__)
_BLOCK_SECONDS = 5.0
_GRACE_SECONDS = 3.0  # that Redis has to answer
_GATHER_SECONDS = 0.02  # what comes meanwhile is read at once
_AGAIN_SECONDS = 0.5
_LOOK_SECONDS = 1.0
_LOOKS_BETWEEN = 5  # looks at the store, while Redis tells us what happens
_WAKE_SECONDS = 60
_CHUNK = 200
_AT_ONCE = 4  # quick commands, each with a connection
_POSITIONS_AT_ONCE = 100  # a script keeps Redis from all else
_AWAY = (redis.RedisError, OSError, TimeoutError)
_Entries = list[tuple[bytes, dict[bytes, bytes]]]
_Read = list[tuple[bytes, _Entries]]


class EventHub:
    """The jobs that are followed.

    Args:
        jobs: their records.
        waiting: the jobs that wait in the queue.
        blocking: a Redis whose commands may take long.
        quick: one that fails soon where there is none.
    """

    def __init__(
        self, jobs: Jobs, waiting: WaitingJobs, blocking: redis.asyncio.Redis, quick: redis.asyncio.Redis
    ) -> None:
        self._jobs = jobs
        self._waiting = waiting
        self._blocking = blocking
        self._quick = quick
        self._feeds: dict[str, JobFeed] = {}
        self._some = asyncio.Event()
        self._wake_key = f"cyclops:wake:{secrets.token_hex(8)}"
        self._woken = "0-0"
        self._waking: asyncio.Task[None] | None = None
        self._stale = False
        self._away = False
        self._quick_again = 0.0
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.closing = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read, while the context lasts."""
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._look())]
        try:
            yield
        finally:
            self.close()
            tasks += [self._waking] if self._waking else []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(*_AWAY):
                await self._blocking.aclose()
                await self._quick.aclose()

    def close(self) -> None:
        """Have all leave."""
        self.closing = True
        for feed in self._feeds.values():
            feed.changed()

    @contextlib.contextmanager
    def watch(self, job_id: str, cursor: EventCursor | None = None) -> Iterator[JobFeed]:
        """The job's feed, for who has its events up to ``cursor``; None: for who waits for its end only.

        Look at the job's record inside the context: what comes later is in the feed.
        """
        feed = self._feeds.setdefault(job_id, JobFeed(job_id))
        feed.users += 1
        moved = feed.join(cursor) if cursor is not None else feed.users == 1
        if moved:
            self._wake()
        try:
            yield feed
        finally:
            feed.users -= 1
            feed.listeners -= cursor is not None
            if not feed.users:
                del self._feeds[job_id]
                if not self._feeds:
                    self._some.clear()

    def _wake(self) -> None:
        self._some.set()
        self._stale = True
        if self._waking is None:
            self._waking = asyncio.create_task(self._interrupt())

    async def _interrupt(self) -> None:
        """Have the reader begin anew, as often as a stream has been added since."""
        try:
            while self._stale:
                self._stale = False
                async with self._quick.pipeline(transaction=False) as pipeline:
                    pipeline.xadd(self._wake_key, {"": ""}, maxlen=1)
                    pipeline.expire(self._wake_key, _WAKE_SECONDS)
                    await pipeline.execute()
        except _AWAY:
            pass  # then nothing is being read that would have to be interrupted
        finally:
            self._waking = None

    async def _read(self) -> None:
        while True:
            await self._some.wait()
            try:
                await self._read_once()
            except Exception as error:  # noqa: BLE001 - all who follow depend on it
                if not self._away:
                    _log.warning("events cannot be read", exc_info=None if isinstance(error, _AWAY) else error)
                self._away = True
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                if self._away:  # who fell behind can read on
                    self._quick_again = 0.0
                    for feed in self._feeds.values():
                        feed.changed()
                self._away = False
                await asyncio.sleep(_GATHER_SECONDS)

    async def _read_once(self) -> None:
        feeds = {events_key(feed.job_id).encode(): feed for feed in self._feeds.values() if not feed.ended}
        places: dict[bytes | str | memoryview, int | bytes | str | memoryview] = {
            key: feed.read.key for key, feed in feeds.items()
        }
        places[self._wake_key] = self._woken
        block = _AGAIN_SECONDS if self._away else _BLOCK_SECONDS
        async with asyncio.timeout(block + _GRACE_SECONDS):
            answer = cast("_Read", await self._blocking.xread(places, count=_CHUNK, block=int(block * 1000)))
        for key, entries in answer:
            if feed := feeds.get(key):
                feed.take(entry_of(*entry) for entry in entries)
            elif entries:
                self._woken = entries[-1][0].decode()

    async def _look(self) -> None:
        looks = 0
        while True:
            await self._some.wait()
            await asyncio.sleep(_LOOK_SECONDS)
            looks += 1
            try:
                await self._look_at_queue()
                if self._away or looks % _LOOKS_BETWEEN == 0:
                    await self._look_at_store()
            except Exception as error:  # noqa: BLE001 - all who follow depend on it
                known = isinstance(error, StoreUnavailableError)
                _log.warning("whether jobs have ended cannot be seen", exc_info=None if known else error)

    async def _look_at_queue(self) -> None:
        queued = [feed for feed in self._feeds.values() if feed.listeners and feed.queued and not feed.ended]
        for feed, position in zip(queued, await self.positions([feed.job_id for feed in queued]), strict=True):
            if position != feed.position:
                feed.position = position
                feed.changed()

    async def positions(self, job_ids: Sequence[str]) -> list[int | None]:
        """How many jobs are before each of these in the queue; None for what is not there, or if Redis is away.

        Owners take turns: jobs that others submit later may come before.
        """
        if not job_ids or time.monotonic() < self._quick_again:
            return [None] * len(job_ids)
        try:
            found: list[int] = []
            async with self._turns:
                for begin in range(0, len(job_ids), _POSITIONS_AT_ONCE):
                    some = job_ids[begin : begin + _POSITIONS_AT_ONCE]
                    found += await cast("Awaitable[list[int]]", self._quick.eval(*self._waiting.positions(some)))
        except _AWAY:
            self._quick_again = time.monotonic() + _LOOK_SECONDS
            return [None] * len(job_ids)
        return [position if position >= 0 else None for position in found]

    async def stored(self, job_id: str, cursor: EventCursor, before: EventCursor = END) -> list[JournalEntry]:
        """The next events of the job's stream after one, and before another, a chunk of them; none if Redis is away."""
        if time.monotonic() < self._quick_again:
            return []
        try:
            key, begin, end = events_key(job_id), f"({cursor.key}", f"({before.key}"
            async with self._turns:
                found = cast("_Entries", await self._quick.xrange(key, min=begin, max=end, count=_CHUNK))
        except _AWAY:
            self._quick_again = time.monotonic() + _LOOK_SECONDS
            return []
        return [entry_of(*entry) for entry in found]

    async def _look_at_store(self) -> None:
        watched = [(feed.job_id, feed.queued and feed.listeners > 0) for feed in self._feeds.values() if not feed.ended]
        ended, attempts = await run_in_threadpool(_states, self._jobs, watched, index_away=self._away)
        for job_id, attempt in [*((job_id, None) for job_id in ended), *attempts.items()]:
            if feed := self._feeds.get(job_id):
                feed.ended = feed.ended or job_id in ended
                feed.attempt = attempt
                feed.changed()


def _states(jobs: Jobs, watched: list[tuple[str, bool]], *, index_away: bool) -> tuple[set[str], dict[str, int]]:
    """Which of the jobs have ended, or are gone; of those that were known to wait, the attempts that run."""
    # a job that the index could not be told of is among the open ones until it can
    still_open = set() if index_away else set(jobs.open_ids())
    ended = {job_id for job_id, _ in watched if job_id not in still_open and _is_over(job_id, jobs)}
    running = {job.id: job.attempt for job in jobs.among(job_id for job_id, queued in watched if queued)}
    return ended, {job_id: attempt for job_id, attempt in running.items() if attempt is not None}


def _is_over(job_id: str, jobs: Jobs) -> bool:
    return jobs.ended(job_id) or not jobs.recorded(job_id)
