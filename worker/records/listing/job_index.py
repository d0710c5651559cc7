"""Index of jobs in Redis: sorted sets of ids by owner, source, accelerator and state, and rows, derived from the store.

A job is in four sets: with and without its source (the model or the program), with and without its accelerator. So the
newest of any selection are read off a set for each state, however many jobs there are. All members have one score:
Redis keeps them by their names, and an id begins with the time. A hash for each owner has a row of each job
(``worker/records/listing/job_row.py``), by which its jobs are searched and sorted.

Several processes note one job at a time. So each asks for a stamp before it reads the record, and what was read under
an earlier stamp than that of the row is not noted.

The index is a hint: readers check it against the records and correct it. It may be lost at any time. It is complete
only while a marker key exists, which is lost with it (:meth:`JobIndex.is_complete`); until then it is rebuilt
(``worker/records/listing/job_listing.py``).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

import redis

from worker.records.event_journal import events_key
from worker.records.job_record import Job, State
from worker.records.listing.job_row import JobRow, Verified, decode_rows
from worker.storage.identifiers import owner_digest

_STATES = ("queued", "running", "succeeded", "failed", "canceled")
# the key of the mark is written only if the state of the work is what its author saw: it may have been lost in between
_FINISH = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[2], '1') end"
# notes a job's row, and puts it into the sets or takes it out, as the others say: one command in place of twenty
_PUT = """
local row = redis.call('hget', KEYS[1], ARGV[1])
if row and string.sub(row, 1, 16) > ARGV[2] then return end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
for i = 2, #KEYS do
    if ARGV[i + 2] == '1' then redis.call('zadd', KEYS[i], 0, ARGV[1]) else redis.call('zrem', KEYS[i], ARGV[1]) end
