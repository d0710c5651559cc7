"""The recent events of one job, kept in this process for all clients that follow it."""

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from service.events.event_ids import BEFORE_END, END, EventCursor, cursor_of

_MOST_BYTES = 64 << 10
_ENTRY_BYTES = 300  # that an entry takes beside its text, roughly


class JournalEntry(NamedTuple):
    """An event in the job's journal; ``data`` is a JSON document."""

    cursor: EventCursor
    kind: str
    data: str


def entry_of(key: bytes | str, fields: Mapping[bytes, bytes]) -> JournalEntry:
    """Returns an entry of the job's stream in Redis."""
    return JournalEntry(cursor_of(key), fields[b"kind"].decode(), fields[b"data"].decode())


class JobFeed:
    """The last events of a job, as many as fit into 64 KiB, and whether it has ended.

    Attributes:
        job_id: the job.
        users: clients that follow its events or wait for its end.
        listeners: clients that follow its events.
        read: the event up to which its stream has been read.
        ended: whether the job has ended.
        last: the id of its last event, once it is known.
        queued: whether the job is queued, as far as is known.
        position: its position in the queue, as far as is known.
        attempt: the running attempt, if the store has shown it.
    """

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.users = self.listeners = 0
        self.read = BEFORE_END
        self.ended = self.queued = False
        self.last: EventCursor | None = None
        self.position: int | None = None
        self.attempt: int | None = None
        self._floor = BEFORE_END
        self._recent: deque[JournalEntry] = deque()
        self._bytes = 0
        self._change = asyncio.Event()

    def subscribe(self, cursor: EventCursor) -> bool:
        """Adds a listener that has all events up to ``cursor``; returns whether reading must restart from there."""
        self.listeners += 1
        if self.listeners > 1 or self.read == cursor:
            return False
        self.read = self._floor = cursor
        self._recent.clear()
        self._bytes = 0
        return True

    def append(self, entries: Iterable[JournalEntry]) -> None:
        """Appends the entries that come after :attr:`read`, and wake all who wait for a :attr:`change`."""
        for entry in entries:
            if entry.cursor <= self.read:
                continue
            self.read = entry.cursor
            if entry.cursor == END:
                last = json.loads(entry.data)["last"]
                self.last = cursor_of(last) if last else None
                self.ended = True
            else:
                self._append_one(entry)
        self.notify()

    def _append_one(self, entry: JournalEntry) -> None:
        self.queued = entry.kind == "state" and json.loads(entry.data)["state"] == "queued"
        self._recent.append(entry)
        self._bytes += len(entry.data) + _ENTRY_BYTES
        while self._bytes > _MOST_BYTES:
            dropped = self._recent.popleft()
            self._bytes -= len(dropped.data) + _ENTRY_BYTES
            self._floor = dropped.cursor

    def since(self, cursor: EventCursor) -> list[JournalEntry] | None:
        """Returns the entries after the cursor; None if some of them have been dropped."""
        if cursor < self._floor:
            return None
        return [entry for entry in self._recent if entry.cursor > cursor]

    def notify(self) -> None:
        """Wakes all who wait for a :attr:`change`."""
        change, self._change = self._change, asyncio.Event()
        change.set()

    @property
    def change(self) -> asyncio.Event:
        """An event that is set at the next change: get it, look at the feed, then wait for it."""
        return self._change
