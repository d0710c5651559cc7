import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.rate_limits import RateLimit, RateLimiter
from worker.storage.redis_server import connect


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def without_redis(tmp: str = "/nonexistent/redis.sock") -> RateLimiter:
    return RateLimiter(connect(f"unix://{tmp}", retries=0, timeout=0.1), Clock())


@given(st.integers(1, 50), st.lists(st.floats(0, 90), max_size=120))
def test_a_bucket_of_tokens(size: int, pauses: list[float]) -> None:
    """As the words say it: it starts full, gains ``size`` a minute, never holds more, and each request takes one."""
    rates, rate = without_redis(), RateLimit("reads", size)
    rates._ask_from = float("inf")
    clock = rates._clock
    tokens = float(size)
    for pause in pauses:
        clock.now += pause
        tokens = min(size, tokens + pause * size / 60)
        taken = rates.take(rate, "a")
        if abs(tokens - 1) < 1e-4:  # too close for floating point to say
            return
        assert taken.granted == (tokens > 1)
        if taken.granted:
            tokens -= 1
        else:
            assert taken.wait == pytest.approx((1 - tokens) * 60 / size, abs=1e-3)
        assert abs(taken.left - tokens) <= 1.001
        assert taken.full == pytest.approx((size - tokens) * 60 / size, abs=1e-3)


def test_owners_and_kinds_have_buckets_of_their_own(redis_url: str) -> None:
    rates = RateLimiter(connect(redis_url))
    reads, uploads = RateLimit("reads", 2), RateLimit("uploads", 1)
    assert [rates.take(reads, "a").granted for _ in range(3)] == [True, True, False]
    assert rates.take(reads, "b").granted
    assert [rates.take(uploads, "a").granted for _ in range(2)] == [True, False]
    rates.close()


def test_all_apis_take_from_the_same_buckets(redis_url: str) -> None:
    one, other = RateLimiter(connect(redis_url)), RateLimiter(connect(redis_url))
    rate = RateLimit("submissions", 3)
    granted = [rates.take(rate, "shared").granted for rates in (one, other, one, other)]
    assert granted == [True, True, True, False]
    one.close()
    other.close()


def test_in_redis_it_fills_again(redis_url: str) -> None:
    rates, rate = RateLimiter(connect(redis_url)), RateLimit("reads", 600)  # ten a second
    taken = [rates.take(rate, "c") for _ in range(601)]
    assert all(one.granted for one in taken[:600])
    refused = next(one for one in iter(lambda: rates.take(rate, "c"), None) if not one.granted)
    assert 0 < refused.wait <= 0.1
    assert refused.left == 0
    time.sleep(refused.wait + 0.01)
    assert rates.take(rate, "c").granted
    rates.close()


def test_keys_in_redis_go_when_they_are_full_again(redis_url: str) -> None:
    connection = connect(redis_url)
    rates = RateLimiter(connection)
    rates.take(RateLimit("reads", 600), "gone")
    (name,) = connection.keys("cyclops:rate:reads:gone")
    assert 0 < connection.pttl(name) <= 101
    rates.close()


def test_without_redis_this_process_counts(tmp_path: Path) -> None:
    rates, rate = without_redis(str(tmp_path / "none.sock")), RateLimit("uploads", 2)
    assert [rates.take(rate, "a").granted for _ in range(3)] == [True, True, False]
    rates._clock.now += 31
    assert rates.take(rate, "a").granted


def test_redis_is_asked_again_after_a_while(redis_url: str) -> None:
    rates, rate = RateLimiter(connect(redis_url), Clock()), RateLimit("uploads", 1)
    rates._ask_from = rates._clock.now + 5
    assert [rates.take(rate, "d").granted for _ in range(2)] == [True, False]
    rates._clock.now += 5.1
    assert rates.take(rate, "d").granted
    rates.close()


def test_this_process_remembers_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.auth.rate_limits._MOST", 3)
    rates = without_redis()
    rates._ask_from = float("inf")
    for who in "abcde":
        rates.take(RateLimit("reads", 1), who)
    assert len(rates._full) == 3


def test_what_the_answer_says() -> None:
    rates = without_redis()
    rates._ask_from = float("inf")
    first, second = (rates.take(RateLimit("uploads", 1), "a") for _ in range(2))
    assert first.headers == {"RateLimit-Policy": '"uploads";q=1;w=60', "RateLimit": '"uploads";r=0;t=60'}
    assert second.headers == first.headers | {"Retry-After": "61"}


def test_no_size_is_no_limit() -> None:
    assert all(without_redis().take(RateLimit("reads", 0), "a").granted for _ in range(10))
