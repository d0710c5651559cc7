"""The events of one job for one client, in order and each once, as server-sent events.

While the job runs they come from its stream in Redis, by the feed that all clients share; what a client has missed is
read from the stream. Once it has ended, the events of its last attempt are in its artifact ``events.jsonl``, and those
of earlier attempts in Redis, for a time. Where events are lost, an event ``gap`` says how many.
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

_RETRY_SECONDS = 1.0
_PIECE = 64 << 10


class JobEvent(NamedTuple):
    """A server-sent event; ``data`` is a JSON document."""

    id: str
    kind: str
    data: str


def _event(event_id: str, kind: str, **data: Any) -> JobEvent:
    return JobEvent(event_id, kind, json.dumps(data, separators=(",", ":")))


class JobFollower:
    """Follows a job for one client.

    Args:
        hub: the event hub, which all clients share.
        store: the store.
        describe: returns a job's resource as JSON.
        heartbeat: most seconds without a byte to the client.
        job_id: the job.
        resume: what the client has already.
    """

    def __init__(
        self,
        hub: EventHub,
        store: Store,
        describe: Callable[[Job], str],
        heartbeat: float,
        job_id: str,
        resume: ResumePoint,
    ) -> None:
        self._hub = hub
        self._store = store
        self._jobs = Jobs(store)
        self._describe = describe
        self._heartbeat = heartbeat
        self._job_id = job_id
        self._cursor = resume.cursor
        self._position = resume.position

    async def events(self) -> AsyncGenerator[list[JobEvent], None]:
        """Yields new events until the job has ended and its last event is sent; an empty list is a heartbeat.

        Raises:
            KeyError: there is no such job.
            StoreUnavailableError: the store cannot be reached.
        """
        job, last = await self._job(), None
        if self._cursor < QUEUED:
            yield [_event(QUEUED.text, "state", state="queued", time=event_time(job.created))]
            self._cursor = QUEUED
        if not job.ended:
            with self._hub.watch(self._job_id, self._cursor) as feed:
                async for new in self._live(feed):
                    yield new
                if not feed.ended:
                    return
                last = feed.last
            job = await self._job()
        async for new in self._finished(job, last):
            yield new
        yield [JobEvent(END.text, "end", self._describe(job))]

    async def _live(self, feed: JobFeed) -> AsyncGenerator[list[JobEvent], None]:
        """Yields events until the job has ended, or the api shuts down."""
        job = await self._job()
        if job.state == "queued":
            feed.queued = True
            (feed.position,) = await self._hub.positions([self._job_id])
        while entries := await self._hub.read_stream(self._job_id, self._cursor):
            yield self._events_of(entries)
        feed.attempt = job.attempt
        feed.ended = feed.ended or job.ended
        while True:
            change = feed.change
            while new := await self._next(feed):
                yield new
            if feed.ended or self._hub.closing:
                return
            if await self._is_silent(feed, change):
                yield []

    async def _job(self) -> Job:
        return await run_in_threadpool(self._jobs.get, self._job_id)

    async def _is_silent(self, feed: JobFeed, change: asyncio.Event) -> bool:
        """Waits for a change; returns whether none came before a heartbeat is due."""
        behind = (
            feed.read > self._cursor and feed.since(self._cursor) is None
        )  # Redis could not be reached when the stream was read
        try:
            async with asyncio.timeout(_RETRY_SECONDS if behind else self._heartbeat):
                await change.wait()
        except TimeoutError:
            return True
        return False

    async def _next(self, feed: JobFeed) -> list[JobEvent]:
        """Returns the next events of a job that has not ended, a chunk at most."""
        entries = feed.since(self._cursor)
        if entries is None:
            entries = await self._hub.read_stream(self._job_id, self._cursor)
        if entries:
            return self._events_of(entries)
        if feed.ended:
            return []
        if feed.attempt is not None and feed.attempt > self._cursor.attempt:
            return self._started(feed.attempt)  # the store knows of it; its events in Redis may come later
        if feed.queued and feed.position not in {None, self._position}:
            self._position = feed.position
            # the id of a job that is queued again must not lead back before the events of its attempt
            name = f"{QUEUED.text}-{self._position}" if self._cursor == QUEUED else self._cursor.text
            return [_event(name, "position", position=self._position)]
        return []

    def _events_of(self, entries: list[JournalEntry]) -> list[JobEvent]:
        return [event for entry in entries for event in self._event_of(entry)]

    def _event_of(self, entry: JournalEntry) -> list[JobEvent]:
        """Returns the event of a journal entry, after those that are missing before it; none if the client has it."""
        if entry.cursor <= self._cursor:
            return []
        attempt, number = entry.cursor
        missing = []
        if attempt > self._cursor.attempt and number > 0:
            missing = self._started(attempt)
        known = self._cursor.number if attempt == self._cursor.attempt else -1
        if number > known + 1:
            last = EventCursor(attempt, number - 1)
            missing.append(_event(last.text, "gap", events=number - known - 1))
        self._cursor = entry.cursor
        return [*missing, JobEvent(entry.cursor.text, entry.kind, entry.data)]

    def _started(self, attempt: int) -> list[JobEvent]:
        self._cursor = EventCursor(attempt, 0)
        return [_event(self._cursor.text, "state", state="running", attempt=attempt)]

    async def _finished(self, job: Job, last: EventCursor | None) -> AsyncGenerator[list[JobEvent], None]:
        """Yields the remaining events of a job that has ended."""
        if last is not None and self._cursor >= last:
            return
        artifacts = await run_in_threadpool(Artifacts, self._store, job)
        journaled = bool(job.attempt) and any(item.name == EVENTS_FILE for item in artifacts.all())
        before = EventCursor(job.attempt or 0, 0) if journaled else END
        while entries := await self._hub.read_stream(self._job_id, self._cursor, before):
            yield self._events_of(entries)
        if journaled:
            async for entries in _journal(artifacts):
                yield self._events_of(entries)


async def _journal(artifacts: Artifacts) -> AsyncGenerator[list[JournalEntry], None]:
    """Yields the entries of the artifact, a piece of it at a time."""
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
    """Sends events until they end or the client leaves, and holds one of the slots until then."""

    media_type = EVENT_STREAM_MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[list[JobEvent], None], slots: OwnerSlots, owner: str) -> None:
        self._encoded = _encode_events(events)
        super().__init__(self._encoded, headers=_EVENT_STREAM_HEADERS)
        self._slots = slots
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events."""
        with self._slots.hold(self._owner):
            async with contextlib.aclosing(self._encoded):
                await super().__call__(scope, receive, send)


async def _encode_events(events: AsyncGenerator[list[JobEvent], None]) -> AsyncGenerator[bytes, None]:
    """Encode events as text; the stream ends if the store cannot be reached, and the client reconnects."""
    yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
    # KeyError: the job was deleted meanwhile
    with contextlib.suppress(StoreUnavailableError, KeyError):
        async with contextlib.aclosing(events):
            async for some in events:
                text = "".join(f"id: {event.id}\nevent: {event.kind}\ndata: {event.data}\n\n" for event in some)
                yield text.encode() or _HEARTBEAT
