"""Rate limits: token buckets in Redis, shared by all apis, or in this process while Redis is away.

A bucket holds as many tokens as may be taken in a minute, and fills up again in one. It is kept as one number, the time
at which it will be full (the "theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371): taking a
token moves that time by a minute divided by the bucket's size, and there is none left once it is a minute ahead.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import redis

from service.http.problems import ProblemError

_log = logging.getLogger(__name__)
RateName = Literal["uploads", "submissions", "reads"]
_MINUTE = 60.0
_AWAY_SECONDS = 5.0  # before Redis is asked again
_MOST = 10_000  # buckets in this process
# returns the seconds until the bucket is full; if they are more than a minute, nothing was taken
_TAKE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + ARGV[1]
if full - now <= tonumber(ARGV[2]) then
    redis.call('SET', KEYS[1], string.format('%.6f', full), 'PX', math.ceil((full - now) * 1000))
end
return string.format('%.6f', full - now)
"""


@dataclass(frozen=True)
class RateLimit:
    """A bucket's name, and how many tokens it holds."""

    name: RateName
    size: int


@dataclass(frozen=True)
class RateDecision:
    """The outcome of taking a token.

    Attributes:
        rate: the rate limit of the bucket.
        granted: whether a token was taken.
        left: tokens that are left in the bucket.
        full: seconds until the bucket is full.
        wait: seconds until there is a token, if there was none.
    """

    rate: RateLimit
    granted: bool
    left: int
    full: float
    wait: float

    @property
    def headers(self) -> dict[str, str]:
        """The header fields of the response, as the IETF's draft ``ratelimit-headers`` (10) names them."""
        name, seconds = self.rate.name, max(1, round(self.full))
        headers = {
            "RateLimit-Policy": f'"{name}";q={self.rate.size};w={_MINUTE:.0f}',
            "RateLimit": f'"{name}";r={self.left};t={seconds}',
        }
        return headers if self.granted else headers | {"Retry-After": str(int(self.wait) + 1)}


class RateLimiter:
    """The buckets of all owners; thread-safe.

    Args:
        connection: a connection to Redis that fails soon if Redis cannot be reached.
        clock: returns the time in seconds, for the buckets in this process.
    """

    def __init__(self, connection: redis.Redis, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._take = connection.register_script(_TAKE)
        self._clock = clock
        self._ask_from = 0.0
        self._full: dict[str, float] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes the connection to Redis."""
        self._connection.close()

    def take(self, rate: RateLimit, who: str) -> RateDecision:
        """Takes a token from the bucket of ``who``; a bucket of size 0 has no limit."""
        if rate.size == 0:
            return RateDecision(rate, granted=True, left=0, full=0.0, wait=0.0)
        step, key = _MINUTE / rate.size, f"cyclops:rate:{rate.name}:{who}"
        ahead = self._in_redis(key, step)
        if ahead is None:
            ahead = self._in_process(key, step)
        # what is short of a step by the rounding of a double is a step
        left = int((_MINUTE - ahead) / step + 1e-6)
        if granted := ahead <= _MINUTE + step * 1e-6:
            return RateDecision(rate, granted, left, ahead, 0.0)
        return RateDecision(rate, granted, 0, ahead - step, ahead - _MINUTE)

    def _in_redis(self, key: str, step: float) -> float | None:
        if self._clock() < self._ask_from:
            return None
        try:
            return float(cast("bytes", self._take([key], [step, _MINUTE + step * 1e-6])))
        except redis.RedisError as error:
            _log.warning("requests are counted by this process alone: %s", error)
            self._ask_from = self._clock() + _AWAY_SECONDS
            return None

    def _in_process(self, key: str, step: float) -> float:
        with self._lock:
            now = self._clock()
            ahead = max(self._full.pop(key, 0.0), now) + step - now
            granted = ahead <= _MINUTE + step * 1e-6
            self._full[key] = now + ahead - (0.0 if granted else step)
            while len(self._full) > _MOST:
                del self._full[next(iter(self._full))]
        return ahead


@dataclass(frozen=True)
class RateCounter:
    """Counts what one caller does.

    Attributes:
        limiter: the buckets of all; None where nothing is limited.
        limits: the limits by name.
        who: the name under which the caller is counted.
    """

    limiter: RateLimiter | None
    limits: Mapping[RateName, RateLimit]
    who: str

    def is_limited(self, name: RateName) -> bool:
        """Returns whether the caller has a limit of this name."""
        return self.limiter is not None and self.limits[name].size > 0

    def take(self, name: RateName) -> RateDecision | None:
        """Counts one more; None if it is not limited.

        Raises:
            ProblemError: the limit is reached.
        """
        if self.limiter is None or not self.is_limited(name):
            return None
        taken = self.limiter.take(self.limits[name], self.who)
        if not taken.granted:
            detail = f"at most {taken.rate.size} {name} a minute; try again in {int(taken.wait) + 1} s"
            raise ProblemError("rate-limited", detail, headers=taken.headers)
        return taken


UNCOUNTED = RateCounter(None, {}, "")
"""Counts nothing."""
