import signal

import pytest

from worker.config.settings import Settings
from worker.process.children import death_reason, deferred_signals
from worker.runner.worker_main import run_worker


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "vanished"),
        (3 << 8, "exit status 3"),
        (signal.SIGKILL, "SIGKILL: somebody or the kernel killed it"),
        (signal.SIGXCPU, "processor time"),
        (signal.SIGTERM, "SIGTERM"),
    ],
)
def test_says_how_a_process_ended(status: int | None, words: str) -> None:
    assert words in death_reason(status)


def test_a_worker_needs_a_redis() -> None:
    with pytest.raises(ValueError, match="CYCLOPS_REDIS_URL"):
        run_worker(Settings(redis_url=None))


def test_a_request_to_stop_waits_for_what_must_not_be_cut_short() -> None:
    done = []

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(KeyboardInterrupt), deferred_signals():  # noqa: PT012 - the block is what is tested
            signal.raise_signal(signal.SIGTERM)
            done.append("the whole block")
        assert done == ["the whole block"]
        assert signal.getsignal(signal.SIGTERM) is stop
    finally:
        signal.signal(signal.SIGTERM, before)
