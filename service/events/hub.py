"""The event hub of one api process: reads the events of all followed jobs over one connection to Redis.

One task reads the streams of all followed jobs with one blocking command. When a stream is added meanwhile, an entry in
a stream of the hub's own interrupts the command. Another task reads the queue positions of all queued jobs at once, and
asks the store which jobs have ended: every few seconds, or each second while Redis cannot be reached.
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
_GRACE_SECONDS = 3.0  # that Redis has for its reply
_GATHER_SECONDS = 0.02  # pause between reads: events that come meanwhile are read together
_RETRY_SECONDS = 0.5
_POLL_SECONDS = 1.0
_POLLS_OF_STORE = 5  # one poll in so many asks the store, while Redis can be reached
_WAKE_SECONDS = 60
_CANCEL_SECONDS = 1.0
_CHUNK = 200
_AT_ONCE = 4  # short commands, each with a connection
_POSITIONS_AT_ONCE = 100  # a script blocks Redis
_AWAY = (redis.RedisError, OSError, TimeoutError)
_Entries = list[tuple[bytes, dict[bytes, bytes]]]
_Read = list[tuple[bytes, _Entries]]


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until all have ended: one that times out at that moment takes the first time for a timeout."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_CANCEL_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


class EventHub:
    """The feeds of all jobs that clients follow or wait for.

    Args:
        jobs: the records of jobs.
        waiting: the jobs in the queue.
        blocking: a connection to Redis whose commands may block.
        quick: a connection to Redis that fails soon if Redis cannot be reached.
    """

    def __init__(
        self, jobs: Jobs, waiting: WaitingJobs, blocking: redis.asyncio.Redis, quick: redis.asyncio.Redis
    ) -> None:
        self._jobs = jobs
        self._waiting = waiting
        self._blocking = blocking
        self._quick = quick
        self._feeds: dict[str, JobFeed] = {}
        self._has_feeds = asyncio.Event()
        self._wake_key = f"cyclops:wake:{secrets.token_hex(8)}"
        self._woken = "0-0"
        self._waking: asyncio.Task[None] | None = None
        self._stale = False
        self._away = False
        self._quick_again = 0.0
        self._short_commands = asyncio.Semaphore(_AT_ONCE)
        self.closing = False

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Read events while the context lasts."""
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._poll())]
        try:
            yield
        finally:
            self.close()
            tasks += [self._waking] if self._waking else []
            await _end(tasks)
            for connection in (self._blocking, self._quick):
                with contextlib.suppress(*_AWAY):
                    await connection.aclose()

    def close(self) -> None:
        """Have all clients leave."""
        self.closing = True
        for feed in self._feeds.values():
            feed.notify()

    @contextlib.contextmanager
    def watch(self, job_id: str, cursor: EventCursor | None = None) -> Iterator[JobFeed]:
        """Returns the job's feed, for a client that has its events up to ``cursor``; None if it waits for the end only.

        Read the job's record inside the context: whatever happens after that is in the feed.
        """
        feed = self._feeds.setdefault(job_id, JobFeed(job_id))
        feed.users += 1
        moved = feed.subscribe(cursor) if cursor is not None else feed.users == 1
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
                    self._has_feeds.clear()

    def _wake(self) -> None:
        self._has_feeds.set()
        self._stale = True
        if self._waking is None:
            self._waking = asyncio.create_task(self._interrupt())

    async def _interrupt(self) -> None:
        """Interrupts the blocking command until it reads every stream that has been added."""
        try:
            while self._stale:
                self._stale = False
                async with self._quick.pipeline(transaction=False) as pipeline:
                    pipeline.xadd(self._wake_key, {"": ""}, maxlen=1)
                    pipeline.expire(self._wake_key, _WAKE_SECONDS)
                    await pipeline.execute()
        except _AWAY:
            pass  # no command is blocking that would have to be interrupted
        finally:
            self._waking = None

    async def _read(self) -> None:
        while True:
            await self._has_feeds.wait()
            try:
                await self._read_once()
            except Exception as error:  # noqa: BLE001 - all clients depend on it
                if not self._away:
                    _log.warning("events cannot be read", exc_info=None if isinstance(error, _AWAY) else error)
                self._away = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                if self._away:  # clients that fell behind can read on
                    self._quick_again = 0.0
                    for feed in self._feeds.values():
                        feed.notify()
                self._away = False
                await asyncio.sleep(_GATHER_SECONDS)

    async def _read_once(self) -> None:
        feeds = {events_key(feed.job_id).encode(): feed for feed in self._feeds.values() if not feed.ended}
        places: dict[bytes | str | memoryview, int | bytes | str | memoryview] = {
            key: feed.read.key for key, feed in feeds.items()
        }
        places[self._wake_key] = self._woken
        block = _RETRY_SECONDS if self._away else _BLOCK_SECONDS
        async with asyncio.timeout(block + _GRACE_SECONDS):
            answer = cast("_Read", await self._blocking.xread(places, count=_CHUNK, block=int(block * 1000)))
        for key, entries in answer:
            if feed := feeds.get(key):
                feed.append(entry_of(*entry) for entry in entries)
            elif entries:
                self._woken = entries[-1][0].decode()

    async def _poll(self) -> None:
        polls = 0
        while True:
            await self._has_feeds.wait()
            await asyncio.sleep(_POLL_SECONDS)
            polls += 1
            try:
                await self._poll_queue()
                if self._away or polls % _POLLS_OF_STORE == 0:
                    await self._poll_store()
            except Exception as error:  # noqa: BLE001 - all clients depend on it
                known = isinstance(error, StoreUnavailableError)
                _log.warning("whether jobs have ended cannot be seen", exc_info=None if known else error)

    async def _poll_queue(self) -> None:
        queued = [feed for feed in self._feeds.values() if feed.listeners and feed.queued and not feed.ended]
        for feed, position in zip(queued, await self.positions([feed.job_id for feed in queued]), strict=True):
            if position != feed.position:
                feed.position = position
                feed.notify()

    async def positions(self, job_ids: Sequence[str]) -> list[int | None]:
        """Returns how many jobs are before each of these in the queue; None for a job that is not queued.

        All are None if Redis cannot be reached. Owners are served in turn: a job that another owner submits later may
        come before.
        """
        if not job_ids or time.monotonic() < self._quick_again:
            return [None] * len(job_ids)
        try:
            found: list[int] = []
            async with self._short_commands:
                for begin in range(0, len(job_ids), _POSITIONS_AT_ONCE):
                    some = job_ids[begin : begin + _POSITIONS_AT_ONCE]
                    found += await cast("Awaitable[list[int]]", self._quick.eval(*self._waiting.positions(some)))
        except _AWAY:
            self._quick_again = time.monotonic() + _POLL_SECONDS
            return [None] * len(job_ids)
        return [position if position >= 0 else None for position in found]

    async def read_stream(self, job_id: str, cursor: EventCursor, before: EventCursor = END) -> list[JournalEntry]:
        """Returns the next entries of the job's stream between two events, a chunk at most; none if Redis is away."""
        if time.monotonic() < self._quick_again:
            return []
        try:
            key, begin, end = events_key(job_id), f"({cursor.key}", f"({before.key}"
            async with self._short_commands:
                found = cast("_Entries", await self._quick.xrange(key, min=begin, max=end, count=_CHUNK))
        except _AWAY:
            self._quick_again = time.monotonic() + _POLL_SECONDS
            return []
        return [entry_of(*entry) for entry in found]

    async def _poll_store(self) -> None:
        watched = [(feed.job_id, feed.queued and feed.listeners > 0) for feed in self._feeds.values() if not feed.ended]
        ended, attempts = await run_in_threadpool(_states, self._jobs, watched, index_away=self._away)
        for job_id, attempt in [*((job_id, None) for job_id in ended), *attempts.items()]:
            if feed := self._feeds.get(job_id):
                feed.ended = feed.ended or job_id in ended
                feed.attempt = attempt
                feed.notify()


def _states(jobs: Jobs, watched: list[tuple[str, bool]], *, index_away: bool) -> tuple[set[str], dict[str, int]]:
    """Returns which of the jobs have ended or are deleted, and the running attempts of those that were queued."""
    # a job that could not be removed from the index of open jobs stays there until it can
    still_open = set() if index_away else set(jobs.open_ids())
    ended = {job_id for job_id, _ in watched if job_id not in still_open and _is_over(job_id, jobs)}
    running = {job.id: job.attempt for job in jobs.existing(job_id for job_id, queued in watched if queued)}
    return ended, {job_id: attempt for job_id, attempt in running.items() if attempt is not None}


def _is_over(job_id: str, jobs: Jobs) -> bool:
    return jobs.ended(job_id) or not jobs.recorded(job_id)
