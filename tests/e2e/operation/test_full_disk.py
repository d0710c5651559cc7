"""A disk that fills up under the service, and has room again."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.single import Conv, conv_model
from tests.helpers.cluster import Cluster, running_cluster

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small disk")
Check = Callable[..., dict]
MODEL = conv_model(Conv(channels=8, filters=8, height=6, width=6)).SerializeToString()
OTHER = conv_model(Conv(channels=8, filters=8, height=7, width=7)).SerializeToString()
ANOTHER = conv_model(Conv(channels=16, filters=16, height=14, width=14)).SerializeToString()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    disk = tmp_path / "data"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with running_cluster(tmp_path) as running:
            yield running
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(filler, bytes(1 << 16)):
            pass
    try:
        yield
    finally:
        os.close(filler)
        (disk / "filler").unlink()


def job(cluster: Cluster, model: str, seed: int) -> dict:
    request = {"model": model, "accelerator": "vta", "options": {"seed": seed}, "fresh": True}
    answer = cluster.client.post("/v1/jobs", json=request, headers={"Prefer": "wait=60"}, timeout=90)
    assert answer.status_code in {200, 201, 202}, answer.text
    return answer.json()


@pytest.mark.slow
def test_says_so_loses_nothing_and_heals(cluster: Cluster, is_problem: Check) -> None:
    client = cluster.client
    model = client.post("/v1/models", content=MODEL).json()["id"]
    another = client.post("/v1/models", content=ANOTHER).json()["id"]
    assert job(cluster, model, 1)["state"] == "succeeded"
    is_problem(client.post("/v1/models", content=os.urandom(30 << 20)), 503, "disk-full")
    assert list((cluster.data / "scratch").iterdir()) == []
    running = client.post("/v1/jobs", json={"model": another, "accelerator": "vta"}).json()["id"]
    with full(cluster.data):
        for door, content in (("models", OTHER), ("tensors", b"PK"), ("programs", b"PK"), ("accelerators", b"{}")):
            headers = {"Content-Type": "application/json"} if door == "accelerators" else {}
            answer = client.post(f"/v1/{door}", content=content, headers=headers)
            is_problem(answer, 503, "disk-full")
            assert answer.headers["retry-after"]
        is_problem(client.post("/v1/jobs", json={"model": model, "accelerator": "vta"}), 503, "store-unavailable")
        assert client.get("/readyz").status_code == 503
        assert client.get("/v1/jobs").json()["items"]
        assert client.get("/healthz").status_code == 200
    assert cluster.ready()
    assert job(cluster, model, 2)["state"] == "succeeded"
    ended = client.get(f"/v1/jobs/{running}", headers={"Prefer": "wait=60"}, timeout=90).json()
    assert ended["state"] == "succeeded" or ended["error"]["type"] == "/problems/disk-full", ended
    assert cluster.lives("api")
    assert all(cluster.lives(name) for name in cluster.worker_names)
