"""The events of one job for one client, from wherever they are, in order, none of them twice.

While the job runs they come from its stream in Redis, by the feed that all clients share; what a client has missed is
read from the stream. Once it has ended, those of the attempt that ended it are in its artifact ``events.jsonl``, and
those of attempts before that in Redis, for a time. Where events are gone for good, an event ``gap`` says how many.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from service.following.feed import Entry, Feed
from service.following.feeds import Feeds
from service.following.ids import END, QUEUED, Cursor, Place, cursor_of
from worker.records.event_journal import EVENTS_FILE, event_time
from worker.records.job_artifacts import Artifacts
from worker.records.job_record import Job
from worker.records.job_store import Jobs
from worker.storage.object_store import Store

_AGAIN_SECONDS = 1.0
_PIECE = 64 << 10


class Event(NamedTuple):
    """What a client is told; ``data`` is a JSON document."""

    id: str
    kind: str
    data: str


def _event(event_id: str, kind: str, **data: Any) -> Event:
    return Event(event_id, kind, json.dumps(data, separators=(",", ":")))


class Follower:
    """One client.

    Args:
        feeds: what is shared with the others.
        store: the store.
        described: gives the whole of a job's record as JSON.
        heartbeat: most seconds without a word.
        job_id: the job.
        place: what the client has.
    """

    def __init__(
        self,
        feeds: Feeds,
        store: Store,
        described: Callable[[Job], str],
        heartbeat: float,
        job_id: str,
        place: Place,
    ) -> None:
        self._feeds = feeds
        self._store = store
        self._jobs = Jobs(store)
        self._described = described
        self._heartbeat = heartbeat
        self._job_id = job_id
        self._cursor = place.cursor
        self._position = place.position

    async def events(self) -> AsyncGenerator[list[Event], None]:
        """What is new, until the job has ended and its last event is told; an empty list now and then.

        Raises:
            KeyError: there is no such job.
            StoreUnavailableError: the store is away.
        """
        job, last = await self._job(), None
        if self._cursor < QUEUED:
            yield [_event(QUEUED.text, "state", state="queued", time=event_time(job.created))]
            self._cursor = QUEUED
        if not job.ended:
            with self._feeds.watch(self._job_id, self._cursor) as feed:
                async for new in self._live(feed):
                    yield new
                if not feed.ended:
                    return
                last = feed.last
            job = await self._job()
        async for new in self._rest(job, last):
            yield new
        yield [Event(END.text, "end", self._described(job))]

    async def _live(self, feed: Feed) -> AsyncGenerator[list[Event], None]:
        """What happens until the job has ended, or all must leave."""
        job = await self._job()
        if job.state == "queued":
            feed.queued = True
            (feed.position,) = await self._feeds.positions([self._job_id])
        while entries := await self._feeds.stored(self._job_id, self._cursor):
            yield self._all_told(entries)
        feed.attempt = job.attempt
        feed.ended = feed.ended or job.ended
        while True:
            change = feed.change
            while new := await self._new(feed):
                yield new
            if feed.ended or self._feeds.closing:
                return
            if await self._is_silent(feed, change):
                yield []

    async def _job(self) -> Job:
        return await run_in_threadpool(self._jobs.get, self._job_id)

    async def _is_silent(self, feed: Feed, change: asyncio.Event) -> bool:
        """Wait for a change; whether that took so long that the client must hear something."""
        behind = feed.read > self._cursor and feed.after(self._cursor) is None  # Redis was away when it was asked
        try:
            async with asyncio.timeout(_AGAIN_SECONDS if behind else self._heartbeat):
                await change.wait()
        except TimeoutError:
            return True
        return False

    async def _new(self, feed: Feed) -> list[Event]:
        """The next events of a job that has not ended, a chunk of them."""
        entries = feed.after(self._cursor)
        if entries is None:
            entries = await self._feeds.stored(self._job_id, self._cursor)
        if entries:
            return self._all_told(entries)
        if feed.ended:
            return []
        if feed.attempt is not None and feed.attempt > self._cursor.attempt:
            return self._begun(feed.attempt)  # the store knows; what Redis has of it may come later
        if feed.queued and feed.position not in {None, self._position}:
            self._position = feed.position
            # a job that waits again is behind the events of an attempt, which an id must not have anybody told again
            name = f"{QUEUED.text}-{self._position}" if self._cursor == QUEUED else self._cursor.text
            return [_event(name, "position", position=self._position)]
        return []

    def _all_told(self, entries: list[Entry]) -> list[Event]:
        return [event for entry in entries for event in self._told(entry)]

    def _told(self, entry: Entry) -> list[Event]:
        """An entry of the journal, after what is missing before it; nothing if the client has it."""
        if entry.cursor <= self._cursor:
            return []
        attempt, number = entry.cursor
        missing = []
        if attempt > self._cursor.attempt and number > 0:
            missing = self._begun(attempt)
        known = self._cursor.number if attempt == self._cursor.attempt else -1
        if number > known + 1:
            last = Cursor(attempt, number - 1)
            missing.append(_event(last.text, "gap", events=number - known - 1))
        self._cursor = entry.cursor
        return [*missing, Event(entry.cursor.text, entry.kind, entry.data)]

    def _begun(self, attempt: int) -> list[Event]:
        self._cursor = Cursor(attempt, 0)
        return [_event(self._cursor.text, "state", state="running", attempt=attempt)]

    async def _rest(self, job: Job, last: Cursor | None) -> AsyncGenerator[list[Event], None]:
        """All that there is of a job that has ended."""
        if last is not None and self._cursor >= last:
            return
        artifacts = await run_in_threadpool(Artifacts, self._store, job)
        kept = bool(job.attempt) and any(item.name == EVENTS_FILE for item in artifacts.all())
        before = Cursor(job.attempt or 0, 0) if kept else END
        while entries := await self._feeds.stored(self._job_id, self._cursor, before):
            yield self._all_told(entries)
        if kept:
            async for entries in _journal(artifacts):
                yield self._all_told(entries)


async def _journal(artifacts: Artifacts) -> AsyncGenerator[list[Entry], None]:
    """What the artifact has, piece by piece."""
    unfinished = b""
    size = artifacts.get(EVENTS_FILE).bytes
    for begin in range(0, size, _PIECE):
        piece = await run_in_threadpool(artifacts.read, EVENTS_FILE, begin, min(begin + _PIECE, size))
        *lines, unfinished = (unfinished + piece).split(b"\n")
        yield [_entry(line) for line in lines]


def _entry(line: bytes) -> Entry:
    document = json.loads(line)
    data = json.dumps(document["data"], separators=(",", ":"))
    return Entry(cursor_of(document["id"]), document["event"], data)
