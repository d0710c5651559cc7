from pathlib import Path

import pytest

from worker.artifacts import Artifact, Artifacts, publish
from worker.store import Store

JOB = "1" * 32


@pytest.fixture
def artifacts(store: Store, tmp_path: Path) -> Artifacts:
    out = tmp_path / "out"
    (out / "tir" / "04-flatten").mkdir(parents=True)
    (out / "report.json").write_bytes(b"{}")
    (out / "tir" / "04-flatten.txt").write_bytes(b"flat")
    (out / "tir" / "04-flatten" / "00-pass.txt").write_bytes(b"pass")
    publish(store, JOB, out)
    return Artifacts(store, JOB)


def test_lists_in_order(artifacts: Artifacts) -> None:
    assert artifacts.all() == [
        Artifact(name="report.json", bytes=2, media_type="application/json"),
        Artifact(name="tir/04-flatten.txt", bytes=4, media_type="text/plain; charset=utf-8"),
        Artifact(name="tir/04-flatten/00-pass.txt", bytes=4, media_type="text/plain; charset=utf-8"),
    ]
    assert [item.name for item in artifacts.all("tir/04-flatten")] == ["tir/04-flatten/00-pass.txt"]


def test_streams_and_reads(artifacts: Artifacts) -> None:
    assert artifacts.size("tir/04-flatten.txt") == 4
    assert b"".join(artifacts.stream("tir/04-flatten.txt", 1, 3)) == b"la"
    assert artifacts.read("tir/04-flatten.txt", 1, 3) == b"la"
    assert artifacts.read("report.json", 0, 2) == b"{}"


@pytest.mark.parametrize("name", ["", "nothing", "../request.json", "/etc/passwd", "tir", "tir/", "a\0b"])
def test_names_that_are_no_artifact(artifacts: Artifacts, store: Store, name: str) -> None:
    store.write(f"jobs/{JOB}/request.json", b"secret")
    with pytest.raises(KeyError):
        artifacts.size(name)
