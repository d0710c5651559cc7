"""Nothing is told to anybody of what Cyclops does: no file about its use, and no connection to elsewhere."""

import ast
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from accel.isa.kernels.compiled_kernels import cache_home
from examples.single import Conv, conv_model
from tests.conftest import ROOT, running
from tests.helpers.observed import SUPPORTED, Observed, observed

pytestmark = [pytest.mark.skipif(not SUPPORTED, reason="seccomp_unotify(2) is Linux's"), pytest.mark.slow]
OURS = Path(".cache/cyclops")  # the simulator's machine code
MODEL = conv_model(Conv(16, 16, 8, 8)).SerializeToString()
RUN_TWICE = """
import sys
{imports}
for _ in range(2):
    onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
"""


class User:
    """Somebody with a new home; nothing of the environment of the tests reaches what he starts."""

    def __init__(self, folder: Path, seen: Observed) -> None:
        self.folder, self.seen = folder, seen
        for name in ("home", "tmp", "work"):
            (folder / name).mkdir()
        if cache_home().is_dir():  # or it takes a minute
            shutil.copytree(cache_home(), folder / "home" / OURS, copy_function=_copied)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *command: str, **environment: str) -> None:
        subprocess.run(
            [*self.seen.wrapper, sys.executable, *command],
            cwd=self.folder / "work",
            env=self.environment | environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def left(self) -> list[str]:
        """What lies in the home that is not ours."""
        home = self.folder / "home"
        files = [path.relative_to(home) for path in home.rglob("*") if not path.is_dir()]
        return [str(path) for path in files if not path.is_relative_to(OURS)]


def _copied(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # other tests write into it
        shutil.copy2(source, target)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with observed(tmp_path) as seen:
        yield User(tmp_path, seen)


def test_the_observer_sees_files_and_connections(user: User) -> None:
    told = "s.connect(('192.0.2.1', 443))"
    code = f"import os, pathlib, socket; s = socket.socket(); pathlib.Path.home().joinpath('id').touch(); {told}"
    with pytest.raises(subprocess.CalledProcessError, match="returned non-zero"):
        user.run("-c", code)
    assert user.left() == ["id"]
    assert len(user.seen.sockets) == 1
    assert [each.split(": ")[1] for each in user.seen.elsewhere] == ["192.0.2.1 port 443"]


@pytest.mark.parametrize(
    "chosen",
    [{}, pytest.param({"ORT_DISABLE_TELEMETRY": ""}, marks=pytest.mark.all), {"ORT_DISABLE_TELEMETRY": "0"}],
)
def test_the_library_reports_nothing(user: User, chosen: dict[str, str]) -> None:
    (user.folder / "model.onnx").write_bytes(MODEL)
    for imports in ("import accel, onnxruntime", "import examples.run_node, onnxruntime"):
        user.run("-c", RUN_TWICE.format(imports=imports), str(user.folder / "model.onnx"), **chosen)
    assert user.left() == []
    assert user.seen.sockets == []


@pytest.mark.slow
def test_a_run_and_the_examples_report_nothing(user: User) -> None:
    user.run("-m", "examples", "conv224", "model.onnx", "--qdq")
    user.run("-m", "service.cli", "run", "model.onnx", "--accelerator", "vta", "--out", "out")
    assert user.left() == []
    assert user.seen.sockets == []
    assert sorted(path.name for path in (user.folder / "work").iterdir()) == ["model.onnx", "out"]
    assert list((user.folder / "tmp").iterdir()) == []


@pytest.mark.slow
def test_the_service_reports_nothing(user: User) -> None:
    """The api, its fork servers, the worker, what attends to the job, and the job; they talk to each other only."""
    data = user.folder / "data"
    serve = [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--data", str(data)]
    with running([*user.seen.wrapper, *serve], data, user.environment) as service:
        location = service.submit(MODEL)
        model = service.client.post("/v1/models", content=MODEL).json()["id"]
        planned = service.client.post("/v1/jobs?dry_run=true", json={"model": model, "accelerator": "vta"})
        assert planned.status_code == httpx2.codes.OK, planned.text
        assert service.wait(location)["state"] == "succeeded"
    assert user.left() == []
    assert user.seen.elsewhere == []
    assert not [made for made in user.seen.sockets if "STREAM" not in made]  # no name was asked for


def test_benchmarks_load_onnxruntime_after_what_silences_it() -> None:
    """They are started by themselves; tests have loaded ``accel`` in the conftest."""
    for script in (ROOT / "bench").rglob("*.py"):
        imported = [name for statement in ast.parse(script.read_text()).body for name in _imported(statement)]
        first = next((name for name in imported if name in {"accel", "examples", "onnxruntime"}), None)
        assert first != "onnxruntime", script


def _imported(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    return [(statement.module or "").partition(".")[0]] if isinstance(statement, ast.ImportFrom) else []
