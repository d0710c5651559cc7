import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.marking import rotated, share
from tests.helpers.records import RESULT, publish_all
from tests.helpers.stepping import run_stepwise
from worker.identity.ownership import Ownership
from worker.queue.job_queue import JobQueue
from worker.records import upload_locks as locks_module
from worker.records.accelerator_store import Accelerators
from worker.records.job_record import Job
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.records.listing.job_index import JobSelection
from worker.records.result_cache import ResultCache
from worker.records.upload_locks import BeingDeletedError, MissingUploadError, UploadLocks, UploadName
from worker.records.uploads import Tensors, tensors
from worker.retention import deletion as deletion_module
from worker.retention.deletion import Deleter, InUseError
from worker.storage.identifiers import new_id, owner_digest
from worker.storage.object_store import Store

BLOB = b"tensors"
DIGEST = hashlib.sha256(BLOB).hexdigest()
TENSORS = UploadName("tensors", DIGEST)
REQUEST = JobRequest.model_validate({"program": "a" * 64, "options": {"inputs": DIGEST}})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (locks_module, deletion_module):
        monkeypatch.setattr(module, "_WAIT", 0.0)
        monkeypatch.setattr(module, "_LOOK_EVERY", 0.0)


class Place:
    """A store with a program and tensors."""

    def __init__(self, store: Store, directory: Path, queue: JobQueue) -> None:
        self.store, self.queue = store, queue
        self.jobs = Jobs(store, queue.index)
        self.answers = ResultCache(store, self.jobs, Accelerators(store))
        self.file = directory / "blob"
        self.file.write_bytes(BLOB)
        store.create(f"programs/{'a' * 64}/info.json", b"{}")
        self.send(store)

    def send(self, store: Store) -> None:
        tensors(store).add(self.file, Tensors(id=DIGEST, bytes=len(BLOB), tensors=[]))

    def submit(self, store: Store, owner: str = "local") -> str:
        job_id = new_id()
        UploadLocks(store).acquire(job_id, REQUEST, owner)
        Jobs(store).create(REQUEST, owner, job_id)
        return job_id

    def deleter(self, store: Store) -> Deleter:
        jobs = Jobs(store)
        return Deleter(store, jobs, ResultCache(store, jobs, Accelerators(store)), self.queue.index)

    def there(self) -> tuple[bool, bool]:
        """The document, and the blob."""
        return self.store.exists(TENSORS.document), self.store.exists(f"tensors/{DIGEST}/data")

    def erase(self, job_id: str) -> None:
        self.deleter(self.store).delete_job(self.jobs.get(job_id))


@pytest.fixture
def place(any_store: Store, tmp_path: Path, queue: JobQueue) -> Place:
    return Place(any_store, tmp_path, queue)


def ended(place: Place, directory: Path, owner: str = "local") -> Job:
    job_id = place.submit(place.store, owner)
    (directory / "tir").mkdir(exist_ok=True)
    for name in ("report.json", "tir/a.txt", "tir/b.txt"):
        (directory / name).write_text("{}")
    publish_all(place.store, job_id, 1, directory)
    place.jobs.succeed(job_id, 1, RESULT)
    place.answers.put(place.jobs.get(job_id))
    return place.jobs.get(job_id)


def test_an_erased_job_leaves_nothing(place: Place, tmp_path: Path) -> None:
    job = ended(place, tmp_path)
    place.jobs.update_index(job.id)
    place.erase(job.id)
    with pytest.raises(KeyError):
        place.jobs.get(job.id)
    assert place.store.folders("jobs") == []
    assert not any(place.store.sizes(folder) for folder in ("open", "uses", "answers", "erasing"))
    assert place.queue.index.newest(JobSelection("local"), None, 9) == place.queue.index.open_ids() == []
    assert place.there() == (True, True)


@pytest.mark.slow
def test_an_upload_is_needed_as_long_as_the_record_of_a_job_is_there(place: Place, tmp_path: Path) -> None:
    job = ended(place, tmp_path)
    with pytest.raises(InUseError, match=job.id):
        place.deleter(place.store).delete_upload(TENSORS, "local")
    assert place.there() == (True, True)
    place.erase(job.id)
    place.deleter(place.store).delete_upload(TENSORS, "local")
    assert place.there() == (False, False)
    assert place.store.sizes("erasing") == {}
    with pytest.raises(MissingUploadError):
        place.submit(place.store)
    assert place.store.sizes("uses") == {}


