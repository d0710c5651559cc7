"""The waiting jobs in Redis, by owner, and the choice of the next one: owners take turns, each with its oldest job.

RQ's queue has a message for each waiting job, which wakes a worker; the job that it names does not matter. The worker's
job is chosen here (:meth:`WaitingJobs.take`), in one step in Redis: first a job whose process died, then the oldest job
of the owner whose turn it is. An owner who has reached the limit of running jobs is passed over while others wait. A
job enters when it is queued, and leaves when it is taken or forgotten; the reconciler repairs inconsistencies
(:meth:`WaitingJobs.remove_stale`, ``worker/queue/reconciler.py``).
"""

from collections.abc import Collection, Sequence
from typing import Any, cast

import redis

from worker.queue.lease import lease_key
from worker.queue.rq_interface import as_text, queue_keys, workers_key
from worker.storage.identifiers import age

# the keys: the owner of each job that waits; how many jobs of each owner do; the owners by their turns; the jobs that
# have begun before; since when, and of whom, each job is run; what the key of an owner's jobs begins with
_COMMON = """
local jobs, owners, turns, front, running, of = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local function turn_after_all()
    return tonumber(redis.call('ZRANGE', turns, -1, -1, 'WITHSCORES')[2] or '0') + 1
end
local function waits(job)
    local owner = redis.call('HGET', jobs, job)
    return owner and (redis.call('ZSCORE', front, job) or redis.call('ZSCORE', of .. owner, job))
end
local function leave(job)
    local owner = redis.call('HGET', jobs, job)
    if not owner then return end
    redis.call('HDEL', jobs, job)
    if redis.call('ZREM', front, job) == 1 then return owner end
    redis.call('ZREM', of .. owner, job)
    if redis.call('EXISTS', of .. owner) == 0 then redis.call('ZREM', turns, owner) end
    if redis.call('HINCRBY', owners, owner, -1) <= 0 then redis.call('HDEL', owners, owner) end
    return owner
end
"""
# the sets of jobs have one score: Redis keeps them by their ids, which begin with the time
_ENTER = f"""{_COMMON}
local job, owner, again = ARGV[1], ARGV[2], ARGV[3] == '1'
if waits(job) and not (again and not redis.call('ZSCORE', front, job)) then return end
leave(job)
if again then owner = string.match(redis.call('HGET', running, job) or '', '^%d+ (.+)$') or owner end
redis.call('HDEL', running, job)
redis.call('HSET', jobs, job, owner)
if again then
    redis.call('ZADD', front, 0, job)
else
    redis.call('HINCRBY', owners, owner, 1)
    redis.call('ZADD', of .. owner, 0, job)
    if not redis.call('ZSCORE', turns, owner) then redis.call('ZADD', turns, turn_after_all(), owner) end
end
"""
_LEAVE = f"{_COMMON} for _, job in ipairs(ARGV) do leave(job) end"
_TAKE = f"""{_COMMON}
local list, moved, workers = KEYS[7], KEYS[8], KEYS[9]
local given, most, lease, grace = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local now = tonumber(redis.call('TIME')[1])
local counts = {{}}
local known = redis.call('HGETALL', running)
for i = 1, #known, 2 do
    local since, owner = string.match(known[i + 1], '^(%d+) (.*)$')
    if redis.call('EXISTS', lease .. known[i]) == 1 or now - tonumber(since) < grace then
        counts[owner] = (counts[owner] or 0) + 1
    else
        redis.call('HDEL', running, known[i])
    end
end
if not waits(given) and redis.call('HEXISTS', running, given) == 0 then
    local owner = leave(given) or ''  -- it was queued by another version, or its place was lost
    redis.call('HSET', running, given, now .. ' ' .. owner)
    return given
end
if most == 0 then most = math.max(1, math.floor((redis.call('SCARD', workers) + 1) / 2)) end
local chosen, first = redis.call('ZRANGE', front, 0, 0)[1], nil
local turned = not chosen
if not chosen then
    for _, owner in ipairs(redis.call('ZRANGE', turns, 0, -1)) do
        local job = redis.call('ZRANGE', of .. owner, 0, 0)[1]
        first = first or job
        if job and (counts[owner] or 0) < most then
            chosen = job
            break
        end
    end
    chosen = chosen or first
end
if not chosen then return false end
local owner = leave(chosen)
if turned and redis.call('ZSCORE', turns, owner) then redis.call('ZADD', turns, turn_after_all(), owner) end
redis.call('HSET', running, chosen, now .. ' ' .. owner)
if chosen ~= given then
    redis.call('LREM', list, 1, chosen)
    if waits(given) then redis.call('LPUSH', list, given) end
    redis.call('LREM', moved, 1, given)
    redis.call('RPUSH', moved, chosen)
end
return chosen
"""
_POSITIONS = f"""{_COMMON}
local before = redis.call('ZCARD', front)
local counts, places, found = {{}}, {{}}, {{}}
for i, owner in ipairs(redis.call('ZRANGE', turns, 0, -1)) do
    counts[i], places[owner] = redis.call('ZCARD', of .. owner), i
end
for n, job in ipairs(ARGV) do
    local owner = redis.call('HGET', jobs, job)
    local position = owner and redis.call('ZRANK', front, job)
    local rank = owner and not position and places[owner] and redis.call('ZRANK', of .. owner, job)
    if rank then
        position = before + rank
        for i, count in ipairs(counts) do
            if i < places[owner] then position = position + math.min(count, rank + 1) end
            if i > places[owner] then position = position + math.min(count, rank) end
        end
    end
    found[n] = position or -1
end
return found
"""
_AT_ONCE = 1000  # Lua takes no more than some thousand arguments
_GRACE = 15  # seconds from when a job is taken until its lease must be there
_YOUNG = 60.0  # seconds in which a job may be entered that those who look do not know of


