"""Jobs that die, are canceled, or reach a limit; services that are stopped."""

import functools
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from onnx import TensorProto, helper

from examples.mobilenet_v2 import mobilenet_v2
from examples.resnet8 import resnet8
from examples.single import Conv, conv_model
from tests.helpers import processes
from tests.helpers.cluster import Cluster
from tests.helpers.marking import rest_all
from worker.records.job_record import FORMAT
from worker.storage.redis_server import connect

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
    pytest.mark.slow,
]
SHORT = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()


@functools.cache
def long() -> bytes:
    return resnet8().SerializeToString()


@functools.cache
def longer() -> bytes:
    """It takes several seconds on any machine."""
    return mobilenet_v2().SerializeToString()


@pytest.fixture(scope="module")
def own(start_service: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service that the tests of this module may hurt."""
    with start_service(tmp_path_factory.mktemp("own"), CYCLOPS_RECONCILE_SECONDS="1", CYCLOPS_WARM_UP="vta") as running:
        yield running


def works(service: Any) -> bool:
    return service.wait(service.submit(SHORT))["state"] == "succeeded"


@pytest.mark.parametrize("which", ["the one that attends to it", "the one that does it"])
def test_a_job_whose_process_was_killed_runs_again(own: Any, which: str) -> None:
    location = own.submit(SHORT)
    supervisor, child = processes.frozen(own.process.pid)
    own.wait_for(location, {"running"})
    processes.kill(child if which == "the one that does it" else supervisor)
    assert processes.gone([child])
    job = own.wait(location)
    assert (job["state"], job["attempt"]) == ("succeeded", 2), job


@pytest.mark.slow
def test_a_job_that_kills_its_process_three_times_has_failed(own: Any) -> None:
    location = own.submit(longer())
    killed: set[int] = set()
    while len(killed) < 3:
        _, child = processes.job_of(own.process.pid, but=killed)
        time.sleep(0.3)  # it has begun its attempt by then
        killed |= {child}
        processes.kill(child)
    job = own.wait(location, 20)
    assert job["state"] == "failed"
    assert job["error"]["type"] == "/problems/worker_lost"
    assert job["error"]["detail"].count("SIGKILL") == 3
    assert works(own)


@pytest.mark.slow
def test_a_killed_worker_takes_its_processes_along_and_its_job_runs_again(own: Any) -> None:
    """Nobody is left who saw it, and nothing on this host is asked: the lease ends, as that of another host would."""
    location = own.submit(long())
    own.wait_for(location, {"running"})
    worker, (supervisor, child) = processes.worker_of(own.process.pid), processes.job_of(own.process.pid)
    begin = time.monotonic()
    processes.kill(worker)
    processes.kill(supervisor)
    assert processes.gone([worker, supervisor, child], 2)
    while (job := own.client.get(location).json())["attempt"] == 1:
        assert time.monotonic() - begin < 20, job
        time.sleep(0.05)
    job = own.wait(location, 60)
    assert (job["state"], job["attempt"]) == ("succeeded", 2), job


def test_a_job_that_cannot_be_begun_waits_until_it_can(own: Any) -> None:
    worker, scratch = processes.worker_of(own.process.pid), own.data / "scratch"
    model = own.client.post("/v1/models", content=SHORT).json()["id"]
    scratch.rename(own.data / "elsewhere")
    try:
        job = {"model": model, "accelerator": "vta", "fresh": True}
        location = own.client.post("/v1/jobs", json=job).headers["location"]
        time.sleep(1)
        assert own.client.get(location).json()["state"] == "queued"
    finally:
        (own.data / "elsewhere").rename(scratch)
    assert own.wait(location)["attempt"] == 1
    assert processes.worker_of(own.process.pid) == worker


def test_canceling_a_running_job(own: Any, is_problem: Callable[..., dict]) -> None:
    location = own.submit(long())
    own.wait_for(location, {"running"})
    _, child = processes.job_of(own.process.pid)
    canceled = own.client.post(f"{location}/cancel")
    assert canceled.json()["state"] == "canceled"
    assert processes.gone([child])
    assert own.client.post(f"{location}/cancel").json()["state"] == "canceled"
    assert own.client.get(location).json()["state"] == "canceled"
    is_problem(own.client.get(f"{location}/report"), 404, "not-found")
    assert own.client.get(f"{location}/artifacts").json() == {"artifacts": []}
    assert works(own)


def test_canceling_a_job_that_hangs_in_native_code(own: Any) -> None:
    """A stopped process stands for one that hears nothing."""
    location = own.submit(long())
    own.wait_for(location, {"running"})
    _, child = processes.frozen(own.process.pid)
    assert own.client.post(f"{location}/cancel").json()["state"] == "canceled"
    assert processes.gone([child])


def test_canceling_a_queued_job(own: Any) -> None:
    running, queued = own.submit(longer()), own.submit(SHORT)
    own.wait_for(running, {"running"})
    assert own.client.post(f"{queued}/cancel").json()["state"] == "canceled"
    assert own.client.post(f"{running}/cancel").json()["state"] == "canceled"
    assert works(own)
    assert own.client.get(queued).json()["started"] is None
    assert "was canceled" in own.client.get(f"{queued}/report").json()["detail"]


def test_an_ended_job_cannot_be_canceled(own: Any, is_problem: Callable[..., dict]) -> None:
    location = own.submit(SHORT)
    own.wait(location)
    is_problem(own.client.post(f"{location}/cancel"), 409, "conflict")


def test_results_wait_for_the_end(own: Any, is_problem: Callable[..., dict]) -> None:
    location = own.submit(long())
    for part in ("report", "outputs", "trace"):
        response = own.client.get(f"{location}/{part}")
        is_problem(response, 409, "conflict")
        assert response.headers["retry-after"]
    own.client.post(f"{location}/cancel")


@pytest.mark.slow
@pytest.mark.all  # of a job that waits and of one that runs there are tests of outages, each time
def test_a_queue_that_forgets_everything(own: Any) -> None:
    """What was accepted is run all the same."""
    running, queued = own.submit(long()), own.submit(SHORT)
    own.wait_for(running, {"running"})
    redis_connection(own.data).flushall()
    processes.kill(processes.worker_of(own.process.pid))
    assert own.wait(queued, 60)["state"] == "succeeded"
    assert own.wait(running, 60)["state"] == "succeeded"


def redis_connection(data: Path) -> redis.Redis:
    return connect(f"unix://{data}/redis/redis.sock")


def test_a_message_that_names_another_function_is_not_run(own: Any, tmp_path: Path) -> None:
    from rq import Queue  # noqa: PLC0415
    from rq.serializers import JSONSerializer  # noqa: PLC0415

    queue = Queue(f"cyclops.{FORMAT}", connection=redis_connection(own.data), serializer=JSONSerializer)
    queue.enqueue_call("os.mkdir", args=(str(tmp_path / "made"),))
    assert works(own)
    assert not (tmp_path / "made").exists()


def test_an_operator_that_nobody_runs_fails_with_its_name(own: Any) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))
    node = helper.make_node("Sin", ["x"], ["y"], name="odd_one", domain="com.example")
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)],
    )
    response = own.client.post("/v1/models", content=model.SerializeToString())
    problem = response.json()
    if response.status_code == 201:
        job = {"model": response.json()["id"], "accelerator": "vta"}
        problem = own.wait(own.client.post("/v1/jobs", json=job).headers["location"])["error"]
    assert problem["type"] == "/problems/unsupported-operator"
    assert "odd_one" in str(problem)
    assert "Sin" in problem["detail"]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, str]]:
    """An api whose workers come and go, and a model."""
    cluster = Cluster(tmp_path_factory.mktemp("limited"), workers=0)
    try:
        cluster.start_what_is_down()
        assert cluster.answers(), cluster.log("api")
        yield cluster, cluster.client.post("/v1/models", content=longer()).json()["id"]
    finally:
        cluster.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "slug"),
    [
        ({"CYCLOPS_JOB_SECONDS": "1"}, "time-limit"),
        ({"CYCLOPS_JOB_CPU_SECONDS": "1"}, "time-limit"),
        ({"CYCLOPS_JOB_MEMORY_BYTES": str(64 << 20)}, "memory-limit"),
        ({"CYCLOPS_JOB_FILE_BYTES": "1000"}, "output-limit"),
        ({"CYCLOPS_JOB_OUTPUT_BYTES": "10000"}, "output-limit"),
        ({"CYCLOPS_JOB_SCRATCH_BYTES": "10000"}, "output-limit"),
    ],
    ids=["wall time", "processor time", "memory", "file size", "all files", "disk"],
)
def test_limits(limited: tuple[Cluster, str], limit: dict[str, str], slug: str) -> None:
    cluster, model = limited
    asked = {"model": model, "accelerator": "vta", "fresh": True}
    location = cluster.client.post("/v1/jobs", json=asked).headers["location"]
    cluster.start_worker("limited", **limit)
    try:
        deadline = time.monotonic() + 120
        while not (job := cluster.client.get(location).json())["finished"]:
            assert time.monotonic() < deadline, job
            time.sleep(0.05)
        assert job["state"] == "failed", job
        assert job["error"]["type"] == f"/problems/{slug}", job
        assert job["attempt"] == 1
        assert cluster.client.get("/readyz").status_code == 200
    finally:
        cluster.end("limited")


@pytest.mark.slow
@pytest.mark.parametrize("number", rest_all([signal.SIGTERM, signal.SIGINT]))
def test_stopping_or_killing_the_service_stops_everything(
    start_service: Callable[..., Any], tmp_path: Path, number: signal.Signals
) -> None:
    with start_service(tmp_path) as service:
        location = service.submit(long())
        service.wait_for(location, {"running"})
        everything = processes.descendants(service.process.pid)
        assert len(everything) >= 3  # Redis, the worker, the process of the job; perhaps one that compiles ahead
        service.process.send_signal(number)
        service.process.wait(20)
        assert processes.gone(everything, 1)

    with start_service(tmp_path, CYCLOPS_RECONCILE_SECONDS="1") as service:
        assert service.wait(location, 60)["state"] == "succeeded"
        model = service.client.post("/v1/models", content=SHORT).json()["id"]
        job = {"model": model, "accelerator": "vta"}
        assert service.client.post("/v1/jobs?dry_run=true", json=job).status_code == 200
        everything = processes.descendants(service.process.pid)
        assert len(everything) >= 3  # Redis, the worker, and the server of dry runs
        processes.kill(service.process.pid)
        assert processes.gone(everything, 3)
