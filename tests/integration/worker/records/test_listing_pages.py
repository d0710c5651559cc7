"""Pages of jobs against what the records say, whatever became of the index."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.marking import rest_all, share
from tests.helpers.records import RESULT
from worker.queue.job_queue import JobQueue
from worker.queue.reconciler import reconcile
from worker.records.annotations import Annotations
from worker.records.job_record import Job, Summary
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.records.listing import job_listing
from worker.records.listing.job_index import JobSelection
from worker.records.listing.job_listing import IndexIncompleteError, page_of_jobs, repair_index
from worker.records.listing.job_row import JobSort
from worker.records.problem_details import problem
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store
from worker.storage.redis_server import connect

MODELS, ACCELERATORS, OWNERS = ["a" * 64, "b" * 64], ["vta", "gemmini"], ["local", "other"]
REQUESTS = [JobRequest(model=model, accelerator=name) for model in MODELS for name in ACCELERATORS]
REQUESTS += [JobRequest(program="c" * 64), JobRequest(program="c" * 64, accelerator="vta")]


@pytest.fixture
def jobs(any_store: Store, queue: JobQueue) -> Jobs:
    return Jobs(any_store, queue.index)


def mend(jobs: Jobs, queue: JobQueue) -> None:
    for _ in range(20):  # each takes its time and no more, in which a busy machine may not come to the end
        repair_index(jobs, queue.index, jobs.open_ids())
        if queue.index.is_complete():
            return


def walk(jobs: Jobs, queue: JobQueue, selection: JobSelection, limit: int = 3) -> list[str]:
    """The ids of all pages."""
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = page_of_jobs(jobs, queue.index, selection, cursor, limit)
        assert len(page) <= limit
        seen += [job.id for job in page]
        if cursor is None:
            return seen


def selections() -> list[JobSelection]:
    states = [(), ("queued",), ("running", "queued"), ("succeeded", "failed", "canceled"), ("succeeded",)]
    sources = [None, *MODELS, "c" * 64]
    return [
        JobSelection(owner, state, source, accelerator)
        for owner in OWNERS
        for state in states
        for source in sources
        for accelerator in [None, *ACCELERATORS]
    ]


def selected(jobs: Jobs, selection: JobSelection) -> list[str]:
    """What the records say, by a rule of its own."""

    def fits(job: Job) -> bool:
        return (
            job.owner == selection.owner
            and (selection.states == () or job.state in selection.states)
            and (selection.source is None or selection.source in (job.model, job.program))
            and (selection.accelerator is None or selection.accelerator == job.accelerator)
        )

    return sorted((job.id for job in jobs.existing(jobs.ids()) if fits(job)), reverse=True)


CHANGES: list[Callable[[Jobs, str], object]] = [
    lambda jobs, job: jobs.progress(job, 1, utc_now(), None),
    lambda jobs, job: jobs.succeed(job, 1, RESULT),
    lambda jobs, job: jobs.fail(job, problem("x", "x", "x")),
    lambda jobs, job: jobs.cancel(job),
    lambda jobs, job: jobs.withdraw(job),
]
DAMAGES = ["none", "wiped", "not noted", "half"]


def spoil(damage: str, jobs: Jobs, queue: JobQueue, ids: list[str]) -> None:
    if damage == "wiped":
        queue.connection.flushall()
    elif damage == "half":
        queue.connection.flushall()
        mend(jobs, queue)
        for job in jobs.existing(ids[::2]):
            queue.index.remove(job)
        queue.connection.flushall()
    elif damage == "not noted":
        for job_id in ids:
            if jobs.ended(job_id):  # withdrawn ones too
                jobs.close(job_id)  # as the reconciler does


@pytest.mark.slow
@settings(max_examples=share(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(REQUESTS), st.sampled_from(OWNERS)), max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.sampled_from(CHANGES)), max_size=20),
    st.sampled_from(DAMAGES),
    st.integers(1, 4),
)
def test_pages_are_what_the_records_say(
    tmp_path_factory: pytest.TempPathFactory, queue: JobQueue, made: list, changes: list, damage: str, limit: int
) -> None:
    queue.connection.flushall()
    store = Store(tmp_path_factory.mktemp("store"))
    jobs = Jobs(store, queue.index)
    mend(jobs, queue)  # whole from the beginning
    unnoted = Jobs(store, JobQueue(connect("unix:///nothing", retries=0), "test").index)
    ids = [jobs.create(request, owner) for request, owner in made]
    for place, change in changes:
        if place < len(ids):
            change(unnoted if damage == "not noted" and place % 2 else jobs, ids[place])
    spoil(damage, jobs, queue, ids)
    for _ in range(2):
        if damage != "not noted":
            assert all(walk(jobs, queue, each, limit) == selected(jobs, each) for each in selections())
        mend(jobs, queue)
        assert queue.index.is_complete()
    assert all(walk(jobs, queue, each, limit) == selected(jobs, each) for each in selections())
    assert jobs.open_ids() == sorted(job.id for job in jobs.existing(ids) if not job.ended)


@pytest.mark.slow
def test_pages_of_each_kind_of_store(jobs: Jobs, queue: JobQueue) -> None:
    ids = [jobs.create(request) for request in REQUESTS]
    jobs.succeed(ids[0], 1, RESULT)
    for whole in (False, True):
        assert queue.index.is_complete() == whole
        assert walk(jobs, queue, JobSelection("local")) == ids[::-1]
        assert walk(jobs, queue, JobSelection("local", ("succeeded",))) == ids[:1]
        mend(jobs, queue)


@pytest.mark.slow
def test_new_jobs_do_not_move_a_page(jobs: Jobs, queue: JobQueue) -> None:
    ids = [jobs.create(REQUESTS[0]) for _ in range(6)]
    for _ in range(2):
        page, cursor = page_of_jobs(jobs, queue.index, JobSelection("local"), None, 2)
        jobs.create(REQUESTS[0])
        following, _ = page_of_jobs(jobs, queue.index, JobSelection("local"), cursor, 2)
        assert [job.id for job in following] == [job for job in ids[::-1] if job < page[-1].id][:2]
        mend(jobs, queue)
        ids = jobs.ids()[::-1]


def test_an_index_that_says_what_is_not_so_is_mended(jobs: Jobs, queue: JobQueue, any_store: Store) -> None:
    mend(jobs, queue)
    ends, erased = jobs.create(REQUESTS[0]), jobs.create(REQUESTS[0])
    Jobs(any_store).succeed(ends, 1, RESULT)
    any_store.delete(f"jobs/{erased}/request.json")
    queued = JobSelection("local", ("queued",))
    assert queue.index.newest(queued, None, 9) == [erased, ends]
    assert walk(jobs, queue, queued) == []
    assert queue.index.newest(queued, None, 9) == []
    assert walk(jobs, queue, JobSelection("local", ("succeeded",))) == [ends]


@pytest.mark.slow
def test_a_page_reads_only_so_many_records(jobs: Jobs, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_listing, "_MOST_READ", 4)
    ids = [jobs.create(REQUESTS[number % 2]) for number in range(9)]
    rare = JobSelection("local", ("succeeded",))
    page, cursor = page_of_jobs(jobs, queue.index, rare, None, 3)
    assert (page, cursor) == ([], ids[5])
    jobs.succeed(ids[0], 1, RESULT)
    assert walk(jobs, queue, rare) == ids[:1]


@pytest.mark.slow
@pytest.mark.parametrize("any_store", rest_all(["folder", "bucket"]), indirect=True)
def test_an_index_that_is_lost_while_it_is_made_anew(
    jobs: Jobs, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [jobs.create(request) for request in REQUESTS]
    among = jobs.existing

    def lost(some: list[str]) -> list[Job]:
        queue.connection.flushall()
        return among(some)

    monkeypatch.setattr(jobs, "existing", lost)
    mend(jobs, queue)
    assert not queue.index.is_complete()
    monkeypatch.undo()
    mend(jobs, queue)
    assert queue.index.is_complete()
    assert walk(jobs, queue, JobSelection("local")) == ids[::-1]


def test_an_end_that_could_not_be_noted_stays_open_until_it_is(
    store: Store, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.queue.reconciler._APART", 0.0)
    jobs = Jobs(store, queue.index)
    away = Jobs(store, JobQueue(connect("unix:///nothing", retries=0), "test").index)
    job_id = jobs.create(REQUESTS[0])
    assert away.succeed(job_id, 1, RESULT)
    assert jobs.open_ids() == [job_id]
    for _ in range(3):
        reconcile(jobs, queue)
    assert jobs.open_ids() == []
    assert queue.index.newest(JobSelection("local", ("succeeded",)), None, 9) == [job_id]
    assert queue.rq.job_ids == []


def test_without_redis_the_store_is_listed(store: Store, tmp_path: Path) -> None:
    away = JobQueue(connect("unix:///nothing", retries=0), "test")
    jobs = Jobs(store, away.index)
    ids = [jobs.create(request) for request in REQUESTS]
    assert walk(jobs, away, JobSelection("local", (), MODELS[0])) == ids[1::-1]
    with pytest.raises(redis.RedisError):
        away.index.is_complete()


TEXTS = [None, "a", "B", "b wide", "\u00e9 b"]
TAGS = [[], ["a"], ["a", "wide"], ["sweep 1"]]
NAMES = {MODELS[0]: "wide model", "vta": "VTA 16x16\nmine"}
SORTS = get_args(JobSort)
FILTERS = [
    {},
    {"tags": ("a",)},
    {"tags": ("a", "wide"), "pinned": False},
    {"pinned": True, "source": MODELS[0]},
    {"verified": "true"},
    {"verified": "null", "accelerator": "vta"},
    {"states": ("succeeded", "queued"), "words": ("wide",)},
    {"words": ("b", "wide")},
    {"words": ("16x16",), "verified": "false"},
]


def walk_sorted(jobs: Jobs, queue: JobQueue, selection: JobSelection, sort: JobSort, limit: int) -> list[str]:
    seen: list[str] = []
    cursor = None
    while True:
        page, cursor = page_of_jobs(jobs, queue.index, selection, cursor, limit, sort, lambda _: NAMES)
        assert len(page) <= limit
        seen += [job.id for job in page]
        if cursor is None:
            return seen


def modelled(jobs: Jobs, owner: str, asked: dict[str, Any], sort: JobSort) -> list[str]:
    """Filter and sort of the records, by rules of their own."""

    def fits(job: Job) -> bool:
        result = {True: "true", False: "false", None: "null"}[job.result.verified] if job.result else ""
        said = [job.label, job.note, *job.tags, job.accelerator]
        said += [NAMES.get(each) for each in (job.model, job.program, job.accelerator) if each]
        return (
            job.owner == owner
            and set(asked.get("tags", ())) <= set(job.tags)
            and asked.get("pinned", job.pinned) == job.pinned
            and asked.get("verified", result) == result
            and asked.get("source") in (None, job.model, job.program)
            and asked.get("accelerator") in (None, job.accelerator)
            and (not asked.get("states") or job.state in asked["states"])
            and all(any(word in (text or "").lower() for text in said) for word in asked.get("words", ()))
        )

    def key(job: Job) -> Any:
        match sort.removeprefix("-"):
            case "cycles":
                return job.result and job.result.cycles
            case "duration":
                return job.finished - job.started if job.started and job.finished else None
            case "label":
                return job.label and job.label.lower()
            case _:
                return job.id

    found = sorted((job for job in jobs.existing(jobs.ids()) if fits(job)), key=lambda job: job.id, reverse=True)
    with_key = [job for job in found if key(job) is not None]
    with_key.sort(key=key, reverse=sort.startswith("-"))
    return [job.id for job in with_key + [job for job in found if key(job) is None]]


ANNOTATIONS = st.builds(
    Annotations, label=st.sampled_from(TEXTS), note=st.sampled_from(TEXTS), tags=st.sampled_from(TAGS)
)
RESULTS = st.builds(
    Summary, verified=st.sampled_from([True, False, None]), cycles=st.sampled_from([None, 5, 10]), macs_share=st.none()
)


def make_one(data: Any, jobs: Jobs, changing: Jobs) -> str:
    """A job that has gone some of its way, and was changed."""
    request, owner = data.draw(st.sampled_from(REQUESTS)), data.draw(st.sampled_from(OWNERS))
    job_id = jobs.create(request, owner, annotations=data.draw(ANNOTATIONS))
    if data.draw(st.booleans()):
        jobs.progress(job_id, 1, utc_now(), None)
        if data.draw(st.booleans()):
            jobs.succeed(job_id, 1, data.draw(RESULTS))
    for change in data.draw(st.lists(st.sampled_from([changing.pin, changing.unpin]), max_size=2)):
        change(job_id)
    if data.draw(st.booleans()):
        changing.annotate(job_id, data.draw(ANNOTATIONS))
    return job_id


@pytest.mark.slow
@settings(max_examples=share(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), damage=st.sampled_from([*DAMAGES, "changed unnoted", "erased unnoted"]), limit=st.integers(1, 4))
def test_sorted_and_searched_pages_are_what_the_records_say(
    tmp_path_factory: pytest.TempPathFactory, queue: JobQueue, data: Any, damage: str, limit: int
) -> None:
    """Catches a row that is wrong, stale or lost, a filter or a sort that errs, and pages that skip or repeat."""
    queue.connection.flushall()
    store = Store(tmp_path_factory.mktemp("store"))
    jobs = Jobs(store, queue.index)
    mend(jobs, queue)
    unnoted = Jobs(store, JobQueue(connect("unix:///nothing", retries=0), "test").index)
    changing = unnoted if damage == "changed unnoted" else jobs
    ids = [make_one(data, jobs, changing) for _ in range(data.draw(st.integers(0, 9)))]
    if damage == "erased unnoted":
        for job_id in ids[::2]:
            store.delete(f"jobs/{job_id}/request.json")
    spoil(damage, jobs, queue, ids)
    if damage == "changed unnoted":
        for job in jobs.existing(ids):
            jobs.cancel(job.id)  # one that is open is noted with its end
        mend(jobs, queue)
    for _ in range(2):
        for asked in FILTERS:
            for sort in SORTS:
                for owner in OWNERS:
                    found = walk_sorted(jobs, queue, JobSelection(owner, **asked), sort, limit)
                    assert found == modelled(jobs, owner, asked, sort), (asked, sort, owner)
        mend(jobs, queue)
        assert queue.index.is_complete()
    assert {row.id for owner in OWNERS for row in queue.index.rows(owner)} == {job.id for job in jobs.existing(ids)}


def test_what_was_read_first_and_is_noted_last_is_left_out(jobs: Jobs, queue: JobQueue) -> None:
    job_id = jobs.create(REQUESTS[0])
    early, stamp = jobs.get(job_id), queue.index.stamp()
    jobs.succeed(job_id, 1, RESULT)
    jobs.annotate(job_id, Annotations(label="late"))
    queue.index.put(early, stamp)
    [row] = queue.index.rows("local")
    assert (row.state, row.label) == ("succeeded", "late")
    assert queue.index.newest(JobSelection("local", ("queued",)), None, 9) == []
    queue.connection.flushall()  # stamps go on from the time
    queue.index.put(jobs.get(job_id), queue.index.stamp())
    queue.index.put(early, stamp)
    assert queue.index.rows("local") == [row]


def test_a_change_that_could_not_be_noted_stays_until_it_is(
    store: Store, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the reconciler has no time for the index before it finds that the job has ended."""
    monkeypatch.setattr("worker.queue.reconciler._APART", 0.0)
    jobs = Jobs(store, queue.index)
    away = Jobs(store, JobQueue(connect("unix:///nothing", retries=0), "test").index)
    job_id = jobs.create(REQUESTS[0])
    jobs.succeed(job_id, 1, RESULT)
    for change in (Annotations(label="one"), Annotations(tags=["two"])):
        away.annotate(job_id, change)
    assert jobs.open_ids() == [job_id]
    monkeypatch.setattr("worker.queue.reconciler.repair_index", lambda *_: None)
    for _ in range(3):
        reconcile(jobs, queue)
    assert jobs.open_ids() == []
    [row] = queue.index.rows("local")
    assert (row.label, row.tags) == ("one", ("two",))


