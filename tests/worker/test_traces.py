import threading
from pathlib import Path

import pytest

from accel.errors import CyclopsError
from accel.trace import Trace
from tests.accel.trace.made import random_trace
from worker.artifacts import Artifacts
from worker.store import Store
from worker.traces import Traces

JOBS = [f"{number:032x}" for number in range(5)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Of five jobs, each with another trace."""
    store = Store(tmp_path / "store")
    for number, job in enumerate(JOBS):
        Trace(random_trace(number, 3000)).save(tmp_path)
        store.put_file(f"jobs/{job}/artifacts/trace.npz", tmp_path / "trace.npz")
    return store


def test_gives_the_trace_of_each_job_whatever_is_kept_open(store: Store) -> None:
    traces = Traces(keep=2)
    for job in [*JOBS, *reversed(JOBS)]:
        expected = Trace(random_trace(JOBS.index(job), 3000)).page(2990, 20)
        assert traces.get(job, Artifacts(store, job)).page(2990, 20) == expected


def test_keeps_the_last_few_open(store: Store) -> None:
    traces = Traces(keep=2)
    first, second = (traces.get(job, Artifacts(store, job)) for job in JOBS[:2])
    assert traces.get(JOBS[0], Artifacts(store, JOBS[0])) is first
    traces.get(JOBS[2], Artifacts(store, JOBS[2]))
    assert traces.get(JOBS[0], Artifacts(store, JOBS[0])) is first
    assert traces.get(JOBS[1], Artifacts(store, JOBS[1])) is not second


def test_threads_share_a_trace(store: Store) -> None:
    expected = Trace(random_trace(0, 3000)).page(0, 3000)
    traces, wrong = Traces(), []

    def read(begin: int) -> None:
        found = ((at, traces.get(JOBS[0], Artifacts(store, JOBS[0])).page(at, 10)) for at in range(begin, 3000, 97))
        wrong.extend(at for at, page in found if page != expected[at : at + 10])

    threads = [threading.Thread(target=read, args=(begin,)) for begin in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_trace_and_a_damaged_one(store: Store) -> None:
    with pytest.raises(KeyError):
        Traces().get("f" * 32, Artifacts(store, "f" * 32))
    store.write(f"jobs/{JOBS[0]}/artifacts/trace.npz", b"PK")
    with pytest.raises(CyclopsError, match="cannot be read"):
        Traces().get(JOBS[0], Artifacts(store, JOBS[0]))
