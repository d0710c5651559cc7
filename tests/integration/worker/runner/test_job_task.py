import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from accel.errors import InvalidTensors, UnsupportedOperator
from accel.frontend.read.model_inspection import inspect_model
from examples.single import Conv, conv_model
from tests.conftest import keep_machine_code
from worker.config.settings import Settings
from worker.execution.job_execution import execute
from worker.execution.job_inputs import ModelJobInputs, ProgramJobInputs
from worker.queue.job_queue import JobQueue, TaskJob
from worker.queue.lease import lease_key
from worker.records.accelerator_store import Accelerators
from worker.records.job_artifacts import Artifacts
from worker.records.job_record import Job, Stage
from worker.records.job_request import JobOptions, JobRequest
from worker.records.job_store import Attempt, Attempts, Jobs
from worker.records.result_cache import ResultCache
from worker.records.uploads import Model, models
from worker.retention.deletion import Deleter
from worker.runner.worker_pool import worker_processes
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store
from worker.storage.redis_server import connect

MODEL = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
NO_MODEL = b"not ONNX"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)
    return path


def test_execute_leaves_every_artifact(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stages: list[Stage] = []
    summary = execute(ModelJobInputs(model, "vta", JobOptions()), out, Settings(), stages.append)
    assert summary.verified is True
    assert summary.macs_share == 1.0
    assert [stage.step for stage in stages] == sorted(stage.step for stage in stages)
    assert all(stage.step <= stage.total for stage in stages)
    for name in ("report.json", "outputs.npz", "inputs.npz", "program.zip", "instructions.bin", "trace.npz"):
        assert (out / name).stat().st_size > 0


def test_a_program_runs_on_other_inputs_of_which_it_expects_nothing(model: Path, tmp_path: Path) -> None:
    ran, out = tmp_path / "ran", tmp_path / "out"
    for directory in (ran, out):
        directory.mkdir()
    execute(ModelJobInputs(model, "vta", JobOptions(seed=1)), ran, Settings(), lambda _stage: None)
    own = np.load(ran / "inputs.npz")["x"]
    verified = []
    for x in (own, own[::-1, ::-1]):
        np.savez(tmp_path / "x.npz", x=x)
        work = ProgramJobInputs(ran / "program.zip", None, JobOptions(), tmp_path / "x.npz")
        verified.append(execute(work, out, Settings(), lambda _stage: None).verified)
    assert verified == [True, None]
    assert (np.load(out / "outputs.npz")["y"] != np.load(ran / "outputs.npz")["y"]).any()


def test_inputs_that_do_not_fit(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", x=np.zeros((1, 16, 8, 9), np.int8))
    work = ModelJobInputs(model, "vta", JobOptions(), inputs=tmp_path / "inputs.npz")
    with pytest.raises(InvalidTensors) as caught:
        execute(work, tmp_path, Settings(), lambda _stage: None)
    assert caught.value.field == "options.inputs"


@dataclass(frozen=True)
class Worker:
    """A real worker over a store of its own."""

    store: Store
    queue: JobQueue
    settings: Settings

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.store)

    def accepted(self, data: bytes) -> str:
        """A job whose model is this blob, as it would be if it had been accepted."""
        digest = hashlib.sha256(data).hexdigest()
        path = self.settings.data / digest
        path.write_bytes(data)
        info = inspect_model(MODEL).model_dump()
        models(self.store).add(path, Model(id=digest, bytes=len(data), **info))
        return self.jobs.create(JobRequest(model=digest, accelerator="vta"))

    def run(self, job_id: str) -> Job:
        self.queue.submit(job_id)
        deadline = time.monotonic() + 60
        while not (job := self.jobs.get(job_id)).ended:
            assert time.monotonic() < deadline, job
            time.sleep(0.02)
        return job

    def artifacts(self, job: Job) -> set[str]:
        return {item.name for item in Artifacts(self.store, job).all()}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Worker]:
    keep_machine_code("vta")
    settings = Settings(data=tmp_path_factory.mktemp("task"), redis_url=redis_url, queue="task")
    connection = connect(redis_url)
    with worker_processes(settings, 1):
        yield Worker(Store(settings.store_dir), JobQueue(connection, "task"), settings)
    connection.close()


