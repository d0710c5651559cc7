"""The recent events of one job in this process, shared by all clients that follow it."""

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from service.events.event_ids import BEFORE_END, END, EventCursor, cursor_of

_MOST_BYTES = 64 << 10
_ENTRY_BYTES = 300  # what an entry takes beside its text, about


class JournalEntry(NamedTuple):
    """An event of the job's journal; ``data`` is a JSON document."""

    cursor: EventCursor
    kind: str
    data: str


def entry_of(key: bytes | str, fields: Mapping[bytes, bytes]) -> JournalEntry:
    """An entry of the job's stream in Redis."""
    return JournalEntry(cursor_of(key), fields[b"kind"].decode(), fields[b"data"].decode())


class JobFeed:
    """The last events of a job, as many as fit, and its end.

    Attributes:
        job_id: the job.
        listeners: how many follow its events; others only wait for its end.
        read: how far its stream has been read.
        ended: whether the job has ended.
        last: the id of its last event, once that is known.
        queued: whether the job waits, as far as is known.
        position: of the job in the queue, as far as is known.
        attempt: the attempt that runs, where the store told of it.
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

    def join(self, cursor: EventCursor) -> bool:
        """Count a listener who has all up to ``cursor``; whether the stream must be read from another place now."""
        self.listeners += 1
        if self.listeners > 1 or self.read == cursor:
            return False
        self.read = self._floor = cursor
        self._recent.clear()
        self._bytes = 0
        return True

    def take(self, entries: Iterable[JournalEntry]) -> None:
        """Take note of what the stream has after :attr:`read`."""
        for entry in entries:
            if entry.cursor <= self.read:
                continue
            self.read = entry.cursor
            if entry.cursor == END:
                last = json.loads(entry.data)["last"]
                self.last = cursor_of(last) if last else None
                self.ended = True
            else:
                self._keep(entry)
        self.changed()

    def _keep(self, entry: JournalEntry) -> None:
        self.queued = entry.kind == "state" and json.loads(entry.data)["state"] == "queued"
        self._recent.append(entry)
        self._bytes += len(entry.data) + _ENTRY_BYTES
        while self._bytes > _MOST_BYTES:
            dropped = self._recent.popleft()
            self._bytes -= len(dropped.data) + _ENTRY_BYTES
            self._floor = dropped.cursor

    def after(self, cursor: EventCursor) -> list[JournalEntry] | None:
        """What there is after the cursor; None if that is no longer known here."""
        if cursor < self._floor:
            return None
        return [entry for entry in self._recent if entry.cursor > cursor]

    def changed(self) -> None:
        """Have all look again who wait for a :meth:`change`."""
        change, self._change = self._change, asyncio.Event()
        change.set()

    @property
    def change(self) -> asyncio.Event:
        """Is set at the next change: get it, look, then wait for it."""
        return self._change
