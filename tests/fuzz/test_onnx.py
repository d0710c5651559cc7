"""Mutated ONNX files: accepted or refused with a clear error, in bounded time and memory, at every depth."""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.http.problems import SERVICE_TYPES, accel_types
from tests.conftest import ROOT, Service
from tests.fuzz.onnx_campaign import HANGS
from tests.helpers.marking import share
from worker.config.settings import Settings
from worker.execution.job_inputs import ModelJobInputs
from worker.inspection.inspector import Inspector, Planner
from worker.records.job_request import JobOptions
from worker.sandbox.confined_tasks import LimitError, RefusedError
from worker.sandbox.fork_client import ForkClient

TYPES = {f"/problems/{slug}" for slug in (*SERVICE_TYPES, *accel_types())}
MEMORY = 1 << 30  # bytes that examining any of them may come to
SECONDS = 10.0  # of one file, with other tests beside


@pytest.fixture
def inspector(tmp_path: Path) -> Iterator[Inspector]:
    light, compiler = ForkClient("worker.inspection.upload_tasks"), ForkClient("worker.inspection.compiler_tasks")
    with contextlib.closing(light), contextlib.closing(compiler):
        yield Inspector(Settings(data=tmp_path / "data"), light, compiler)


@pytest.fixture
def planner(tmp_path: Path) -> Iterator[Planner]:
    with contextlib.closing(ForkClient("worker.inspection.compiler_tasks")) as compiler:
        yield Planner(Settings(data=tmp_path / "data"), compiler)


def campaign(folder: Path, count: int, seed: int, inspector: Inspector, seconds: float) -> Counter[str]:
    """Inspect so many files in one process; what kills it is inspected as the service does it, and must be refused."""
    told: Counter[str] = Counter()
    first = 0
    while first < count:
        command = [sys.executable, "-m", "tests.fuzz.onnx_campaign", str(first), str(count), str(seed), str(folder)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
        assert done.returncode <= 0, (folder / "case").read_text() + done.stderr  # an exception, or a hang
        if done.returncode == 0:
            result = json.loads(done.stdout)
            assert result["slowest"] < SECONDS
            assert result["peak"] < MEMORY
            return told + Counter(result["told"])
        told["died"] += 1
        with pytest.raises((LimitError, RefusedError)):
            inspector.model(folder / "case.onnx")
        first = int((folder / "case").read_text()) + 1
    return told


def planned(planner: Planner, model: Path, folder: Path) -> str:
    """What comes of a dry run in a limited process."""
    folder.mkdir()
    accelerator = ("vta", "gemmini", "mvin-mvout")[sum(model.name.encode()) % 3]
    try:
        planner.plan(ModelJobInputs(model, accelerator, JobOptions()), folder)
    except RefusedError as error:
        return error.problem.type
    except LimitError:
        return "limit"
    return "planned"


def check_plans(planner: Planner, folder: Path, most: int) -> Counter[str]:
    models = sorted(folder.glob("accepted-*.onnx"))[:most]
    assert models
    told = Counter(planned(planner, model, folder / f"plan-{model.stem}") for model in models)
    assert told["planned"] > 0
    assert set(told) <= TYPES | {"planned", "limit"}
    return told


def check_uploads(service: Service, folder: Path, seed: int, count: int) -> None:
    """The same over HTTP: as in this process, and no 5xx."""
    script = (
        "import sys, random; from pathlib import Path; from tests.fuzz.onnx_campaign import seed_models;"
        "from tests.fuzz.onnx_mutations import mutated; seeds = seed_models();"
        "cases = [random.Random(f'{sys.argv[1]} {case}') for case in range(int(sys.argv[2]))];"
        "[Path(sys.argv[3], f'upload-{n}').write_bytes(mutated(c.choice(seeds), c)) for n, c in enumerate(cases)]"
    )
    subprocess.run([sys.executable, "-c", script, str(seed), str(count), str(folder)], cwd=ROOT, check=True)
    for path in folder.glob("upload-*"):
        answer = service.client.post("/v1/models", content=path.read_bytes())
        assert answer.status_code in {201, 422}, (path, answer.text)
        if answer.status_code == 422:
            assert answer.json()["type"] in TYPES
            assert answer.json()["field"]


@pytest.mark.slow
def test_hundreds_of_mutated_models(tmp_path: Path, inspector: Inspector) -> None:
    count = share(1000)
    told = campaign(tmp_path, count, 3, inspector, 120)
    assert told["accepted"] > count // 20
    assert told["unsupported-shape"] > 0
    assert told["unsupported-operator"] > 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_thousand_mutated_models(tmp_path: Path, inspector: Inspector, planner: Planner, service: Service) -> None:
    told = campaign(tmp_path, 10_000, 2, inspector, 600 + HANGS)
    plans = check_plans(planner, tmp_path, 60)
    check_uploads(service, tmp_path, 4, 100)
    print(json.dumps({"inspected": told, "planned": plans}))  # noqa: T201 - what was met
    assert {"accepted", "invalid-model", "external-data", "unsupported-shape", "unsupported-type"} <= set(told)
    assert told["accepted"] > 700
