"""Which jobs there are, in Redis: sorted sets of ids by owner, source, accelerator and state, made from the store.

A job is in four sets: with and without its source (the model or the program), with and without its accelerator. So the
newest of any selection are read off a set for each state, however many jobs there are. All members have one score:
Redis keeps them by their names, and an id begins with the time.

The index is a hint. Whoever reads it looks at the records, and mends what is not so. It may be lost at any time: it
counts as whole only while a mark is there that is lost with it (:meth:`JobIndex.whole`), and is made anew meanwhile
(``worker/records/job_listing.py``).
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

import redis

from worker.records.event_journal import events_key
from worker.records.job_record import Job, State
from worker.storage.identifiers import owner_digest

_STATES = ("queued", "running", "succeeded", "failed", "canceled")
# the key of the mark is written only if the state of the work is what its author saw: it may have been lost in between
_FINISH = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[2], '1') end"
# puts the first argument into the sets, or takes it out, as the others say: one command in place of twenty
_PUT = """
for i, key in ipairs(KEYS) do
    if ARGV[i + 1] == '1' then redis.call('zadd', key, 0, ARGV[1]) else redis.call('zrem', key, ARGV[1]) end
end
"""
_ADVANCE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) end"


class JobSelection(NamedTuple):
    """Jobs of an owner; None, or no state: any."""

    owner: str
    states: tuple[State, ...] = ()
    source: str | None = None
    accelerator: str | None = None

    def has(self, job: Job) -> bool:
        """Whether the job is one of them."""
        return (
            job.owner == self.owner
            and (not self.states or job.state in self.states)
            and self.source in {None, job.model, job.program}
            and self.accelerator in {None, job.accelerator}
        )


class JobIndex:
    """The index in a Redis; every method raises redis.RedisError if Redis is away. ``name``: of the queue."""

    def __init__(self, connection: redis.Redis, name: str) -> None:
        self._connection = connection
        self._home = f"cyclops:index:1:{name}"
        self._open = f"{self._home}:open"
        self._whole = f"{self._home}:whole"
        self._rebuilt = f"{self._home}:rebuilt"

    def put(self, job: Job) -> None:
        """Note the job as it is now, whatever was noted of it before."""
        sets = {f"{place}:{state}": state == job.state for place in self._places(job) for state in _STATES}
        sets[self._open] = not job.ended
        self._connection.eval(_PUT, len(sets), *sets, job.id, *("1" if inside else "0" for inside in sets.values()))

    def remove(self, job: Job) -> None:
        """Forget a job that is erased, and what it told."""
        with self._connection.pipeline() as together:
            for place in self._places(job):
                for state in _STATES:
                    together.zrem(f"{place}:{state}", job.id)
            together.zrem(self._open, job.id)
            together.delete(events_key(job.id))
            together.execute()

    def drop(self, selection: JobSelection, job_id: str) -> None:
        """Forget what was found in the selection, and has no record."""
        with self._connection.pipeline() as together:
            for key in self._keys(selection):
                together.zrem(key, job_id)
            together.zrem(self._open, job_id)
            together.execute()

    def newest(self, selection: JobSelection, before: str | None, most: int) -> list[str]:
        """Ids of the selection, newest first, from the one that follows ``before``."""
        highest = f"({before}" if before else "+"
        with self._connection.pipeline() as together:  # no job moves from one set to another meanwhile
            for key in self._keys(selection):
                together.zrevrangebylex(key, highest, "-", 0, most)
            found = cast("list[list[bytes]]", together.execute())
        return sorted({item.decode() for page in found for item in page}, reverse=True)[:most]

    def open_ids(self) -> list[str]:
        """Ids of the jobs that had not ended when they were noted, of all owners."""
        return [item.decode() for item in cast("list[bytes]", self._connection.zrange(self._open, 0, -1))]

    def forget_open(self, job_id: str) -> None:
        """Take off :meth:`open_ids` what has no record."""
        self._connection.zrem(self._open, job_id)

    def whole(self) -> bool:
        """Whether all jobs are in it."""
        return bool(self._connection.exists(self._whole))

    def rebuilt(self) -> str:
        """The id up to which it has been made anew; empty at the beginning."""
        self._connection.set(self._rebuilt, b"", nx=True)
        return (cast("bytes | None", self._connection.get(self._rebuilt)) or b"").decode()

    def advance(self, before: str, now: str) -> None:
        """Note that it has been made anew from the one id to the other, unless all was lost meanwhile."""
        self._connection.eval(_ADVANCE, 1, self._rebuilt, before, now)

    def finish(self, last: str) -> None:
        """Note that it is whole, made anew up to the last job, unless all was lost meanwhile."""
        self._connection.eval(_FINISH, 2, self._rebuilt, self._whole, last)

    def _places(self, job: Job) -> Iterable[str]:
        """The job's sets without their states."""
        sources = (job.model or job.program, None)
        accelerators = {job.accelerator, None}
        return [self._place(job.owner, source, accelerator) for source in sources for accelerator in accelerators]

    def _place(self, owner: str, source: str | None, accelerator: str | None) -> str:
        return f"{self._home}:{owner_digest(owner)[:32]}:{source or '*'}:{accelerator or '*'}"

    def _keys(self, selection: JobSelection) -> list[str]:
        place = self._place(selection.owner, selection.source, selection.accelerator)
        return [f"{place}:{state}" for state in selection.states or _STATES]
