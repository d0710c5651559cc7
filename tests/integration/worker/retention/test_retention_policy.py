import time
from datetime import timedelta
from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator
from tests.helpers.records import RESULT
from tests.integration.worker.retention.test_deletion_races import REQUEST, TENSORS, Place
from worker.config.settings import Settings
from worker.queue.job_queue import JobQueue
from worker.records.accelerator_store import Accelerators
from worker.records.job_store import Jobs
from worker.records.upload_locks import UploadLocks
from worker.retention import retention_policy as module
from worker.retention.retention_policy import RetentionCollector
from worker.storage.compiler_cache import StoreCache
from worker.storage.identifiers import new_id
from worker.storage.object_store import Store

LONG = 2 * 86400.0


@pytest.fixture
def place(any_store: Store, tmp_path: Path, queue: JobQueue) -> Place:
    return Place(any_store, tmp_path, queue)


def collector(place: Place, **keep: int | None) -> RetentionCollector:
    settings = Settings.model_validate({"collect_seconds": 1, **keep})
    return RetentionCollector(settings, place.store, place.jobs, place.answers, place.deleter(place.store), place.queue)


def collect(place: Place, **keep: int | None) -> None:
    for _ in collector(place, **keep).full_pass():
        pass


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two days from now."""
    since, age = module._since, module.age
    monkeypatch.setattr(module, "_since", lambda moment: since(moment - timedelta(seconds=LONG)))
    monkeypatch.setattr(module, "age", lambda made: age(made) + LONG)


def done(place: Place) -> str:
    job_id = place.submit(place.store)
    place.jobs.succeed(job_id, 1, RESULT)
    return job_id


def test_by_default_everything_is_kept(place: Place, later: None) -> None:
    job_id = done(place)
    before = place.store.sizes("jobs") | place.store.sizes("tensors")
    collect(place)
    assert place.store.sizes("jobs") | place.store.sizes("tensors") == before
    assert place.jobs.get(job_id).state == "succeeded"


@pytest.mark.slow
def test_jobs_that_ended_long_ago_go_and_pinned_ones_stay(place: Place, later: None) -> None:
    old, pinned, open_ = done(place), done(place), place.submit(place.store)
    place.jobs.pin(pinned)
    collect(place, keep_jobs_seconds=int(LONG) + 60)
    assert place.jobs.recorded(old)
    collect(place, keep_jobs_seconds=int(LONG) - 60)
    assert [job.id for job in place.jobs.existing(place.jobs.ids())] == [open_, pinned]
    place.jobs.unpin(pinned)
    collect(place, keep_jobs_seconds=0)
    assert [job.id for job in place.jobs.existing(place.jobs.ids())] == [open_]


@pytest.mark.slow
def test_uploads_that_no_job_names_go(place: Place, later: None) -> None:
    Accelerators(place.store).add(load_accelerator("vta"))
    job_id = done(place)
    collect(place, keep_uploads_seconds=3600)
    assert place.there() == (True, True)
    assert place.store.exists(f"programs/{'a' * 64}/info.json")
    assert place.store.sizes("accelerators") == {}
    place.erase(job_id)
    collect(place, keep_uploads_seconds=int(LONG) + 60)
    assert place.there() == (True, True)
    collect(place, keep_uploads_seconds=3600)
    assert place.store.sizes("tensors") == place.store.sizes("programs") == {}


def test_an_upload_that_is_sent_again_or_being_used_stays(
    place: Place, later: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.retention.deletion._WAIT", 0.0)
    claim = UploadLocks(place.store).acquire(new_id(), REQUEST, "local")
    collect(place, keep_uploads_seconds=3600)
    assert place.there() == (True, True)
    claim.release()
    monkeypatch.setattr(
        RetentionCollector, "_is_old", lambda _self, _upload: False
    )  # it was sent between look and deed
    collect(place, keep_uploads_seconds=3600)
    assert place.there() == (True, True)


def test_a_blob_without_a_document_goes_after_a_day(place: Place, later: None) -> None:
    place.store.delete(TENSORS.document)
    collect(place)
    assert place.there() == (False, False)


def test_a_blob_that_has_just_arrived_stays(place: Place) -> None:
    place.store.delete(TENSORS.document)
    collect(place, keep_uploads_seconds=3600)
    assert place.there() == (False, True)


def test_what_the_compiler_keeps_goes_after_a_while(place: Place, later: None) -> None:
    cache = StoreCache(place.store, 1000, "local")
    cache.put("ab" * 32, b"made")
    collect(place, keep_cache_seconds=int(LONG) + 60)
    collect(place, keep_cache_seconds=None)
    assert cache.get("ab" * 32) == b"made"
    collect(place, keep_cache_seconds=int(LONG) - 60)
    assert cache.get("ab" * 32) is None


def test_answers_of_erased_jobs_go(place: Place) -> None:
    kept, erased = done(place), done(place)
    for number, job_id in enumerate((kept, erased)):
        place.store.write(f"answers/{'0' * 64}/{number}", f'{{"job": "{job_id}", "attempt": 1}}'.encode())
    place.erase(erased)
    collect(place)
    assert list(place.store.sizes("answers")) == [f"answers/{'0' * 64}/0"]


def test_expired_keys_go(place: Place) -> None:
    now = int(time.time() // 3600)
    for window in (now - 40, now - 2, now - 1, now):
        place.store.create(f"idempotency/3600-{window}/o/k/1/begun.json", b"{}")
    collect(place)
    assert place.store.folders("idempotency") == [f"3600-{window}" for window in (now - 1, now)]


def test_what_is_left_of_withdrawn_jobs_goes_after_a_day(place: Place, later: None) -> None:
    withdrawn, kept = place.submit(place.store), done(place)
    place.jobs.withdraw(withdrawn)
    collect(place)
    assert place.jobs.ids() == [kept]


@pytest.mark.slow
def test_it_looks_at_what_is_due_and_goes_on_from_where_it_was(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    young = [place.submit(place.store) for _ in range(5)]
    old = [f"{number:032x}" for number in range(5)]
    for job_id in old:
        place.jobs.create(REQUEST, job_id=job_id)
    looked: list[str] = []
    among, recorded = Jobs.existing, Jobs.recorded
    monkeypatch.setattr(Jobs, "existing", lambda jobs, ids: looked.extend(ids := list(ids)) or among(jobs, ids))
    monkeypatch.setattr(Jobs, "recorded", lambda jobs, job_id: looked.append(job_id) or recorded(jobs, job_id))
    collect(place, keep_jobs_seconds=3600)
    assert looked == [*old, *old]  # whether they have ended, and whether there are such jobs at all
    looked.clear()
    collect(place)
    assert looked == []
    place.jobs.create(REQUEST, job_id=f"{7:032x}")
    looked.clear()
    collect(place)
    assert looked == [f"{7:032x}"]
    assert list(place.jobs.oldest(old[3])) == [old[4], f"{7:032x}", *young]


@pytest.mark.slow
def test_a_pass_begins_at_its_time_and_goes_in_steps(
    place: Place, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP_SECONDS", -1.0)  # one item a step
    for _ in range(3):
        done(place)
    time.sleep(0.01)
    one, other = collector(place, keep_jobs_seconds=0), collector(place, keep_jobs_seconds=0)
    left = []
    for _ in range(8):
        one.step()
        other.step()  # it is not its turn
        left.append(len(place.jobs.ids()))
    assert left[0] == 2
    assert left[-1] == 0
    assert sorted(left, reverse=True) == left
    assert other._pass is None


def test_the_records_of_others_are_no_obstacle(place: Place, queue: JobQueue) -> None:
    job_id = done(place)
    place.store.write(f"jobs/{job_id}/request.json", b'{"format": 99}')
    collect(place, keep_jobs_seconds=0, keep_uploads_seconds=0)
    assert Jobs(place.store).recorded(job_id)