end
"""
_STAMP_DIGITS = 16
# microseconds since 1970, so that stamps ascend even where Redis has lost the last one
_STAMP = """
local time = redis.call('time')
local stamp = math.max(time[1] * 1000000 + time[2], (redis.call('get', KEYS[1]) or 0) + 1)
redis.call('set', KEYS[1], string.format('%.0f', stamp))
return string.format('%016.0f', stamp)
"""
_ADVANCE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) end"


class JobSelection(NamedTuple):
    """A filter of one owner's jobs; None, or nothing, matches any.

    Attributes:
        tags: all of these are the job's.
        words: each is in what is said of the job.
    """

    owner: str
    states: tuple[State, ...] = ()
    source: str | None = None
    accelerator: str | None = None
    tags: tuple[str, ...] = ()
    pinned: bool | None = None
    verified: Verified | None = None
    words: tuple[str, ...] = ()

    @property
    def by_sets(self) -> bool:
        """Whether the index has the selection as sets of its own."""
        return not self.tags and self.pinned is None and self.verified is None and not self.words

    def has(self, job: Job, names: Mapping[str, str]) -> bool:
        """Returns whether the filter matches the job; ``names`` as for :meth:`JobRow.has_words`."""
        return job.owner == self.owner and self.has_row(JobRow.of(job), names)

    def has_row(self, row: JobRow, names: Mapping[str, str]) -> bool:
        """Returns whether the filter matches the row of a job of its owner."""
        return (
            (not self.states or row.state in self.states)
            and self.source in {None, row.model, row.program}
            and self.accelerator in {None, row.accelerator}
            and self.pinned in {None, row.pinned}
            and self.verified in {None, row.verified}
            and all(tag in row.tags for tag in self.tags)
            and (not self.words or row.has_words(self.words, names))
        )


class JobIndex:
    """The index in a Redis. Every method raises redis.RedisError if Redis is away. ``name`` is the queue's."""

    def __init__(self, connection: redis.Redis, name: str) -> None:
        self._connection = connection
        self._home = f"cyclops:index:2:{name}"
        self._open = f"{self._home}:open"
        self._whole = f"{self._home}:whole"
        self._rebuilt = f"{self._home}:rebuilt"
        self._stamp = f"{self._home}:stamp"

    def stamp(self) -> bytes:
        """Returns a stamp, which is higher than all before."""
        return cast("bytes", self._connection.eval(_STAMP, 1, self._stamp))

    def put(self, job: Job, stamp: bytes) -> None:
        """Notes the job in its current state, unless it was noted under a later stamp.

        Args:
            job: its record.
            stamp: the result of :meth:`stamp`, from before the record was read.
        """
        sets = {f"{place}:{state}": state == job.state for place in self._prefixes(job) for state in _STATES}
        sets[self._open] = not job.ended
        inside = ("1" if each else "0" for each in sets.values())
        keys = [self._rows(job.owner), *sets]
        self._connection.eval(_PUT, len(keys), *keys, job.id, stamp, JobRow.of(job).encode(), *inside)

    def remove(self, job: Job) -> None:
        """Removes a deleted job and its events."""
        with self._connection.pipeline() as together:
            for place in self._prefixes(job):
                for state in _STATES:
                    together.zrem(f"{place}:{state}", job.id)
            together.hdel(self._rows(job.owner), job.id)
            together.zrem(self._open, job.id)
            together.delete(events_key(job.id))
            together.execute()

    def drop(self, selection: JobSelection, job_id: str) -> None:
        """Removes from the selection's sets, and from the rows, an id that has no record."""
        with self._connection.pipeline() as together:
            together.hdel(self._rows(selection.owner), job_id)
            for key in self._keys(selection):
                together.zrem(key, job_id)
            together.zrem(self._open, job_id)
            together.execute()

    def newest(self, selection: JobSelection, before: str | None, most: int) -> list[str]:
        """Returns at most ``most`` ids of the selection, newest first, after the id ``before``."""
        highest = f"({before}" if before else "+"
        with self._connection.pipeline() as together:  # no job moves from one set to another meanwhile
            for key in self._keys(selection):
                together.zrevrangebylex(key, highest, "-", 0, most)
            found = cast("list[list[bytes]]", together.execute())
        return sorted({item.decode() for page in found for item in page}, reverse=True)[:most]

    def rows(self, owner: str) -> list[JobRow]:
        """Returns the rows of all jobs of the owner, in any order."""
        lines = cast("list[bytes]", self._connection.hvals(self._rows(owner)))
        return decode_rows(line[_STAMP_DIGITS:] for line in lines)

    def open_ids(self) -> list[str]:
        """Returns the ids of all owners' jobs that are indexed as not ended."""
        return [item.decode() for item in cast("list[bytes]", self._connection.zrange(self._open, 0, -1))]

    def forget_open(self, job_id: str) -> None:
        """Removes from :meth:`open_ids` an id that has no record."""
        self._connection.zrem(self._open, job_id)

    def is_complete(self) -> bool:
        """Returns whether all jobs are indexed."""
        return bool(self._connection.exists(self._whole))

    def rebuild_cursor(self) -> str:
        """Returns the id up to which the index has been rebuilt; empty at the beginning."""
        self._connection.set(self._rebuilt, b"", nx=True)
        return (cast("bytes | None", self._connection.get(self._rebuilt)) or b"").decode()

    def advance_rebuild(self, before: str, now: str) -> None:
        """Moves the rebuild cursor from one id to another, unless Redis lost the cursor meanwhile."""
        self._connection.eval(_ADVANCE, 1, self._rebuilt, before, now)

    def finish_rebuild(self, last: str) -> None:
        """Marks the index as complete up to the last job, unless Redis lost the cursor meanwhile."""
        self._connection.eval(_FINISH, 2, self._rebuilt, self._whole, last)

    def _prefixes(self, job: Job) -> Iterable[str]:
        """Returns the key prefixes of the job's sets, without the state."""
        sources = (job.model or job.program, None)
        accelerators = {job.accelerator, None}
        return [self._prefix(job.owner, source, accelerator) for source in sources for accelerator in accelerators]

    def _rows(self, owner: str) -> str:
        return f"{self._home}:{owner_digest(owner)[:32]}:rows"

    def _prefix(self, owner: str, source: str | None, accelerator: str | None) -> str:
        return f"{self._home}:{owner_digest(owner)[:32]}:{source or '*'}:{accelerator or '*'}"

    def _keys(self, selection: JobSelection) -> list[str]:
        place = self._prefix(selection.owner, selection.source, selection.accelerator)
        return [f"{place}:{state}" for state in selection.states or _STATES]
