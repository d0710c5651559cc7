"""Looking into uploads: what is found, and what a look may cost."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel.frontend.read.model_info import ModelContents
from accel.frontend.read.model_inspection import inspect_upload
from examples.resnet8 import resnet8
from tests.helpers.models.external_models import FILE, in_one_file, two_weights
from tests.helpers.programs.hand_programs import addition, zipped
from worker.config.settings import Settings
from worker.inspection.inspector import Inspector
from worker.inspection.task_arguments import NamedFile
from worker.sandbox.confined_tasks import LimitError, RefusedError
from worker.sandbox.fork_client import ForkClient

Look = Callable[..., Inspector]


@pytest.fixture(scope="module")
def servers(fork_server: Callable[..., ForkClient]) -> tuple[ForkClient, ForkClient]:
    return fork_server("worker.inspection.upload_tasks"), fork_server("worker.inspection.compiler_tasks")


@pytest.fixture
def look(tmp_path: Path, servers: tuple[ForkClient, ForkClient]) -> Look:
    def make(**settings: int) -> Inspector:
        return Inspector(Settings(data=tmp_path / "data", **settings), *servers)

    return make


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "upload"
    path.write_bytes(data)
    return path


def model_in(look: Inspector, path: Path, *others: NamedFile) -> tuple[Path, ModelContents]:
    made = path.parent / "made"
    made.mkdir()
    return look.model([NamedFile(path=path, name="f.onnx"), *others], made)


def test_a_model(look: Look, tmp_path: Path) -> None:
    path, info = model_in(look(), written(tmp_path, resnet8().SerializeToString()))
    assert path == tmp_path / "upload"
    assert (info.macs, info.operators["Conv"]) == (12_501_632, 9)
    assert not (tmp_path / "made/model.onnx").exists()


def test_a_model_with_its_data(look: Look, tmp_path: Path) -> None:
    model, data = in_one_file(two_weights())
    (tmp_path / "weights").write_bytes(data)
    weights = NamedFile(path=tmp_path / "weights", name=FILE)
    path, info = model_in(look(), written(tmp_path, model), weights)
    assert (path, info.parameters) == (tmp_path / "made/model.onnx", 56)
    assert inspect_upload(path.read_bytes()) == info


def test_a_model_of_more_nodes_than_are_set(look: Look, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="nodes; the limit is 10") as caught:
        model_in(look(max_model_nodes=10), written(tmp_path, resnet8().SerializeToString()))
    assert caught.value.problem.type == "/problems/model-too-large"


@pytest.mark.slow
def test_a_model_of_a_hundred_million_nodes_is_not_parsed(look: Look, tmp_path: Path) -> None:
    nodes = b"\x0a\x00" * 100_000_000
    upload = (
        b"\x08\x08\x3a" + bytes([len(nodes) >> s & 127 | 128 for s in (0, 7, 14)]) + bytes([len(nodes) >> 21]) + nodes
    )
    with pytest.raises(RefusedError, match="more than") as caught:
        model_in(look(), written(tmp_path, upload))
    assert caught.value.problem.type == "/problems/model-too-large"


def test_tensors(look: Look, tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez(file, x=np.zeros((2, 3), np.float32))
    (tensor,) = look().tensors(written(tmp_path, file.getvalue())).tensors
    assert (tensor.name, tensor.shape) == ("x", (2, 3))


def test_a_program(look: Look, tmp_path: Path) -> None:
    path, contents = look().program(written(tmp_path, zipped(addition())), tmp_path / "made")
    assert path.parent == tmp_path / "made"
    assert contents.instructions == 6


@pytest.mark.parametrize(("kind", "slug"), [("model", "invalid-model"), ("tensors", "invalid-tensors")])
def test_what_cannot_be_used_is_refused(look: Look, tmp_path: Path, kind: str, slug: str) -> None:
    path = written(tmp_path, b"nothing of that")
    with pytest.raises(RefusedError) as caught:
        model_in(look(), path) if kind == "model" else look().tensors(path)
    assert caught.value.problem.type == f"/problems/{slug}"


def test_a_program_that_is_none_is_refused(look: Look, tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        look().program(written(tmp_path, b"no zip"), tmp_path / "made")
    assert caught.value.problem.type == "/problems/invalid-program"


@pytest.mark.slow
def test_one_that_takes_too_long(look: Look, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # whoever opens it to read waits
    with pytest.raises(LimitError, match="longer than 1 s"):
        model_in(look(inspection_seconds=1), pipe)


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit the address space")
def test_one_that_takes_too_much_memory(look: Look, tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(LimitError, match="memory"):
        model_in(look(inspection_memory_bytes=1 << 32), tmp_path / "big")


def test_what_confines_them_is_known(look: Look) -> None:
    found = look().confinement
    assert found.limits.active
    if sys.platform == "linux":
        assert found.privileges.active
