"""Schedule of webhook deliveries in Redis: a sorted set of orders by time. It may be lost: the store has the orders.

An order whose job has not ended is never due. One dispatcher at a time follows the schedule, as long as it holds the
lock. An order that it takes is due again after a while, unless it records the outcome, so that none is lost with it.
"""

from collections.abc import Iterable, Sequence
from typing import cast

import redis

from worker.queue.rq_interface import as_text

_NEVER = "+inf"
_LOOK_AT = 2000
_NOW = "local t = redis.call('TIME'); local now = t[1] + t[2] / 1000000\n"
# the first that is due and is none of the owners' who have enough under way; it is due again later
_TAKE = f"""{_NOW}
local busy = {{}}
for i = 2, #ARGV do busy[ARGV[i]] = true end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, {_LOOK_AT})) do
    local owner = redis.call('HGET', KEYS[2], id) or ''
    if not busy[owner] then
        redis.call('ZADD', KEYS[1], string.format('%.6f', now + ARGV[1]), id)
        return {{id, owner}}
    end
end
"""
_AFTER = f"{_NOW} redis.call('ZADD', KEYS[1], string.format('%.6f', now + ARGV[2]), ARGV[1])"
_DUE = f"{_NOW} return redis.call('ZCOUNT', KEYS[1], '-inf', now) > 0 and redis.call('EXISTS', KEYS[2]) == 0"
_KEEP = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]); return 1 end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
"""
_LEAVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class DeliverySchedule:
    """The schedule of one service. Every method raises redis.RedisError if Redis is away. ``name`` is the queue's."""

    def __init__(self, connection: redis.Redis, name: str) -> None:
        self._connection = connection
        self._times, self._owners = f"cyclops:webhooks:{{{name}}}:times", f"cyclops:webhooks:{{{name}}}:owners"
        self._lock, self._swept = f"cyclops:webhooks:{{{name}}}:courier", f"cyclops:webhooks:{{{name}}}:swept"
        self._take = connection.register_script(_TAKE)
        self._after = connection.register_script(_AFTER)
        self._due = connection.register_script(_DUE)
        self._keep = connection.register_script(_KEEP)
        self._leave = connection.register_script(_LEAVE)

    def expect(self, order_id: str, owner: str) -> None:
        """Adds an order whose job has not ended; an existing entry is kept."""
        with self._connection.pipeline() as pipeline:
            pipeline.zadd(self._times, {order_id: _NEVER}, nx=True)
            pipeline.hset(self._owners, order_id, owner)
            pipeline.execute()

    def job_ended(self, job_id: str, client: redis.Redis | None = None) -> None:
        """Makes the order of an ended job due, if there is one. ``client`` is a pipeline to use instead."""
        (client or self._connection).zadd(self._times, {job_id: 0}, xx=True, lt=True)

    def set_due(self, order_id: str, owner: str, seconds: float) -> None:
        """Makes the order due after ``seconds``."""
        self._connection.hset(self._owners, order_id, owner)
        self._after([self._times], [order_id, seconds])

    def remove(self, order_id: str) -> None:
        """Removes the order."""
        with self._connection.pipeline() as pipeline:
            pipeline.zrem(self._times, order_id)
            pipeline.hdel(self._owners, order_id)
            pipeline.execute()

    def anything_due(self) -> bool:
        """Returns whether an order is due and no dispatcher holds the lock."""
        return bool(self._due([self._times, self._lock]))

    def take(self, seconds: float, busy: Iterable[str] = ()) -> tuple[str, str] | None:
        """Returns a due order and its owner, who is not ``busy``; the order is due again after ``seconds``."""
        found = cast("list[bytes] | None", self._take([self._times, self._owners], [seconds, *busy]))
        return None if found is None else (as_text(found[0]), as_text(found[1]))

    def unscheduled(self, order_ids: Sequence[str]) -> list[str]:
        """Returns the orders that are not in the schedule, or are never due."""
        if not order_ids:
            return []
        with self._connection.pipeline(transaction=False) as pipeline:
            for order_id in order_ids:
                pipeline.zscore(self._times, order_id)
            scores = pipeline.execute()
        return [each for each, score in zip(order_ids, scores, strict=True) if score is None or score == float("inf")]

    def may_scan(self, seconds: float) -> bool:
        """Returns whether this process may scan the store for orders; no other may for ``seconds``."""
        return bool(self._connection.set(self._swept, b"", nx=True, px=int(seconds * 1000)))

    def acquire_lock(self, token: str, seconds: float) -> bool:
        """Acquires or renews the dispatcher's lock for ``seconds``; returns whether this token holds it."""
        return bool(self._keep([self._lock], [token, int(seconds * 1000)]))

    def release_lock(self, token: str) -> None:
        """Releases the dispatcher's lock if this token holds it."""
        self._leave([self._lock], [token])
