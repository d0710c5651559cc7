"""Whose job is next: owners take turns, and the job of a worker that was killed comes before all others."""

import os
import signal
import sys
import time

import pytest

from examples.mobilenet_v2 import mobilenet_v2
from tests.helpers import processes
from tests.helpers.cluster import Cluster
from tests.helpers.marking import rest_all
from tests.helpers.programs.hand_programs import addition, zipped
from worker.queue.job_queue import JobQueue
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
]


@pytest.fixture(scope="module")
def program(cluster: Cluster) -> str:
    return str(cluster.client.post("/v1/programs", content=zipped(addition())).json()["id"])


def wait(cluster: Cluster, location: str, state: str, seconds: float) -> dict:
    deadline = time.monotonic() + seconds
    while (job := cluster.client.get(location).json())["state"] != state:
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
    return job


def follow_and_cancel(cluster: Cluster, location: str, when: str) -> str:
    """Returns all events of a job that is canceled once one of them has the text ``when``.

    A cancellation ends the events, also those of an attempt that the record knows of and Redis does not yet.
    """
    told = []
    with cluster.client.stream("GET", f"{location}/events", timeout=60) as events:
        for line in events.iter_lines():
            told.append(line)
            if when in line and line.startswith("data:"):
                cluster.client.post(f"{location}/cancel")
    return "\n".join(told)


@pytest.mark.parametrize("redis_dies_too", rest_all([True, False]))
def test_the_job_of_a_killed_worker_is_the_next(cluster: Cluster, program: str, redis_dies_too: bool) -> None:
    model = cluster.client.post("/v1/models", content=mobilenet_v2().SerializeToString()).json()["id"]
    long = {"model": model, "accelerator": "vta", "fresh": True}
    location = cluster.client.post("/v1/jobs", json=long).headers["location"]
    wait(cluster, location, "running", 30)
    quick = {"program": program, "fresh": True}
    others = [cluster.client.post("/v1/jobs", json=quick).headers["location"] for _ in range(3)]
    (doer,) = cluster.doers()
    os.kill(doer, signal.SIGSTOP)

    cluster.kill("worker-0")
    if redis_dies_too:
        cluster.kill("redis")
        cluster.start_redis()
    job = wait(cluster, location, "queued", 60)
    assert (job["attempt"], job["started"], job["stage"]) == (None, None, None)
    deadline = time.monotonic() + 60  # it is queued once its record says so
    while (found := [cluster.client.get(each).json()["position"] for each in (location, *others)]) != [0, 1, 2, 3]:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    assert [job["id"] for job in cluster.client.get("/v1/jobs?state=running").json()["items"]] == []

    cluster.start_worker("worker-0")
    assert wait(cluster, location, "running", 60)["attempt"] == 2
    assert {cluster.client.get(each).json()["state"] for each in others} == {"queued"}
    told = follow_and_cancel(cluster, location, '"attempt":2')
    assert told.count('"state":"queued"') == 2
    assert told.index('"attempt":1') < told.rindex('"state":"queued"') < told.index('"attempt":2')
    for each in others:
        assert wait(cluster, each, "succeeded", 30)["attempt"] == 1


def test_owners_take_turns(cluster: Cluster, program: str) -> None:
    """Twenty jobs of one delay those of others by one each, also of those that Redis has forgotten."""
    assert cluster.ready()
    jobs, queue = Jobs(cluster.store), JobQueue(cluster.redis, "cyclops")

    def submit(owner: str, count: int) -> list[str]:
        made = [jobs.create(JobRequest(program=program, accelerator=None), owner) for _ in range(count)]
        for job_id in made:
            queue.submit(job_id, owner=owner)
        return made

    worker = cluster.pid("worker-0")
    os.kill(worker, signal.SIGSTOP)
    many, few, one = submit("many", 20), submit("few", 2), submit("one", 1)
    cluster.wipe_redis()
    cluster.start_redis()
    deadline = time.monotonic() + 30
    while queue.waiting.count() < 23:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(worker, signal.SIGCONT)
    while jobs.open_ids():
        assert time.monotonic() < deadline + 60
        time.sleep(0.1)
    ran = sorted(jobs.existing([*many, *few, *one]), key=lambda job: job.started)
    owners = [job.owner for job in ran]
    assert [job.state for job in ran] == ["succeeded"] * 23
    assert owners.index("one") < 4
    assert [place for place, owner in enumerate(owners) if owner == "few"][1] < 7
    assert [job.id for job in ran if job.owner == "many"] == many
    assert processes.lives(worker)
