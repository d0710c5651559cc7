"""Files with exporters' habits over HTTP: uploaded, planned and run, with inputs in the model's own type."""

import io
from collections.abc import Callable

import httpx2
import numpy as np
import pytest

from tests.conftest import Service
from tests.helpers.models.exported_files import FILES, REFUSED

Check = Callable[..., dict]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float16", "functions", "a branch by shape", "a scan", "sparse weights"])
def test_a_file_is_described_planned_and_run(service: Service, name: str) -> None:
    client = service.client
    uploaded = client.post("/v1/models", content=FILES[name]().SerializeToString())
    assert uploaded.status_code == 201, uploaded.text
    model = uploaded.json()
    (given,) = model["inputs"]
    assert given["dtype"] == ("float16" if name == "float16" else "float32")
    file = io.BytesIO()
    np.savez(file, x=np.random.default_rng(0).standard_normal(given["shape"]).astype(given["dtype"]))
    tensors = client.post("/v1/tensors", content=file.getvalue()).json()["id"]
    options = {"calibration": tensors}
    asked = {"model": model["id"], "accelerator": "vta-pynq", "options": options}
    plan = client.post("/v1/jobs?dry_run=true", json=asked)
    assert plan.status_code == 200, plan.text
    asked["options"] = options | {"inputs": tensors}
    job = service.wait(client.post("/v1/jobs", json=asked).headers["location"])
    assert (job["state"], job["result"]["verified"]) == ("succeeded", True), job
    assert plan.json()["estimated_cycles"] == pytest.approx(job["result"]["cycles"], rel=0.05)
    report = client.get(job["links"]["report"]).json()
    assert [each["kind"] for each in report["warnings"]] == [each["kind"] for each in plan.json()["warnings"]]


@pytest.mark.parametrize("name", ["a branch by data", "a loop without end", "a string"])
def test_what_is_refused_is_refused_at_the_upload(client: httpx2.Client, name: str, is_problem: Check) -> None:
    make, field, told = REFUSED[name]
    answer = client.post("/v1/models", content=make().SerializeToString())
    kind = {"a branch by data": "unsupported-operator", "a string": "unsupported-type"}.get(name, "unsupported-shape")
    assert told in is_problem(answer, 422, kind, field)["detail"]
