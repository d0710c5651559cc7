"""Large downloads, compressed on their way: the memory of the api stays as it is, and it answers others meanwhile."""

import hashlib
import random
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from backports import zstd

from examples.single import Conv, conv_model
from tests.helpers.cluster import Cluster
from tests.helpers.records import RESULT, publish_all
from worker.records.job_store import Jobs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
MEGABYTES, CLIENTS, ROOM = 20, 8, 80


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, workers=0)
    try:
        cluster.start_what_is_down()
        deadline = time.monotonic() + 60
        while "Application startup complete" not in cluster.log("api"):
            assert time.monotonic() < deadline, cluster.log("api")
            time.sleep(0.1)
        yield cluster
    finally:
        cluster.stop()


def resident(pid: int) -> float:
    """Megabytes of memory."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def large_text() -> bytes:
    words = [random.Random(number).randbytes(6).hex() for number in range(2000)]
    line = "\n".join(words).encode()
    return (line * (MEGABYTES * (1 << 20) // len(line) + 1))[: MEGABYTES << 20]


def downloaded(url: str, coding: str) -> str:
    """The digest of what came, which is not kept."""
    unpack = zstd.ZstdDecompressor().decompress if coding == "zstd" else zlib.decompressobj(31).decompress
    digest, packed = hashlib.sha256(), 0
    with httpx2.stream("GET", url, headers={"Accept-Encoding": coding}, timeout=120) as answer:
        assert answer.headers["content-encoding"] == coding
        for chunk in answer.iter_raw():
            packed += len(chunk)
            digest.update(unpack(chunk))
    assert packed < MEGABYTES << 19
    return digest.hexdigest()


@pytest.mark.slow
def test_memory_is_constant_and_others_are_answered(cluster: Cluster, tmp_path: Path) -> None:
    model = cluster.client.post("/v1/models", content=conv_model(Conv(8, 8, 6, 6)).SerializeToString()).json()["id"]
    job = cluster.client.post("/v1/jobs", json={"model": model, "accelerator": "vta"}).json()["id"]
    left = tmp_path / "left"
    left.mkdir()
    data = large_text()
    (left / "big.txt").write_bytes(data)
    publish_all(cluster.store, job, 1, left)
    Jobs(cluster.store).succeed(job, 1, RESULT)
    url = f"{cluster.client.base_url}/v1/jobs/{job}/artifacts/big.txt"
    wanted = hashlib.sha256(data).hexdigest()
    assert downloaded(url, "zstd") == downloaded(url, "gzip") == wanted
    before, most, meanwhile = resident(cluster.pid("api")), 0.0, 0
    with ThreadPoolExecutor(CLIENTS) as clients:
        going = [clients.submit(downloaded, url, ("zstd", "gzip")[number % 2]) for number in range(CLIENTS)]
        while not all(each.done() for each in going):
            assert cluster.client.get("/healthz").status_code == 200
            meanwhile += not any(each.done() for each in going)
            most = max(most, resident(cluster.pid("api")))
            time.sleep(0.05)
    assert all(each.result() == wanted for each in going)
    assert most - before < ROOM, f"{before:.0f} MB before, {most:.0f} at most"
    assert meanwhile, "nobody was answered while all were downloading"
