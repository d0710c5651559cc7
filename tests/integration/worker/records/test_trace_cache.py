import threading
from pathlib import Path

import pytest

from accel.errors import CyclopsError
from accel.trace.program_trace import Trace
from tests.helpers.programs.traces import random_trace
from tests.helpers.records import ended
from worker.records.job_artifacts import Artifacts, TimelineCache, TraceCache
from worker.storage.object_store import Store

JOBS = 5


@pytest.fixture
def artifacts(store: Store, tmp_path: Path) -> list[Artifacts]:
    """Of five jobs, each with another trace."""
    found = []
    for number in range(JOBS):
        (tmp_path / "out").mkdir(exist_ok=True)
        Trace(random_trace(number, 3000)).save(tmp_path / "out")
        found.append(Artifacts(store, ended(store, tmp_path / "out")))
    return found


def test_gives_the_trace_of_each_job_whatever_is_kept_open(artifacts: list[Artifacts]) -> None:
    traces = TraceCache(keep=2)
    for number in [*range(JOBS), *reversed(range(JOBS))]:
        expected = Trace(random_trace(number, 3000)).page(2990, 20)
        assert traces.get(f"job {number}", artifacts[number]).page(2990, 20) == expected


def test_keeps_the_last_few_open(artifacts: list[Artifacts]) -> None:
    traces = TraceCache(keep=2)
    first, second = (traces.get(f"job {number}", artifacts[number]) for number in range(2))
    assert traces.get("job 0", artifacts[0]) is first
    traces.get("job 2", artifacts[2])
    assert traces.get("job 0", artifacts[0]) is first
    assert traces.get("job 1", artifacts[1]) is not second


def test_threads_share_a_trace(artifacts: list[Artifacts]) -> None:
    expected = Trace(random_trace(0, 3000)).page(0, 3000)
    traces, wrong = TraceCache(), []

    def read(begin: int) -> None:
        found = ((at, traces.get("job 0", artifacts[0]).page(at, 10)) for at in range(begin, 3000, 97))
        wrong.extend(at for at, page in found if page != expected[at : at + 10])

    threads = [threading.Thread(target=read, args=(begin,)) for begin in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_trace_and_a_damaged_one(store: Store, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(KeyError):
        TraceCache().get("job", Artifacts(store, ended(store, tmp_path / "out")))
    (tmp_path / "out" / "trace.npz").write_bytes(b"PK")
    with pytest.raises(CyclopsError, match="cannot be read"):
        TraceCache().get("job", Artifacts(store, ended(store, tmp_path / "out")))


@pytest.fixture
def empty(store: Store, tmp_path: Path) -> Artifacts:
    return Artifacts(store, ended(store, tmp_path))


def test_timelines_are_kept_up_to_a_number_of_bytes(empty: Artifacts) -> None:
    held = [Trace(random_trace(number, 3000)) for number in range(3)]
    timelines = TimelineCache(most_bytes=held[0].timeline().nbytes * 5 // 2)
    first, second = (timelines.get(f"job {number}", held[number], empty) for number in range(2))
    assert timelines.get("job 0", held[0], empty) is first
    timelines.get("job 2", held[2], empty)
    assert timelines.get("job 0", held[0], empty) is first
    assert timelines.get("job 1", held[1], empty) is not second


def test_a_timeline_larger_than_all_room_is_kept_until_the_next(empty: Artifacts) -> None:
    held = Trace(random_trace(0, 3000))
    timelines = TimelineCache(most_bytes=1)
    assert timelines.get("job 0", held, empty) is timelines.get("job 0", held, empty)


def test_a_timeline_is_built_once_whoever_asks_meanwhile(monkeypatch: pytest.MonkeyPatch, empty: Artifacts) -> None:
    held, built, asked = Trace(random_trace(0, 300)), [], threading.Barrier(4)
    plain = Trace.timeline
    monkeypatch.setattr(Trace, "timeline", lambda trace: built.append(1) or plain(trace))
    timelines, found = TimelineCache(), []

    def ask() -> None:
        asked.wait()
        found.append(timelines.get("job 0", held, empty))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert len({id(timeline) for timeline in found}) == 1


@pytest.mark.parametrize("plan", ['{"memories": [], "layers": 3}', "[", None])
def test_a_job_without_a_readable_memory_plan_has_a_timeline(store: Store, tmp_path: Path, plan: str | None) -> None:
    """Catches a picture that is not shown, as the plan was written by another version."""
    if plan is not None:
        (tmp_path / "memory.json").write_text(plan)
    found = TimelineCache().get("job", Trace(random_trace(0, 300)), Artifacts(store, ended(store, tmp_path)))
    assert found.memories == ()
    assert found.timeline.cycles
