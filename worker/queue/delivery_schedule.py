"""When what is to be sent, in Redis: a sorted set of orders by time. It may be lost: the store has the orders.

An order whose job has not ended is due never. One courier at a time goes by the agenda, as long as it keeps the lock;
whatever it takes is due again after a while, unless it says what came of it, so that nothing is lost with it.
"""

from collections.abc import Iterable, Sequence
from typing import cast

import redis
from rq.utils import as_text

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
    """The agenda of one service. Every method raises redis.RedisError if Redis is away. ``name``: of the queue."""

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
        """Note an order whose job will end; what is noted already stays as it is."""
        with self._connection.pipeline() as pipeline:
            pipeline.zadd(self._times, {order_id: _NEVER}, nx=True)
            pipeline.hset(self._owners, order_id, owner)
            pipeline.execute()

    def ended(self, job_id: str, client: redis.Redis | None = None) -> None:
        """The job has ended: what goes with it, if anything does, is due. ``client``: a pipeline that takes it."""
        (client or self._connection).zadd(self._times, {job_id: 0}, xx=True, lt=True)

    def note(self, order_id: str, owner: str, seconds: float) -> None:
        """The order is due after so long."""
        self._connection.hset(self._owners, order_id, owner)
        self._after([self._times], [order_id, seconds])

    def done(self, order_id: str) -> None:
        """There is no such order any more."""
        with self._connection.pipeline() as pipeline:
            pipeline.zrem(self._times, order_id)
            pipeline.hdel(self._owners, order_id)
            pipeline.execute()

    def anything_due(self) -> bool:
        """Whether something is due that no courier sees to."""
        return bool(self._due([self._times, self._lock]))

    def take(self, seconds: float, busy: Iterable[str] = ()) -> tuple[str, str] | None:
        """An order that is due, and its owner, none of the ``busy``; it is due again after so many seconds."""
        found = cast("list[bytes] | None", self._take([self._times, self._owners], [seconds, *busy]))
        return None if found is None else (as_text(found[0]), as_text(found[1]))

    def undated(self, order_ids: Sequence[str]) -> list[str]:
        """Those that are not noted, or are due never."""
        if not order_ids:
            return []
        with self._connection.pipeline(transaction=False) as pipeline:
            for order_id in order_ids:
                pipeline.zscore(self._times, order_id)
            scores = pipeline.execute()
        return [each for each, score in zip(order_ids, scores, strict=True) if score is None or score == float("inf")]

    def turn(self, seconds: float) -> bool:
        """Whether it is this process that shall look into the store; nobody else shall for so long."""
        return bool(self._connection.set(self._swept, b"", nx=True, px=int(seconds * 1000)))

    def lead(self, token: str, seconds: float) -> bool:
        """Whether the courier of this token goes by the agenda, for so long."""
        return bool(self._keep([self._lock], [token, int(seconds * 1000)]))

    def leave(self, token: str) -> None:
        """Have another courier go by it."""
        self._leave([self._lock], [token])
