from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator, preset_names
from worker.identity.ownership import Ownership
from worker.records.accelerator_store import Accelerators
from worker.records.job_record import LOCAL
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.records.uploads import Tensors, tensors
from worker.storage.identifiers import owner_digest
from worker.storage.object_store import Store

TENSORS = Tensors(id="b" * 64, bytes=3, tensors=[])


def test_marks_are_of_an_owner_and_a_kind(any_store: Store) -> None:
    ours, theirs = Ownership(any_store, "a"), Ownership(any_store, "b")
    ours.add("models", "1" * 64)
    ours.add("models", "1" * 64)
    ours.add("tensors", "2" * 64)
    assert ours.all("models") == ["1" * 64]
    assert (ours.owns("models", "1" * 64), ours.owns("models", "2" * 64)) == (True, False)
    theirs.add("models", "3" * 64)
    assert (ours.all("models"), theirs.all("models")) == (["1" * 64], ["3" * 64])
    theirs.remove("models", "3" * 64)
    assert theirs.all("models") == []
    assert not theirs.owns("models", "1" * 64)
    ours.remove("models", "1" * 64)
    assert ours.all("models") == []


def test_no_owner_is_a_path(store: Store) -> None:
    Ownership(store, "../../a").add("jobs", "1" * 32)
    assert list(store.sizes("owners")) == [f"owners/{owner_digest('../../a')}/jobs/{'1' * 32}"]


def test_an_upload_is_kept_once_and_seen_by_those_who_sent_it(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"npz")
    kept = tensors(store)
    kept.seen_by("a").add(path, TENSORS)
    assert kept.seen_by("a").get(TENSORS.id) == kept.get(TENSORS.id) == TENSORS
    with pytest.raises(KeyError):
        kept.seen_by("b").get(TENSORS.id)
    kept.seen_by("b").add(path, TENSORS)
    assert kept.seen_by("b").get(TENSORS.id) == TENSORS
    assert len(store.sizes("tensors")) == 2


def test_accelerators_of_others_are_not_there(store: Store) -> None:
    kept = Accelerators(store)
    digest = kept.seen_by("a").add(load_accelerator("vta"))
    assert kept.seen_by("a").ids() == kept.ids() == [*preset_names(), digest]
    assert kept.seen_by("b").ids() == preset_names()
    assert not kept.seen_by("b").exists(digest)
    for look in (kept.seen_by("b").get, kept.seen_by("b").summary):
        with pytest.raises(KeyError):
            look(digest)
    assert kept.seen_by("b").exists("vta")


def test_jobs_of_others_are_not_there_unless_shared(jobs: Jobs, request_: JobRequest) -> None:
    first, second, other = jobs.create(request_, "a"), jobs.create(request_, "a"), jobs.create(request_, "b")
    assert jobs.seen_by("a").ids() == [second, first]
    assert jobs.ids() == [other, second, first]
    assert jobs.seen_by("b").get(other).owner == "b"
    for job_id in (first, second):
        with pytest.raises(KeyError):
            jobs.seen_by("b").get(job_id)
    assert jobs.seen_by("b", first).get(first).id == first
    with pytest.raises(KeyError):
        jobs.seen_by("b", first).get(second)
    assert jobs.seen_by("b").existing([first, other]) == [jobs.get(other)]
    assert jobs.seen_by(LOCAL).ids() == []


def test_a_withdrawn_job_is_nobodys(jobs: Jobs, request_: JobRequest) -> None:
    assert jobs.withdraw(jobs.create(request_, "a"))
    assert jobs.seen_by("a").ids() == []
