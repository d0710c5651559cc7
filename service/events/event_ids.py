"""The ids of events, and the cursors by which clients resume.

``queued`` and ``queued-3`` (the job is the fourth in the queue); then ``a-n``, event ``n`` of attempt ``a``, as in the
job's journal (``worker/records/event_journal.py``), of which ``a-0`` says that the attempt runs; then ``end``. None of
them depends on where the events are kept, so that a client can resume after any of them.
"""

from typing import NamedTuple

from worker.records.event_journal import END_ID

EVENT_ID_PATTERN = r"^(queued(-\d{1,9})?|[1-9]\d{0,8}-\d{1,9}|end)$"


class EventCursor(NamedTuple):
    """The attempt, and the number of an event in it; a later event compares greater."""

    attempt: int
    number: int

    @property
    def key(self) -> str:
        """The id in Redis after which to read; events before the first attempt are not in Redis."""
        return f"{max(self.attempt, 0)}-{self.number}"

    @property
    def text(self) -> str:
        """The id of the event."""
        if self == END:
            return "end"
        return f"{self.attempt}-{self.number}" if self > QUEUED else "queued"


START = EventCursor(-1, 0)
QUEUED = EventCursor(0, 0)
END = EventCursor(int(END_ID.partition("-")[0]), 0)
BEFORE_END = EventCursor(END.attempt - 1, 0)


class ResumePoint(NamedTuple):
    """What a client has: all events up to a cursor, and the last queue position that it was sent."""

    cursor: EventCursor = START
    position: int | None = None


def resume_point_of(last_event_id: str | None) -> ResumePoint:
    """Returns what a client has whose last event had this id, which matches :data:`EVENT_ID_PATTERN`; None: nothing."""
    if last_event_id is None:
        return ResumePoint()
    if last_event_id == "end":
        return ResumePoint(END)
    first, _, second = last_event_id.partition("-")
    if first == "queued":
        return ResumePoint(QUEUED, int(second) if second else None)
    return ResumePoint(EventCursor(int(first), int(second)))


def cursor_of(key: bytes | str) -> EventCursor:
    """Returns the cursor of an entry in Redis or in the journal, from its id."""
    attempt, _, number = (key.decode() if isinstance(key, bytes) else key).partition("-")
    return EventCursor(int(attempt), int(number))