def test_many_jobs_are_not_sorted_without_the_index(
    jobs: Jobs, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_listing, "_MOST_READ", 2)
    ids = [jobs.create(REQUESTS[0], annotations=Annotations(label=f"job-{number}")) for number in range(3)]
    with pytest.raises(IndexIncompleteError):
        walk_sorted(jobs, queue, JobSelection("local"), "label", 9)
    assert walk_sorted(jobs, queue, JobSelection("local", words=("job-1",)), "submitted", 2) == ids[1:2]
    mend(jobs, queue)
    assert walk_sorted(jobs, queue, JobSelection("local"), "label", 2) == ids


def test_a_sorted_page_does_not_move(jobs: Jobs, queue: JobQueue) -> None:
    mend(jobs, queue)
    ids = [jobs.create(REQUESTS[0], annotations=Annotations(label=label)) for label in "bdfh"]
    first, cursor = page_of_jobs(jobs, queue.index, JobSelection("local"), None, 2, "label")
    for label in "ace":
        jobs.create(REQUESTS[0], annotations=Annotations(label=label))
    jobs.annotate(ids[1], Annotations(label="a"))  # the last one of the page is elsewhere now
    second, _ = page_of_jobs(jobs, queue.index, JobSelection("local"), cursor, 9, "label")
    assert [job.label for job in first] == ["b", "d"]
    assert [job.label for job in second] == ["e", "f", "h"]