class WaitingJobs:
    """The jobs that wait for the workers of one queue. Every method raises redis.RedisError if Redis is away."""

    def __init__(self, connection: redis.Redis, name: str) -> None:
        self._connection = connection
        home = f"cyclops:waiting:{{{name}}}:"
        self._keys = [f"{home}{key}" for key in ("jobs", "owners", "turns", "front", "running", "of:")]
        self._mended = f"{home}mended"
        self._queue = [*queue_keys(name), workers_key(name)]
        self._enter = connection.register_script(_ENTER)
        self._take = connection.register_script(_TAKE)

    def enter(self, job_id: str, owner: str, *, again: bool = False) -> None:
        """Adds a waiting job, unless it waits already; ``again`` puts it ahead of all others."""
        self._enter(self._keys, [job_id, owner, int(again)])

    def leave(self, *job_ids: str, client: redis.Redis | None = None) -> None:
        """Removes jobs; those that do not wait are skipped. ``client`` is a pipeline to use instead."""
        # a pipeline asks whether a script is known, each time: to send it with the others is less
        leave = (client or self._connection).eval
        for begin in range(0, len(job_ids), _AT_ONCE):
            leave(_LEAVE, len(self._keys), *self._keys, *job_ids[begin : begin + _AT_ONCE])

    def take(self, message: str, most: int) -> str | None:
        """Removes and returns the next job, for a worker that has taken a message off the queue.

        Args:
            message: the job that the message names; the message goes back if that job still waits.
            most: jobs of one owner that run at one time while others wait; 0: half of the workers, rounded up.

        Returns:
            The job's id; None if another worker has taken the message's job and no other job waits.
        """
        found = self._take([*self._keys, *self._queue], [message, most, lease_key(""), _GRACE])
        return None if found is None else as_text(cast("bytes", found))

    def finished(self, job_id: str, client: redis.Redis) -> None:
        """Marks a taken job as no longer running; ``client`` is the pipeline to use."""
        client.hdel(self._keys[4], job_id)

    def taken(self) -> list[str]:
        """Returns the jobs that were taken and not yet marked by :meth:`finished`."""
        return [as_text(key) for key in cast("list[bytes]", self._connection.hkeys(self._keys[4]))]

    def are_waiting(self, job_ids: Sequence[str]) -> list[bool]:
        """Returns, for each job, whether it waits."""
        found = cast("list[bytes | None]", self._connection.hmget(self._keys[0], list(job_ids)) if job_ids else [])
        return [owner is not None for owner in found]

    def positions(self, job_ids: Sequence[str]) -> list[Any]:
        """Returns arguments of ``eval`` that give the number of jobs ahead of each; -1 for one that does not wait."""
        return [_POSITIONS, len(self._keys), *self._keys, *job_ids]

    def count_of_owner(self, owner: str) -> int:
        """Returns how many of the owner's jobs wait, without those that wait again."""
        return int(cast("bytes | None", self._connection.hget(self._keys[1], owner)) or 0)

    def count(self) -> int:
        """Returns how many jobs wait."""
        return int(self._connection.hlen(self._keys[0]))

    def ids(self) -> list[str]:
        """Returns the ids of all waiting jobs."""
        return [as_text(key) for key in cast("list[bytes]", self._connection.hkeys(self._keys[0]))]

    def remove_stale(self, open_ids: Collection[str]) -> None:
        """Removes jobs that are not open; each call examines the next part of the waiting jobs."""
        cursor = int(cast("bytes | None", self._connection.get(self._mended)) or 0)
        found = cast("tuple[int, dict[bytes, bytes]]", self._connection.hscan(self._keys[0], cursor, count=_AT_ONCE))
        waiting = [as_text(key) for key in found[1]]
        self.leave(*(job_id for job_id in waiting if job_id not in open_ids and age(job_id) > _YOUNG))
        if found[0]:
            self._connection.set(self._mended, found[0])
        elif cursor:
            self._connection.delete(self._mended)
