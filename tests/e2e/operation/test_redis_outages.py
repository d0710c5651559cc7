"""Redis away for longer than anybody waits: nothing is accepted, nothing is lost, and all heals by itself."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from examples.resnet8 import resnet8
from tests.helpers import processes
from tests.helpers.cluster import Cluster
from tests.helpers.programs.hand_programs import addition, zipped
from worker.records.job_store import Jobs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
    pytest.mark.xdist_group("cluster"),
]


@pytest.fixture(scope="module")
def program(cluster: Cluster) -> dict[str, str]:
    return {"program": cluster.client.post("/v1/programs", content=zipped(addition())).json()["id"]}


@pytest.fixture(scope="module")
def long(cluster: Cluster) -> dict[str, str]:
    model = cluster.client.post("/v1/models", content=resnet8().SerializeToString()).json()["id"]
    return {"model": model, "accelerator": "vta"}


def submit(cluster: Cluster, request: dict[str, str]) -> str:
    answer = cluster.client.post("/v1/jobs", json=request | {"fresh": True})
    assert answer.status_code == 202, answer.text
    return answer.headers["location"]


def wait(cluster: Cluster, location: str, states: tuple[str, ...], seconds: float = 60) -> dict:
    deadline = time.monotonic() + seconds
    while (job := cluster.client.get(location).json())["state"] not in states:
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
    return job


@pytest.mark.slow
def test_without_redis(
    cluster: Cluster, program: dict[str, str], long: dict[str, str], is_problem: Callable[..., dict]
) -> None:
    """It comes back having forgotten everything."""
    running = submit(cluster, long)
    wait(cluster, running, ("running",))
    queued, unwanted = submit(cluster, program), submit(cluster, program)
    cluster.wipe_redis()
    known = set(Jobs(cluster.store).ids())

    begin = time.monotonic()
    refused = cluster.client.post("/v1/jobs", json=program)
    is_problem(refused, 503, "queue-unavailable")
    assert refused.headers["retry-after"]
    is_problem(cluster.client.get("/readyz"), 503, "not-ready")
    assert cluster.client.post(f"{unwanted}/cancel").json()["state"] == "canceled"
    assert time.monotonic() - begin < 3
    assert wait(cluster, running, ("succeeded",))["attempt"] == 1

    cluster.start_redis()
    assert cluster.ready(20)
    assert wait(cluster, queued, ("succeeded",), 30)["attempt"] == 1
    assert cluster.client.get(unwanted).json()["state"] == "canceled"
    assert set(Jobs(cluster.store).ids()) == known
    assert wait(cluster, submit(cluster, program), ("succeeded",))["attempt"] == 1
    assert cluster.lives("worker-0")


@pytest.mark.slow
def test_canceling_a_running_job_without_redis(cluster: Cluster, long: dict[str, str]) -> None:
    running = submit(cluster, long)
    child = cluster.freeze_doer()
    wait(cluster, running, ("running",))
    cluster.kill("redis")
    try:
        begin = time.monotonic()
        assert cluster.client.post(f"{running}/cancel").json()["state"] == "canceled"
        assert processes.gone([child], 3)
        assert time.monotonic() - begin < 3
    finally:
        cluster.start_redis()
    assert cluster.ready(20)
    assert cluster.client.get(running).json()["state"] == "canceled"


@pytest.mark.slow
def test_a_job_of_a_dead_worker_runs_after_redis_has_forgotten_it(cluster: Cluster, long: dict[str, str]) -> None:
    running = submit(cluster, long)
    wait(cluster, running, ("running",))
    cluster.kill("worker-0")
    cluster.wipe_redis()
    cluster.start_what_is_down()
    job = wait(cluster, running, ("succeeded",), 60)
    assert job["attempt"] == 2


@pytest.mark.slow
def test_an_upload_whose_api_was_killed_is_removed(cluster: Cluster) -> None:
    scratch, received = cluster.data / "scratch", threading.Event()

    def body() -> Iterator[bytes]:
        while not received.is_set():
            yield bytes(1 << 20)
            received.wait(0.1)

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(cluster.client.post, "/v1/models", content=body())
        deadline = time.monotonic() + 60
        while not any(path.stat().st_size for path in scratch.glob("upload-*/*")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        cluster.kill("api")
        received.set()
        with pytest.raises(httpx2.HTTPError):
            sending.result()
    (left,) = scratch.glob("upload-*")
    os.utime(left, times=(0, 0))  # it is old enough then
    cluster.start_what_is_down()
    assert cluster.ready()
    assert list(scratch.glob("upload-*")) == []
