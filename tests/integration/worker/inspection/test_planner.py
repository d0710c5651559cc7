"""Dry runs in processes of their own."""

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from examples.single import Conv, conv_model
from worker.config.settings import Settings
from worker.execution.job_inputs import ModelJobInputs
from worker.inspection.inspector import Planner
from worker.records.job_request import JobOptions
from worker.sandbox.confined_tasks import LimitError, RefusedError
from worker.sandbox.fork_client import ForkClient

Plan = Callable[..., bytes]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "conv.onnx"
    path.write_bytes(conv_model(Conv(16, 16, 8, 8)).SerializeToString())
    return path


@pytest.fixture(scope="module")
def compiler(fork_server: Callable[..., ForkClient]) -> ForkClient:
    return fork_server("worker.inspection.compiler_tasks")


@pytest.fixture
def plan(tmp_path: Path, compiler: ForkClient) -> Callable[..., bytes]:
    """Makes a plan of a model, for a VTA or what is named, under settings that are given."""

    def make(model: Path, accelerator: str = "vta", **settings: int) -> bytes:
        planner = Planner(Settings(data=tmp_path / "data", **settings), compiler)
        return planner.plan(work(model, accelerator), tmp_path / "scratch")

    return make


def work(model: Path, accelerator: str = "vta") -> ModelJobInputs:
    return ModelJobInputs(model, accelerator, JobOptions())


def test_a_plan(model: Path, plan: Plan) -> None:
    made = json.loads(plan(model))
    assert (made["accelerator"], made["macs"]["share"]) == ("vta", 1.0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")
def test_it_is_made_in_another_process_which_is_gone_afterwards(model: Path, plan: Plan, compiler: ForkClient) -> None:
    seen: list[str] = []
    ended = threading.Event()
    plan(model)
    server = compiler._server[0].pid

    def look() -> None:
        while not ended.is_set():
            seen.append(Path(f"/proc/{server}/task/{server}/children").read_text())

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        plan(model)
        ended.set()
        looking.result()
    assert {pids.count(" ") for pids in seen} >= {0, 1}
    assert Path(f"/proc/{server}/task/{server}/children").read_text() == ""


@pytest.mark.parametrize(
    ("data", "accelerator", "slug"), [(b"x", "vta", "invalid-model"), (None, "tpu", "invalid-accelerator")]
)
def test_bad_input_is_told(
    model: Path, tmp_path: Path, plan: Plan, data: bytes | None, accelerator: str, slug: str
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model.read_bytes() if data is None else data)
    with pytest.raises(RefusedError) as caught:
        plan(path, accelerator)
    assert caught.value.problem.type == f"/problems/{slug}"


@pytest.mark.slow
def test_wall_time(tmp_path: Path, plan: Plan) -> None:
    pipe = tmp_path / "model.onnx"
    os.mkfifo(pipe)  # whoever opens it to read waits
    with pytest.raises(LimitError, match="longer than 1 s"):
        plan(pipe, plan_seconds=1)


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit the address space")
def test_memory(tmp_path: Path, plan: Plan) -> None:
    big = tmp_path / "model.onnx"
    with big.open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(LimitError, match="memory"):
        plan(big, plan_memory_bytes=1 << 33)
