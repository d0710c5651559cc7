"""The events of a job's attempt, in order: in a Redis stream while it runs, in a file once it has ended.

Event ``n`` of attempt ``a`` has the id ``a-n``, in the stream as in the file, so that a reader can switch from
one to the other. Redis accepts ids in rising order only: a repeated event is stored once, and events of a superseded
attempt are rejected. An entry with the highest id marks the end of the job; the result is in its record.
"""

import json
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import redis

from worker.process.scratch import remove_path

EVENTS_FILE = "events.jsonl"  # the artifact
END_ID = f"{2**64 - 1}-0"
_MOST_IN_REDIS = 5000
_SECONDS = 3600  # that Redis keeps them after the last one
_AT_ONCE = 500
_SILENCE = 2.0  # seconds until a Redis that failed is tried again
_LINE = 64  # bytes of a line of the file besides its data, about
# adds events (ARGV[4] and on: id, kind, data of each) if the stream has what was sent before them (ARGV[1], an id).
# One that it has already, or that another attempt's is after, is refused, and passed over.
_ADD = """
local function number(id)
  local attempt, event = string.match(id, "(%d+)-(%d+)")
  return tonumber(attempt), tonumber(event)
end
if ARGV[1] ~= "" then
  local last = redis.call("xrevrange", KEYS[1], "+", "-", "COUNT", 1)[1]
  if not last then return 0 end
  local a, e = number(last[1])
  local attempt, event = number(ARGV[1])
  if a < attempt or (a == attempt and e < event) then return 0 end
end
for i = 4, #ARGV, 3 do
  redis.pcall("xadd", KEYS[1], "MAXLEN", ARGV[2], ARGV[i], "kind", ARGV[i + 1], "data", ARGV[i + 2])
end
redis.call("expire", KEYS[1], ARGV[3])
return 1
"""

# adds an event to those of the attempt ARGV[1], unless another one's, or the end, is after it
_WAITS = """
local last = redis.call("xrevrange", KEYS[1], "+", "-", "COUNT", 1)[1]
local attempt, event = string.match(last and last[1] or ARGV[1] .. "-0", "(%d+)-(%d+)")
if attempt ~= ARGV[1] then return end
local id = attempt .. "-" .. string.format("%d", tonumber(event) + 1)
redis.call("xadd", KEYS[1], id, "kind", "state", "data", ARGV[2])
redis.call("expire", KEYS[1], ARGV[3])
"""


def events_key(job_id: str) -> str:
    """Returns the key of the Redis stream of a job's events: each has ``kind`` and a JSON document ``data``."""
    return f"cyclops:events:{job_id}"


def publish_end(pipeline: redis.Redis, job_id: str, last: str | None = None) -> None:
    """Publishes the end of a job whose record has its end; Redis rejects a repetition.

    Args:
        pipeline: the pipeline that receives the command.
        job_id: the job.
        last: the id of the last event, if it is known.
    """
    pipeline.xadd(events_key(job_id), {"kind": "end", "data": json.dumps({"last": last})}, id=END_ID)
    pipeline.expire(events_key(job_id), _SECONDS)


def publish_wait(connection: redis.Redis, job_id: str, attempt: int) -> None:
    """Publishes that the job waits again after a lost attempt, unless another attempt has begun."""
    data = json.dumps({"state": "queued", "time": event_time(datetime.now(UTC))}, separators=(",", ":"))
    connection.eval(_WAITS, 1, events_key(job_id), attempt, data, _SECONDS)


def event_time(when: datetime) -> str:
    """Returns a UTC time in the format of events and records."""
    return f"{when:%Y-%m-%dT%H:%M:%S.%fZ}"


class _Event(NamedTuple):
    id: str
    kind: str
    data: str


class EventJournal:
    """The events of one attempt, kept in memory too, so that a Redis that lost its data receives them again.

    Thread-safe; :meth:`add` never waits for :meth:`flush`.

    Args:
        job_id: the job.
        attempt: the attempt's number.
        connection: a Redis that fails soon where there is none.
        most_bytes: approximate limit of all events together; later events are dropped.
    """

    def __init__(self, job_id: str, attempt: int, connection: redis.Redis, most_bytes: int) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._connection = connection
        self._left = most_bytes
        self._adding = threading.Lock()
        self._sending = threading.Lock()
        self._events: list[_Event] = []
        self._first = self._sent = 0  # of those that this Redis was sent, and of those that are to be sent
        self._silent_until = 0.0

    @property
    def last(self) -> str | None:
        """The id of the last event."""
        return self._events[-1].id if self._events else None

    def add(self, kind: str, data: Mapping[str, object]) -> None:
        """Appends an event; :meth:`flush` sends it."""
        text = json.dumps(data, separators=(",", ":"))  # in ASCII, whatever it is
        with self._adding:
            self._left -= len(text) + _LINE
            if self._left > 0:
                self._events.append(_Event(f"{self._attempt}-{len(self._events)}", kind, text))

    def flush(self) -> None:
        """Sends pending events to Redis; while Redis is away they stay pending."""
        with self._sending:
            while self._sent < len(self._events) and time.monotonic() >= self._silent_until:
                try:
                    self._send(self._events[self._sent : self._sent + _AT_ONCE])
                except redis.RedisError:
                    self._silent_until = time.monotonic() + _SILENCE

    def _send(self, events: list[_Event]) -> None:
        """Sends events after the last sent one; if Redis has lost that one, restarts without a gap."""
        before = self._events[self._sent - 1].id if self._sent > self._first else ""
        texts = [text for event in events for text in event]
        added = self._connection.eval(_ADD, 1, events_key(self._job_id), before, _MOST_IN_REDIS, _SECONDS, *texts)
        if added:
            self._sent += len(events)
        else:
            self._first = self._sent = max(0, self._sent - _MOST_IN_REDIS)

    def save(self, directory: Path) -> None:
        """Writes ``events.jsonl`` into the directory: a line for each event, with ``id``, ``event`` and ``data``."""
        path = directory / EVENTS_FILE
        remove_path(path)  # a link, perhaps
        with path.open("w", encoding="ascii") as file:
            for event in list(self._events):
                file.write(f'{{"id":"{event.id}","event":"{event.kind}","data":{event.data}}}\n')