def test_what_others_have_sent_or_need_stays(place: Place, tmp_path: Path) -> None:
    job = ended(place, tmp_path, "other")
    mine, theirs = (f"owners/{owner_digest(owner)}/tensors/{DIGEST}" for owner in ("local", "other"))
    for mark in (mine, theirs):
        place.store.create(mark, b"")
    place.deleter(place.store).delete_upload(TENSORS, "local")
    assert place.there() == (True, True)
    assert not place.store.exists(mine)
    place.erase(job.id)
    place.deleter(place.store).delete_upload(TENSORS, "nobody")
    assert place.there() == (True, True)
    place.deleter(place.store).delete_upload(TENSORS, "other")
    assert place.there() == (False, False)


class Counting:
    """A store that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self.store, name)


def test_to_erase_an_upload_costs_the_same_however_many_owners_there_are(any_store: Store, tmp_path: Path) -> None:
    asked = []
    for owners in (1, 12):
        file = tmp_path / "blob"
        file.write_bytes(BLOB)
        for owner in range(owners):
            Ownership(any_store, f"other {owner}").add("models", "b" * 64)
        tensors(any_store).seen_by("local").add(file, Tensors(id=DIGEST, bytes=len(BLOB), tensors=[]))
        counting: Any = Counting(any_store)
        jobs = Jobs(counting)
        answers: Any = None
        Deleter(counting, jobs, answers, answers).delete_upload(TENSORS, "local")
        assert not any_store.exists(TENSORS.document)
        assert not list(any_store.keys(f"senders/tensors/{DIGEST}"))
        asked.append(counting.asked)
    assert asked[0] == asked[1]


def test_who_sent_it_before_that_was_noted_both_ways_is_found_once(place: Place) -> None:
    for owner in ("local", "other"):
        place.store.create(f"owners/{owner_digest(owner)}/tensors/{DIGEST}", b"")
    tensors(place.store).seen_by("third").add(place.file, Tensors(id=DIGEST, bytes=len(BLOB), tensors=[]))
    for owner in ("local", "third"):
        place.deleter(place.store).delete_upload(TENSORS, owner)
        assert place.there() == (True, True)
    assert {key.rsplit("/", 1)[1] for key in place.store.keys(f"senders/tensors/{DIGEST}")} == {
        "all",
        owner_digest("other"),
    }
    place.deleter(place.store).delete_upload(TENSORS, "other")
    assert place.there() == (False, False)


def test_claims_of_the_dead_do_not_count(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    UploadLocks(place.store).acquire(new_id(), REQUEST, "local")  # and the process dies
    with pytest.raises(BeingDeletedError):
        place.deleter(place.store).delete_upload(TENSORS, "local")
    monkeypatch.setattr(locks_module, "_DEAD_AFTER", -1.0)
    place.deleter(place.store).delete_upload(TENSORS, "local")
    assert place.there() == (False, False)
    assert place.store.sizes(TENSORS.locks_folder) == {}


def test_two_who_submit_the_same_job_do_not_take_back_each_others_claims(place: Place) -> None:
    job_id = new_id()
    kept = UploadLocks(place.store).acquire(job_id, REQUEST, "local")
    UploadLocks(place.store).acquire(job_id, REQUEST, "local").release()
    place.jobs.create(REQUEST, "local", job_id)
    assert kept.is_valid()
    with pytest.raises(InUseError):
        place.deleter(place.store).delete_upload(TENSORS, "local")


@pytest.mark.parametrize(("steps", "any_store"), rotated(range(12), ("folder", "bucket")), indirect=["any_store"])
def test_who_dies_while_it_erases_a_job_is_followed_by_another(
    place: Place, tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ended(place, tmp_path)
    count = itertools.count()

    class Dying:
        def __getattr__(self, name: str) -> Any:
            if next(count) == steps:
                raise SystemExit
            return getattr(place.store, name)

    try:
        place.deleter(Dying()).delete_job(job)
    except SystemExit:
        assert steps < 2 or place.store.sizes("erasing")
    monkeypatch.setattr(locks_module, "_DEAD_AFTER", -1.0)
    for _ in place.deleter(place.store).resume_interrupted():
        pass
    assert place.store.sizes("erasing") == {}
    if steps >= 3:  # its request is gone
        assert place.jobs.existing(place.jobs.ids()) == []
        assert not any(place.store.sizes(folder) for folder in ("jobs", "uses"))
    else:
        assert place.jobs.get(job.id) == job


def test_the_note_of_who_died_while_it_erased_an_upload_goes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.store.create(f"{TENSORS.deletions_folder}/{new_id()}", b"")
    list(place.deleter(place.store).resume_interrupted())
    with pytest.raises(BeingDeletedError):
        place.send(place.store)
    with pytest.raises(BeingDeletedError):
        place.submit(place.store)
    monkeypatch.setattr(locks_module, "_DEAD_AFTER", -1.0)
    list(place.deleter(place.store).resume_interrupted())
    place.submit(place.store)


ACTS = ["submit", "erase", "send", "erase job"]


@pytest.mark.slow
@settings(max_examples=share(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(ACTS), min_size=2, max_size=4),
    st.lists(st.integers(0, 3), max_size=120),
    st.booleans(),
)
def test_no_order_leaves_a_job_without_what_it_needs(
    tmp_path_factory: pytest.TempPathFactory, queue: JobQueue, acts: list[str], schedule: list[int], needed: bool
) -> None:
    directory = tmp_path_factory.mktemp("place")
    place = Place(Store(directory / "store"), directory, queue)
    first = ended(place, tmp_path_factory.mktemp("out")) if needed else None
    outcomes: list[str] = []

    def actor(act: str) -> Callable[[Store], None]:
        def run(store: Store) -> None:
            try:
                if act == "submit":
                    place.submit(store)
                elif act == "erase":
                    place.deleter(store).delete_upload(TENSORS, "local")
                elif act == "send":
                    place.send(store)
                elif first is not None:
                    place.deleter(store).delete_job(first)
                outcomes.append(act)
            except (BeingDeletedError, InUseError, MissingUploadError) as error:
                outcomes.append(type(error).__name__)

        return run

    run_stepwise(place.store, [actor(act) for act in acts], itertools.chain(schedule, itertools.cycle([0, 1, 2, 3])))
    document, blob = place.there()
    accepted = place.jobs.existing(place.jobs.ids())
    assert len(accepted) == outcomes.count("submit") + (first is not None and "erase job" not in acts)
    assert not accepted or (document and blob), outcomes
    assert document <= blob, outcomes
    assert document or "erase" in outcomes
    assert place.store.sizes("erasing") == {}
    for key in place.store.sizes(TENSORS.locks_folder):
        assert key.split("/")[-2] in {job.id for job in accepted}
    if "BeingDeletedError" not in outcomes and "erase" not in outcomes:
        assert document


@pytest.mark.slow
@settings(max_examples=share(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["pin", "expire", "expire", "erase"]), min_size=2, max_size=4), st.lists(st.integers(0, 3))
)
def test_what_was_pinned_does_not_expire(
    tmp_path_factory: pytest.TempPathFactory, queue: JobQueue, acts: list[str], schedule: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("place")
    place = Place(Store(directory / "store"), directory, queue)
    job = ended(place, tmp_path_factory.mktemp("out"))
    outcomes: list[str] = []

    def actor(act: str) -> Callable[[Store], None]:
        def run(store: Store) -> None:
            deleter = place.deleter(store)
            try:
                done = {"pin": deleter.pin_job, "expire": deleter.delete_expired_job, "erase": deleter.delete_job}[act](
                    job
                )
                outcomes.append(f"{act} {done}")
            except BeingDeletedError:
                outcomes.append(f"{act} later")

        return run

    run_stepwise(place.store, [actor(act) for act in acts], itertools.chain(schedule, itertools.cycle([0, 1, 2, 3])))
    there = place.jobs.recorded(job.id)
    assert there or {"expire True", "erase None"} & set(outcomes)
    if "pin True" in outcomes and "erase" not in acts:
        assert there
        assert place.jobs.get(job.id).pinned
    assert there or place.store.sizes("jobs") == {}
    assert place.store.sizes("erasing") == {}


def test_the_note_of_a_job_says_what_it_needs(place: Place, tmp_path: Path) -> None:
    job = ended(place, tmp_path)
    data = place.store.read(f"jobs/{job.id}/request.json")
    assert place.jobs.from_request(job.id, data).options == REQUEST.options
    assert json.loads(data)["owner"] == "local"
