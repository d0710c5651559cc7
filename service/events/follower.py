"""The events of one job for one client, from wherever they are, in order, none twice, as server-sent events.

While the job runs they come from its stream in Redis, by the feed that all clients share; what a client has missed is
read from the stream. Once it has ended, those of the attempt that ended it are in its artifact ``events.jsonl``, and
those of attempts before that in Redis, for a time. Where events are gone for good, an event ``gap`` says how many.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from service.auth.concurrency import OwnerSlots
from service.events.event_ids import END, QUEUED, EventCursor, ResumePoint, cursor_of
from service.events.hub import EventHub
from service.events.job_feed import JobFeed, JournalEntry
from worker.records.event_journal import EVENTS_FILE, event_time
from worker.records.job_artifacts import Artifacts
from worker.records.job_record import Job
from worker.records.job_store import Jobs
from worker.storage.object_store import Store, StoreUnavailableError

_AGAIN_SECONDS = 1.0
_PIECE = 64 << 10


class JobEvent(NamedTuple):
    """What a client is told; ``data`` is a JSON document."""

    id: str
    kind: str
    data: str


def _event(event_id: str, kind: str, **data: Any) -> JobEvent:
    return JobEvent(event_id, kind, json.dumps(data, separators=(",", ":")))


class JobFollower:
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
        feeds: EventHub,
        store: Store,
        described: Callable[[Job], str],
        heartbeat: float,
        job_id: str,
        place: ResumePoint,
    ) -> None:
        self._feeds = feeds
        self._store = store
        self._jobs = Jobs(store)
        self._described = described
        self._heartbeat = heartbeat
        self._job_id = job_id
        self._cursor = place.cursor
        self._position = place.position

    async def events(self) -> AsyncGenerator[list[JobEvent], None]:
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
        yield [JobEvent(END.text, "end", self._described(job))]

    async def _live(self, feed: JobFeed) -> AsyncGenerator[list[JobEvent], None]:
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

    async def _is_silent(self, feed: JobFeed, change: asyncio.Event) -> bool:
        """Wait for a change; whether that took so long that the client must hear something."""
        behind = feed.read > self._cursor and feed.after(self._cursor) is None  # Redis was away when it was asked
        try:
            async with asyncio.timeout(_AGAIN_SECONDS if behind else self._heartbeat):
                await change.wait()
        except TimeoutError:
            return True
        return False

    async def _new(self, feed: JobFeed) -> list[JobEvent]:
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

    def _all_told(self, entries: list[JournalEntry]) -> list[JobEvent]:
        return [event for entry in entries for event in self._told(entry)]

    def _told(self, entry: JournalEntry) -> list[JobEvent]:
        """An entry of the journal, after what is missing before it; nothing if the client has it."""
        if entry.cursor <= self._cursor:
            return []
        attempt, number = entry.cursor
        missing = []
        if attempt > self._cursor.attempt and number > 0:
            missing = self._begun(attempt)
        known = self._cursor.number if attempt == self._cursor.attempt else -1
        if number > known + 1:
            last = EventCursor(attempt, number - 1)
            missing.append(_event(last.text, "gap", events=number - known - 1))
        self._cursor = entry.cursor
        return [*missing, JobEvent(entry.cursor.text, entry.kind, entry.data)]

    def _begun(self, attempt: int) -> list[JobEvent]:
        self._cursor = EventCursor(attempt, 0)
        return [_event(self._cursor.text, "state", state="running", attempt=attempt)]

    async def _rest(self, job: Job, last: EventCursor | None) -> AsyncGenerator[list[JobEvent], None]:
        """All that there is of a job that has ended."""
        if last is not None and self._cursor >= last:
            return
        artifacts = await run_in_threadpool(Artifacts, self._store, job)
        kept = bool(job.attempt) and any(item.name == EVENTS_FILE for item in artifacts.all())
        before = EventCursor(job.attempt or 0, 0) if kept else END
        while entries := await self._feeds.stored(self._job_id, self._cursor, before):
            yield self._all_told(entries)
        if kept:
            async for entries in _journal(artifacts):
                yield self._all_told(entries)


async def _journal(artifacts: Artifacts) -> AsyncGenerator[list[JournalEntry], None]:
    """What the artifact has, piece by piece."""
    unfinished = b""
    size = artifacts.get(EVENTS_FILE).bytes
    for begin in range(0, size, _PIECE):
        piece = await run_in_threadpool(artifacts.read, EVENTS_FILE, begin, min(begin + _PIECE, size))
        *lines, unfinished = (unfinished + piece).split(b"\n")
        yield [_entry(line) for line in lines]


def _entry(line: bytes) -> JournalEntry:
    document = json.loads(line)
    data = json.dumps(document["data"], separators=(",", ":"))
    return JournalEntry(cursor_of(document["id"]), document["event"], data)


EVENT_STREAM_MEDIA_TYPE = "text/event-stream"
_EVENT_STREAM_HEADERS = {
    "Content-Type": EVENT_STREAM_MEDIA_TYPE,
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
_RETRY_MILLISECONDS = 1000
_HEARTBEAT = b":\n\n"


class EventStreamResponse(StreamingResponse):
    """Sends events until they are over or the client has gone away, and holds one of the places for so long."""

    media_type = EVENT_STREAM_MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[list[JobEvent], None], places: OwnerSlots, owner: str) -> None:
        self._encoded = _encode_events(events)
        super().__init__(self._encoded, headers=_EVENT_STREAM_HEADERS)
        self._places = places
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        with self._places.taken(self._owner):
            async with contextlib.aclosing(self._encoded):
                await super().__call__(scope, receive, send)


async def _encode_events(events: AsyncGenerator[list[JobEvent], None]) -> AsyncGenerator[bytes, None]:
    """As the client reads them; where the store is away it ends, and the client comes again."""
    yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
    # the job may have been removed meanwhile
    with contextlib.suppress(StoreUnavailableError, KeyError):
        async with contextlib.aclosing(events):
            async for some in events:
                text = "".join(f"id: {event.id}\nevent: {event.kind}\ndata: {event.data}\n\n" for event in some)
                yield text.encode() or _HEARTBEAT
