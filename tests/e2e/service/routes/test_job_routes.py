import io
import json
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest

from examples.resnet8 import resnet8

Check = Callable[..., dict]


@pytest.fixture(scope="module")
def model(service: Any) -> str:
    return service.client.post("/v1/models", content=resnet8().SerializeToString()).json()["id"]


def tensors(client: httpx2.Client, **arrays: np.ndarray) -> str:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return client.post("/v1/tensors", content=file.getvalue()).json()["id"]


@pytest.mark.parametrize(
    ("change", "slug", "field"),
    [
        ({"model": "0" * 64}, "unknown-model", "model"),
        ({"model": "resnet"}, "invalid-request", "model"),
        ({"model": None}, "invalid-request", "model"),
        ({"program": "0" * 64}, "invalid-request", "model"),
        ({"model": None, "program": "0" * 64}, "unknown-program", "program"),
        ({"model": None, "program": "../x"}, "invalid-request", "program"),
        ({"accelerator": None}, "invalid-request", "accelerator"),
        ({"accelerator": "tpu"}, "unknown-accelerator", "accelerator"),
        ({"options": {"engine": "timing"}}, "invalid-request", "options.engine"),
        ({"options": {"engine": "fast"}}, "invalid-request", "options.engine"),
        ({"accelerator": "../../etc/passwd"}, "unknown-accelerator", "accelerator"),
        ({"accelerator": 3}, "invalid-request", "accelerator"),
        ({"options": {"seed": -1}}, "invalid-request", "options.seed"),
        ({"options": {"seed": 2**32}}, "invalid-request", "options.seed"),
        ({"options": {"seed": "x"}}, "invalid-request", "options.seed"),
        ({"options": {"colour": "red"}}, "invalid-request", "options.colour"),
        ({"options": {"inputs": "0" * 64}}, "unknown-tensors", "options.inputs"),
        ({"options": {"calibration": "0" * 64}}, "unknown-tensors", "options.calibration"),
        ({"options": {"inputs": "../x"}}, "invalid-request", "options.inputs"),
        ({"options": []}, "invalid-request", "options"),
        ({"callback": "http://localhost"}, "invalid-request", "callback"),
    ],
)
def test_bad_jobs_are_refused(
    client: httpx2.Client, is_problem: Check, model: str, change: dict, slug: str, field: str
) -> None:
    response = client.post("/v1/jobs", json={"model": model, "accelerator": "vta"} | change)
    is_problem(response, 422, slug, field)


def test_all_wrong_fields_are_named(client: httpx2.Client, is_problem: Check) -> None:
    response = client.post("/v1/jobs", json={"options": {"seed": -1}})
    problem = is_problem(response, 422, "invalid-request")
    assert {error["field"] for error in problem["errors"]} == {"model", "program", "options.seed"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'"text"', b"[" * 20_000])
def test_bodies_that_are_no_job(client: httpx2.Client, is_problem: Check, body: bytes) -> None:
    response = client.post("/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert response.status_code in {400, 422}
    slug = "invalid-request" if response.status_code == 422 else "bad-request"
    is_problem(response, response.status_code, slug, "body")


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "text/plain"])
def test_a_job_of_another_media_type(client: httpx2.Client, is_problem: Check, model: str, media_type: str) -> None:
    body = json.dumps({"model": model, "accelerator": "vta"})
    response = client.post("/v1/jobs", content=body, headers={"content-type": media_type})
    assert "application/json" in is_problem(response, 422, "invalid-request", "body")["detail"]


@pytest.mark.parametrize("option", ["inputs", "calibration"])
def test_tensors_that_do_not_fit(client: httpx2.Client, is_problem: Check, model: str, option: str) -> None:
    wrong = [
        tensors(client, other=np.zeros((1, 3, 32, 32), np.float32)),
        tensors(client, input=np.zeros((1, 3, 32, 31), np.float32)),
        tensors(client, input=np.zeros((1, 3, 32, 32), np.int32)),
    ]
    for digest in wrong:
        job = {"model": model, "accelerator": "vta", "options": {option: digest}}
        is_problem(client.post("/v1/jobs", json=job), 422, "invalid-tensors", f"options.{option}")


@pytest.mark.parametrize(
    "part",
    ["", "/report", "/report/layers.csv", "/outputs", "/trace", "/tir", "/tir/flatten", "/artifacts", "/artifacts/x"],
)
@pytest.mark.parametrize("job_id", ["0" * 32, "nothing", "..%2f..%2fmodels"])
def test_unknown_jobs(client: httpx2.Client, is_problem: Check, job_id: str, part: str) -> None:
    is_problem(client.get(f"/v1/jobs/{job_id}{part}"), 404, "not-found")


def test_canceling_an_unknown_job(client: httpx2.Client, is_problem: Check) -> None:
    is_problem(client.post(f"/v1/jobs/{'0' * 32}/cancel"), 404, "not-found")


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=", "cursor=%00"])
def test_bad_pages(client: httpx2.Client, is_problem: Check, query: str) -> None:
    is_problem(client.get(f"/v1/jobs?{query}"), 422, "invalid-request", query.partition("=")[0])


def test_the_list_passes_over_a_job_that_was_never_recorded(service: Any) -> None:
    """As when the disk is full, or the process dies between the folder and the file."""
    folder = service.data / "store" / "jobs" / ("f" * 32)
    folder.mkdir(parents=True)
    try:
        response = service.client.get("/v1/jobs")
    finally:
        folder.rmdir()
    assert response.status_code == 200, response.text
    assert "f" * 32 not in {job["id"] for job in response.json()["items"]}
