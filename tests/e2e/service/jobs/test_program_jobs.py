"""Jobs that simulate a program: of another job, by hand, or recorded elsewhere."""

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accel.report.documents.report_documents import SimulationReport
from examples.resnet8 import resnet8
from examples.single import Conv, conv_model
from tests.e2e.service.cli.test_simulate_command import WRONG
from tests.helpers.programs.golden import documents, needs_golden
from tests.helpers.programs.hand_programs import addition, recorded, zipped

RUNS = [pytest.param("conv14x14_16_16_3x3_r0", marks=pytest.mark.all), "test_padded_load_r0"]


def upload(service: Any, data: bytes) -> str:
    response = service.client.post("/v1/programs", content=data)
    assert response.status_code == 201, response.text
    return response.json()["id"]


def run(service: Any, program: str, **request: Any) -> dict:
    posted = service.client.post("/v1/jobs", json={"program": program, "fresh": True} | request)
    assert posted.status_code == 202, posted.text
    return service.wait(posted.headers["location"])


def report_of(service: Any, job: dict) -> dict:
    assert job["state"] == "succeeded", job
    report = service.client.get(job["links"]["report"]).json()
    SimulationReport.model_validate(report)
    return report


def arrays(service: Any, href: str) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(service.client.get(href).content), allow_pickle=False) as data:
        return dict(data)


@pytest.fixture(scope="module")
def added(service: Any) -> str:
    return upload(service, zipped(addition()))


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(conv_model(Conv(channels=16, filters=16, height=14, width=14)), id="layer"),
        pytest.param(resnet8(), id="network", marks=pytest.mark.slow),
    ],
)
def test_the_program_of_another_job(service: Any, model: Any) -> None:
    """Launches, host steps and all: the same inputs give the same bits in the same cycles."""
    job = service.wait(service.submit(model.SerializeToString(), seed=5))
    artifacts = f"{job['links']['artifacts']}"
    program = service.client.get(f"{artifacts}/program.zip").content
    named = service.client.get(f"/v1/programs/{upload(service, program)}").json()
    assert named["id"] == upload(service, program)
    fed = arrays(service, f"{artifacts}/inputs.npz")
    (value,) = fed.values()
    (tensor,) = named["inputs"]
    file = io.BytesIO()
    np.savez(file, **{tensor["name"]: value})
    inputs = service.client.post("/v1/tensors", content=file.getvalue()).json()["id"]

    again = run(service, named["id"], options={"inputs": inputs})
    report = report_of(service, again)
    assert again["result"] == {"verified": True, "cycles": job["result"]["cycles"], "macs_share": None}
    assert report["cycles"] == job["result"]["cycles"]
    assert report["races"] == []
    (first,) = arrays(service, job["links"]["outputs"]).values()
    (second,) = arrays(service, again["links"]["outputs"]).values()
    np.testing.assert_array_equal(first, second)
    traces = [service.client.get(f"{links['trace']}?limit=1000").json() for links in (job["links"], again["links"])]
    assert traces[0] == traces[1]


def test_what_a_program_job_leaves(service: Any, added: str) -> None:
    job = run(service, added)
    assert (job["model"], job["program"], job["accelerator"]) == (None, added, None)
    assert job["result"]["verified"] is True
    assert report_of(service, job)["verified"] is True
    assert service.client.get(job["links"]["tir"]).json() == {"stages": []}
    raw = service.client.get(job["links"]["trace"], params={"format": "binary"}).content
    assert raw == addition()["instructions.bin"]
    assert len(service.client.get(job["links"]["trace"]).json()["items"]) == 6
    names = {item["name"] for item in service.client.get(job["links"]["artifacts"]).json()["artifacts"]}
    made = {"report.json", "outputs.npz", "trace.npz", "instructions.bin", "accelerator.json"}
    assert names == {*made, "log.txt", "events.jsonl"}


def test_the_engines(service: Any, added: str) -> None:
    both, function, timing = (
        report_of(service, run(service, added, options={"engine": engine})) for engine in ("both", "function", "timing")
    )
    assert (both["verified"], function["verified"], timing["verified"]) == (True, True, None)
    assert function["cycles"] is None
    assert timing["cycles"] == both["cycles"] > 0


@pytest.mark.slow
def test_an_accelerator_in_place_of_the_programs_own(service: Any, added: str) -> None:
    document = service.client.get("/v1/accelerators/vta").json()
    document["dram"]["read_latency"] += 100
    slow = service.client.post("/v1/accelerators", json=document).json()["id"]
    own, other = run(service, added), run(service, added, accelerator=slow)
    assert other["accelerator"] == slow
    assert report_of(service, other)["verified"] is True
    assert other["result"]["cycles"] >= own["result"]["cycles"] + 100


def test_a_job_without_a_trace(service: Any, added: str, is_problem: Callable[..., dict]) -> None:
    job = run(service, added, options={"trace": False})
    is_problem(service.client.get(job["links"]["trace"]), 404, "not-found")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["wrong bytes", "a race"])
def test_a_wrong_result_is_a_result(service: Any, what: str) -> None:
    parts = addition() | {"y.bin": bytes(64)} if what == "wrong bytes" else addition(tokens=False)
    job = run(service, upload(service, zipped(parts)))
    report = report_of(service, job)
    assert job["result"]["verified"] is report["verified"] is False
    assert report["mismatches" if what == "wrong bytes" else "races"]


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.all] * (kind != "deadlock")) for kind in WRONG])
def test_a_program_that_cannot_run_fails_its_job(service: Any, kind: str) -> None:
    job = run(service, upload(service, zipped(addition(listed=WRONG[kind]))))
    assert job["state"] == "failed"
    assert job["error"]["type"] == "/problems/simulation-failed"
    assert (job["error"]["diagnosis"], job["error"]["instruction"]) == (kind, 0)
    assert "status" not in job["error"]


@needs_golden
@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run(service: Any, name: str) -> None:
    parts = recorded(name)
    form = [("file", (part, data)) for part, data in parts.items()]
    posted = service.client.post("/v1/programs", files=form)
    assert posted.status_code == 201, posted.text
    job = run(service, posted.json()["id"])
    (known,) = (item for item in documents("runs/index.json") if item["name"] == name)
    assert job["result"] == {"verified": True, "cycles": known["rtl_cycles"], "macs_share": None}, json.dumps(job)
