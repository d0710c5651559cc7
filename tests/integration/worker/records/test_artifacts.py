import hashlib
import os
from pathlib import Path

import pytest

from tests.helpers.records import RESULT, ended, publish_all
from worker.records.job_artifacts import Artifact, Artifacts, discard, publish
from worker.records.job_record import Job
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.runner.job_outputs import output_files
from worker.storage.object_store import Store


@pytest.fixture
def out(tmp_path: Path) -> Path:
    out = tmp_path / "out"
    (out / "tir" / "04-flatten").mkdir(parents=True)
    (out / "report.json").write_bytes(b"{}")
    (out / "tir" / "04-flatten.txt").write_bytes(b"flat")
    (out / "tir" / "04-flatten" / "00-pass.txt").write_bytes(b"pass")
    return out


@pytest.fixture
def job(store: Store, out: Path) -> Job:
    return ended(store, out)


def artifact(name: str, data: bytes, media_type: str = "text/plain; charset=utf-8") -> Artifact:
    return Artifact(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), media_type=media_type)


def test_lists_in_order_with_digests(store: Store, job: Job) -> None:
    artifacts = Artifacts(store, job)
    assert artifacts.all() == [
        artifact("report.json", b"{}", "application/json"),
        artifact("tir/04-flatten.txt", b"flat"),
        artifact("tir/04-flatten/00-pass.txt", b"pass"),
    ]
    assert [item.name for item in artifacts.all("tir/04-flatten")] == ["tir/04-flatten/00-pass.txt"]


def test_streams_and_reads(store: Store, job: Job) -> None:
    artifacts = Artifacts(store, job)
    assert artifacts.get("tir/04-flatten.txt").bytes == 4
    assert b"".join(artifacts.stream("tir/04-flatten.txt", 1, 3)) == b"la"
    assert artifacts.read("tir/04-flatten.txt", 1, 3) == b"la"
    assert artifacts.read("report.json", 0, 2) == b"{}"


@pytest.mark.parametrize(
    "name", ["", "nothing", "manifest.json", "../request.json", "/etc/passwd", "tir", "tir/", "a\0b"]
)
def test_names_that_are_no_artifact(store: Store, job: Job, name: str) -> None:
    with pytest.raises(KeyError):
        Artifacts(store, job).get(name)


def test_only_the_attempt_that_ended_the_job_counts(store: Store, out: Path) -> None:
    jobs = Jobs(store)
    job_id = jobs.create(JobRequest(model="a" * 64, accelerator="vta"))
    publish_all(store, job_id, 1, out)
    assert Artifacts(store, jobs.get(job_id)).all() == []
    (out / "report.json").write_bytes(b"[]")
    publish_all(store, job_id, 2, out)
    jobs.succeed(job_id, 2, RESULT)
    artifacts = Artifacts(store, jobs.get(job_id))
    assert artifacts.read("report.json", 0, 2) == b"[]"
    discard(store, job_id, 1)
    assert len(artifacts.all()) == 3
    assert {key.split("/")[3] for key in store.sizes(f"jobs/{job_id}/runs")} == {"2"}


def test_without_a_manifest_there_are_none(store: Store, job: Job) -> None:
    store.delete(f"jobs/{job.id}/runs/1/manifest.json")
    assert Artifacts(store, job).all() == []


def test_what_leads_elsewhere_is_not_published(store: Store, out: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (out / "link.txt").symlink_to(secret)
    (out / "folder").symlink_to(tmp_path)
    os.link(secret, out / "hard.txt")
    os.mkfifo(out / "pipe")
    (out / "odd name").write_bytes(b"")
    (out / "manifest.json").write_bytes(b"[]")
    jobs = Jobs(store)
    job_id = jobs.create(JobRequest(model="a" * 64, accelerator="vta"))
    manifest = publish(store, job_id, 1, output_files(out))
    assert [item.name for item in manifest.artifacts] == [
        "report.json",
        "tir/04-flatten.txt",
        "tir/04-flatten/00-pass.txt",
    ]
    assert all(b"secret" not in store.read(key) for key in store.sizes("jobs"))


def test_published_again_after_the_store_went_away(any_store: Store, out: Path) -> None:
    jobs = Jobs(any_store)
    job_id = jobs.create(JobRequest(model="a" * 64, accelerator="vta"))
    files = output_files(out)
    for _ in range(2):
        manifest = publish(any_store, job_id, 1, files)
    jobs.succeed(job_id, 1, RESULT)
    artifacts = Artifacts(any_store, jobs.get(job_id))
    assert artifacts.all() == manifest.artifacts
    assert len(manifest.artifacts) == 3
    assert b"".join(artifacts.stream("tir/04-flatten.txt")) == b"flat"
