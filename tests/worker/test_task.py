import hashlib
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from accel.errors import InvalidTensors, UnsupportedOperator
from accel.frontend.inspect import inspect_model
from examples.single import Conv, conv_model
from worker.artifacts import Artifacts
from worker.execute import execute
from worker.jobs import Job, JobOptions, JobRequest, Jobs, Stage
from worker.settings import Settings
from worker.store import Store
from worker.task import run_job
from worker.uploads import Model, models
from worker.work import ProgramWork, Work

MODEL = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)
    return path


def test_execute_leaves_every_artifact(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stages: list[Stage] = []
    summary = execute(Work(model, "vta", JobOptions()), out, Settings(), stages.append)
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
    execute(Work(model, "vta", JobOptions(seed=1)), ran, Settings(), lambda _stage: None)
    own = np.load(ran / "inputs.npz")["x"]
    verified = []
    for x in (own, own[::-1, ::-1]):
        np.savez(tmp_path / "x.npz", x=x)
        work = ProgramWork(ran / "program.zip", None, JobOptions(), tmp_path / "x.npz")
        verified.append(execute(work, out, Settings(), lambda _stage: None).verified)
    assert verified == [True, None]
    assert (np.load(out / "outputs.npz")["y"] != np.load(ran / "outputs.npz")["y"]).any()


def test_inputs_that_do_not_fit(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", x=np.zeros((1, 16, 8, 9), np.int8))
    work = Work(model, "vta", JobOptions(), inputs=tmp_path / "inputs.npz")
    with pytest.raises(InvalidTensors) as caught:
        execute(work, tmp_path, Settings(), lambda _stage: None)
    assert caught.value.field == "options.inputs"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("CYCLOPS_DATA", str(tmp_path / "data"))
    return Settings()


def job_of(settings: Settings, data: bytes) -> tuple[Jobs, str]:
    """A job whose model is this blob, as it would be if it had been accepted."""
    store = Store(settings.store_dir)
    path = settings.data / "blob"
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    info = inspect_model(MODEL).model_dump()
    models(store).add(path, Model(id=digest, bytes=len(data), **info))
    jobs = Jobs(store)
    return jobs, jobs.create(JobRequest(model=digest, accelerator="vta"))


def artifacts_of(settings: Settings, job: Job) -> set[str]:
    return {item.name for item in Artifacts(Store(settings.store_dir), job.id).all()}


def test_run_job_publishes_and_succeeds(settings: Settings) -> None:
    jobs, job_id = job_of(settings, MODEL)
    run_job(job_id)
    job = jobs.get(job_id)
    assert job.state == "succeeded"
    assert job.result.verified is True
    assert "report.json" in artifacts_of(settings, job)
    assert list(settings.scratch_dir.iterdir()) == []


def test_run_job_records_what_is_wrong_with_the_input(settings: Settings) -> None:
    jobs, job_id = job_of(settings, b"not ONNX")
    run_job(job_id)
    job = jobs.get(job_id)
    assert job.state == "failed"
    assert job.error.type == "/problems/invalid-model"


def test_run_job_records_errors_of_ours(settings: Settings) -> None:
    jobs, job_id = job_of(settings, MODEL)
    (blob,) = settings.store_dir.glob("models/*/data")
    blob.write_bytes(b"something else")
    run_job(job_id)
    job = jobs.get(job_id)
    assert job.state == "failed"
    assert job.error.type == "/problems/internal-error"
    assert "damaged" in job.error.detail


def test_run_job_leaves_an_ended_job_alone(settings: Settings) -> None:
    jobs, job_id = job_of(settings, MODEL)
    jobs.cancel(job_id)
    run_job(job_id)
    job = jobs.get(job_id)
    assert job.state == "canceled"
    assert job.started is None
    assert artifacts_of(settings, job) == set()


def test_an_unknown_operator_is_named(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in "xy")
    node = helper.make_node("Nonsense", ["x"], ["y"], name="odd_one")
    graph = helper.make_graph([node], "g", [x], [y])
    path = tmp_path / "odd.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    with pytest.raises(UnsupportedOperator) as caught:
        execute(Work(path, "vta", JobOptions()), tmp_path, Settings(), lambda _stage: None)
    assert "odd_one" in str(caught.value.field)
    assert "Nonsense" in caught.value.detail
