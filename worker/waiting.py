"""How many jobs of each owner wait in the queue, in Redis: counted without looking at the queue.

A hash has the owner of each job that waits, another one the number of each owner's. Jobs are entered when they are
queued and leave when they start or are forgotten; what went wrong meanwhile the reconciler mends (:meth:`keep`).
"""

from collections.abc import Collection
from typing import cast

import redis
from rq.utils import as_text

_ENTER = """
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then redis.call('HINCRBY', KEYS[2], ARGV[2], 1) end
"""
_LEAVE = """
for _, job in ipairs(ARGV) do
    local owner = redis.call('HGET', KEYS[1], job)
    if owner then
        redis.call('HDEL', KEYS[1], job)
        if redis.call('HINCRBY', KEYS[2], owner, -1) <= 0 then redis.call('HDEL', KEYS[2], owner) end
    end
end
"""
_AT_ONCE = 1000  # Lua takes no more than some thousand arguments


class Waiting:
    """The numbers of one queue. Every method raises redis.RedisError if Redis is away."""

    def __init__(self, connection: redis.Redis, name: str) -> None:
        self._connection = connection
        self._keys = [f"cyclops:waiting:{{{name}}}:jobs", f"cyclops:waiting:{{{name}}}:owners"]
        self._enter = connection.register_script(_ENTER)

    def enter(self, job_id: str, owner: str) -> None:
        """The job waits; once it is entered this does nothing."""
        self._enter(self._keys, [job_id, owner])

    def leave(self, *job_ids: str, client: redis.Redis | None = None) -> None:
        """The jobs wait no more; those that do not wait are passed over. ``client``: a pipeline that takes it along."""
        # a pipeline asks whether a script is known, each time: to send it with the others is less
        leave = (client or self._connection).eval
        for begin in range(0, len(job_ids), _AT_ONCE):
            leave(_LEAVE, len(self._keys), *self._keys, *job_ids[begin : begin + _AT_ONCE])

    def of(self, owner: str) -> int:
        """How many jobs of the owner wait."""
        return int(cast("bytes | None", self._connection.hget(self._keys[1], owner)) or 0)

    def keep(self, job_ids: Collection[str]) -> None:
        """All others wait no more."""
        known = cast("list[bytes]", self._connection.hkeys(self._keys[0]))
        self.leave(*({as_text(key) for key in known} - set(job_ids)))
