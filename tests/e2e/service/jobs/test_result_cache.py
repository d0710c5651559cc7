"""Jobs that were asked before, over a real worker."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from examples.single import Conv, conv_model
from tests.helpers.cluster import Cluster
from tests.helpers.programs.hand_programs import addition, zipped

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture(scope="module")
def request_(cluster: Cluster) -> dict[str, Any]:
    model = conv_model(Conv(8, 8, 6, 6)).SerializeToString()
    return {"model": cluster.client.post("/v1/models", content=model).json()["id"], "accelerator": "vta"}


def post(cluster: Cluster, request: dict[str, Any], status: int) -> dict[str, Any]:
    answer = cluster.client.post("/v1/jobs", json=request)
    assert answer.status_code == status, answer.text
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    return answer.json()


def done(cluster: Cluster, request: dict[str, Any]) -> dict[str, Any]:
    job = post(cluster, request, 202)
    assert job["cached"] is False
    deadline = time.monotonic() + 60
    while (found := cluster.client.get(job["links"]["self"]).json())["state"] in {"queued", "running"}:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    assert found["state"] == "succeeded"
    return found


def answered(cluster: Cluster, request: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
    """The answer of a job that has ended: it is written just after the end."""
    deadline = time.monotonic() + seconds
    while (answer := cluster.client.post("/v1/jobs", json=request)).status_code != 200:
        assert time.monotonic() < deadline, answer.text
        cluster.client.post(f"{answer.headers['location']}/cancel")
        time.sleep(0.1)
    return answer.json()


def test_the_same_again_is_answered_from_the_record(cluster: Cluster, request_: dict[str, Any]) -> None:
    job = done(cluster, request_)
    assert answered(cluster, request_) == job | {"cached": True}
    assert post(cluster, request_, 200) == job | {"cached": True}
    assert cluster.client.get(job["links"]["self"]).json() == job


@pytest.fixture(scope="module")
def program(cluster: Cluster) -> dict[str, Any]:
    """It is quick in a process that has compiled nothing yet."""
    program = cluster.client.post("/v1/programs", content=zipped(addition())).json()["id"]
    return {"program": program, "options": {"engine": "timing"}}


def test_fresh_runs_anew_and_is_the_answer_then(cluster: Cluster, program: dict[str, Any]) -> None:
    first = done(cluster, program)
    second = done(cluster, program | {"fresh": True})
    assert first["id"] != second["id"]
    deadline = time.monotonic() + 60
    while answered(cluster, program)["id"] != second["id"]:
        assert time.monotonic() < deadline


@pytest.mark.slow
def test_an_answer_outlives_the_memory_of_redis(cluster: Cluster, program: dict[str, Any]) -> None:
    fresh = done(cluster, program | {"fresh": True})
    deadline = time.monotonic() + 60
    while (job := answered(cluster, program))["id"] != fresh["id"]:  # an older one, until this one's is written
        assert time.monotonic() < deadline
    cluster.wipe_redis()
    assert post(cluster, program, 200) == job
    cluster.start_redis()
    assert cluster.ready()
    assert post(cluster, program, 200) == job


@pytest.mark.parametrize("fresh", ["yes", 1, None])
def test_fresh_is_true_or_false(
    cluster: Cluster, request_: dict[str, Any], is_problem: Callable[..., dict], fresh: object
) -> None:
    answer = cluster.client.post("/v1/jobs", json=request_ | {"fresh": fresh})
    is_problem(answer, 422, "invalid-request", "fresh")