def test_a_job_publishes_and_succeeds(worker: Worker) -> None:
    job = worker.run(worker.accepted(MODEL))
    assert job.state == "succeeded"
    assert job.attempt == 1
    assert job.result.verified is True
    artifacts = Artifacts(worker.store, job)
    assert "report.json" in worker.artifacts(job)
    for item in artifacts.all():
        data = b"".join(artifacts.stream(item.name))
        assert (len(data), hashlib.sha256(data).hexdigest()) == (item.bytes, item.sha256)


@pytest.mark.slow
def test_nothing_is_left_over(worker: Worker) -> None:
    job = worker.run(worker.accepted(MODEL))
    deadline = time.monotonic() + 60
    while list(worker.settings.scratch_dir.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(worker.settings.scratch_dir.iterdir()) == []
    assert worker.queue.connection.exists(lease_key(job.id), TaskJob.key_for(job.id)) == 0
    assert worker.queue.connection.llen(worker.queue.rq.intermediate_queue_key) == 0
    assert worker.jobs.open_ids() == []


def test_what_is_wrong_with_the_input_is_recorded(worker: Worker) -> None:
    job = worker.run(worker.accepted(NO_MODEL))
    assert job.state == "failed"
    assert job.error.type == "/problems/invalid-model"


def test_errors_of_ours_are_recorded(worker: Worker) -> None:
    data = conv_model(Conv(channels=16, filters=16, height=9, width=9)).SerializeToString()
    job_id = worker.accepted(data)
    (worker.settings.store_dir / "models" / hashlib.sha256(data).hexdigest() / "data").write_bytes(b"something else")
    job = worker.run(job_id)
    assert job.state == "failed"
    assert job.error.type == "/problems/internal-error"
    assert job.error.incident
    assert "damaged" in job.error.detail


def test_an_ended_job_is_left_alone(worker: Worker) -> None:
    job_id = worker.accepted(MODEL)
    worker.jobs.cancel(job_id)
    worker.queue.submit(job_id)
    worker.run(worker.accepted(NO_MODEL))
    job = worker.jobs.get(job_id)
    assert job.state == "canceled"
    assert job.started is None
    assert worker.artifacts(job) == set()


def test_a_job_that_is_deleted_while_it_runs_leaves_nothing(worker: Worker) -> None:
    """Catches files and an end that the attempt writes after the deletion, of which nobody would know any more."""
    job_id = worker.accepted(MODEL)
    worker.queue.submit(job_id)
    deadline = time.monotonic() + 60
    while not worker.store.exists(f"jobs/{job_id}/progress.json"):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    worker.jobs.cancel(job_id)
    results = ResultCache(worker.store, worker.jobs, Accelerators(worker.store))
    Deleter(worker.store, worker.jobs, results, worker.queue.index).delete_job(worker.jobs.get(job_id))
    while worker.queue.connection.exists(lease_key(job_id)):  # the attempt is not over
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [key for key in worker.store.sizes("jobs") if job_id in key] == []
    assert job_id not in worker.jobs.open_ids()


def test_a_job_that_died_as_often_as_it_may_has_failed(worker: Worker) -> None:
    job_id = worker.accepted(MODEL)
    attempts = Attempts(worker.store, job_id)
    for token in "abc":
        attempts.begin(Attempt(started=utc_now(), host="elsewhere", worker="w", token=token))
    job = worker.run(job_id)
    assert job.state == "failed"
    assert job.error.type == "/problems/worker_lost"
    assert job.error.detail.count("elsewhere") == 3


def test_a_job_whose_lease_is_anothers_is_left_to_it(worker: Worker) -> None:
    job_id = worker.accepted(MODEL)
    worker.queue.connection.set(lease_key(job_id), b"somebody", ex=60)
    worker.queue.submit(job_id)
    worker.run(worker.accepted(NO_MODEL))
    assert worker.jobs.get(job_id).state == "queued"
    worker.jobs.cancel(job_id)


def test_an_unknown_operator_is_named(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in "xy")
    node = helper.make_node("Nonsense", ["x"], ["y"], name="odd_one")
    graph = helper.make_graph([node], "g", [x], [y])
    path = tmp_path / "odd.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    with pytest.raises(UnsupportedOperator) as caught:
        execute(ModelJobInputs(path, "vta", JobOptions()), tmp_path, Settings(), lambda _stage: None)
    assert "odd_one" in str(caught.value.field)
    assert "Nonsense" in caught.value.detail
