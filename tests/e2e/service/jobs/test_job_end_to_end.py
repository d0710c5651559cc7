"""One convolution through the whole service."""

import csv
import hashlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from accel.report.documents.report_documents import Report
from examples.single import Conv, conv_model

LAYER = Conv(channels=16, filters=16, height=14, width=14, kernel=(3, 3), pads=(1, 1, 1, 1))
REPORT_KEYS = {"accelerator", "verified", "cycles", "layers", "host_ops", "quantisation", "stages"}
LAYER_KEYS = {
    *("name", "op", "nodes", "macs", "cycles", "lower_bound", "utilisation"),
    *("bytes_read", "bytes_written", "instructions"),
}


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return conv_model(LAYER)


@pytest.fixture(scope="module")
def inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(7).integers(-128, 128, (1, 16, 14, 14), dtype=np.int8)}


def upload(service: Any, arrays: dict[str, np.ndarray]) -> str:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return service.client.post("/v1/tensors", content=file.getvalue()).json()["id"]


@pytest.fixture(scope="module")
def job(service: Any, model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict:
    location = service.submit(model.SerializeToString(), inputs=upload(service, inputs))
    job = service.wait(location)
    assert job["state"] == "succeeded", job
    return job


def test_the_record(service: Any, job: dict) -> None:
    assert job["result"]["verified"] is True
    assert job["result"]["cycles"] > 0
    assert job["error"] is None
    assert job["created"] <= job["started"] <= job["finished"]
    assert service.client.get(job["links"]["self"]).json() == job
    assert job["id"] in [item["id"] for item in service.client.get("/v1/jobs").json()["items"]]


def test_the_report(service: Any, job: dict) -> None:
    report = service.client.get(job["links"]["report"]).json()
    Report.model_validate(report)
    assert report.keys() >= REPORT_KEYS
    assert report["verified"] is True
    assert report["cycles"] == job["result"]["cycles"]
    for layer in report["layers"]:
        assert layer.keys() >= LAYER_KEYS
        assert layer["lower_bound"] <= layer["cycles"]
    assert sum(layer["macs"] for layer in report["layers"]) == 16 * 16 * 9 * 14 * 14


def test_the_outputs_are_onnxruntimes_to_one_unit(
    service: Any, job: dict, model: onnx.ModelProto, inputs: dict[str, np.ndarray]
) -> None:
    outputs = np.load(io.BytesIO(service.client.get(job["links"]["outputs"]).content), allow_pickle=False)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    difference = outputs["y"].astype(int) - expected.astype(int)
    assert np.abs(difference).max() <= 1


def test_the_tir_of_every_stage(service: Any, job: dict) -> None:
    stages = service.client.get(job["links"]["tir"]).json()["stages"]
    names = [item["stage"] for item in stages]
    for stage in ("schedule", "flatten", "inject", "sync", "allocate"):
        assert stage in names
        text = service.client.get(f"{job['links']['tir']}/{stage}")
        assert text.headers["content-type"] == "text/plain; charset=utf-8"
        assert "prim_func" in text.text
    for item in stages:
        assert len(service.client.get(item["href"]).content) == item["bytes"]


def test_the_trace_in_four_formats(service: Any, job: dict) -> None:
    href = job["links"]["trace"]
    records, cursor = [], {}
    while True:
        page = service.client.get(href, params={"limit": 50, **cursor}).json()
        records += page["items"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert [record["index"] for record in records] == list(range(len(records)))
    assert {"load_inp", "load_wgt", "gemm", "alu", "store_out", "finish"} <= {record["op"] for record in records}

    table = service.client.get(href, headers={"accept": "text/csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert len(list(csv.reader(io.StringIO(table.text)))) == len(records) + 1
    assert "gemm" in service.client.get(href, params={"format": "text"}).text
    raw = service.client.get(href, params={"format": "binary"})
    assert len(raw.content) == 16 * len(records)


def test_a_format_that_is_not_there(service: Any, job: dict, is_problem: Callable[..., dict]) -> None:
    is_problem(service.client.get(job["links"]["trace"], headers={"accept": "image/png"}), 406, "not-acceptable")
    is_problem(service.client.get(job["links"]["trace"], params={"format": "xml"}), 422, "invalid-request", "format")
    is_problem(service.client.get(f"{job['links']['tir']}/nothing"), 404, "not-found", "stage")


def test_the_artifacts(service: Any, job: dict, is_problem: Callable[..., dict]) -> None:
    artifacts = service.client.get(job["links"]["artifacts"]).json()["artifacts"]
    names = {item["name"] for item in artifacts}
    assert names >= {"report.json", "outputs.npz", "inputs.npz", "program.zip", "instructions.bin", "trace.npz"}
    for item in artifacts:
        assert len(service.client.get(item["href"]).content) == item["bytes"]
    home = job["links"]["artifacts"]
    for bad in ("nothing", "../request.json", "..%2frequest.json", "%2fetc%2fpasswd", "report.json%00"):
        is_problem(service.client.get(f"{home}/{bad}"), 404, "not-found")


def test_ranges(service: Any, job: dict, is_problem: Callable[..., dict]) -> None:
    href = f"{job['links']['artifacts']}/instructions.bin"
    whole = service.client.get(href).content
    part = service.client.get(href, headers={"range": "bytes=16-31"})
    assert part.status_code == 206
    assert part.content == whole[16:32]
    assert part.headers["content-range"] == f"bytes 16-31/{len(whole)}"
    assert service.client.get(href, headers={"range": "bytes=16-"}).content == whole[16:]
    beyond = service.client.get(href, headers={"range": f"bytes={len(whole)}-"})
    is_problem(beyond, 416, "range-not-satisfiable")


def test_the_same_seed_gives_the_same_outputs(service: Any, model: onnx.ModelProto) -> None:
    outputs = []
    for seed in (1, 1, 2):
        job = service.wait(service.submit(model.SerializeToString(), seed=seed))
        content = io.BytesIO(service.client.get(job["links"]["outputs"]).content)
        outputs.append(np.load(content, allow_pickle=False)["y"])
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).any()


def test_a_job_without_a_trace(service: Any, model: onnx.ModelProto, is_problem: Callable[..., dict]) -> None:
    job = service.wait(service.submit(model.SerializeToString(), trace=False))
    assert job["state"] == "succeeded"
    is_problem(service.client.get(job["links"]["trace"]), 404, "not-found")


def test_a_posted_job_says_where_it_is(service: Any, model: onnx.ModelProto) -> None:
    uploaded = service.client.post("/v1/models", content=model.SerializeToString()).json()
    response = service.client.post("/v1/jobs", json={"model": uploaded["id"], "accelerator": "vta", "fresh": True})
    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/jobs/{response.json()['id']}"
    assert int(response.headers["retry-after"]) > 0
    assert response.json()["state"] in {"queued", "running"}
    service.wait(response.headers["location"])


@pytest.mark.parametrize(
    "part", ["report", "outputs", "artifacts/instructions.bin", "tir/flatten", "trace?format=binary"]
)
def test_files_are_cached_by_their_digest(service: Any, job: dict, part: str) -> None:
    href = f"{job['links']['self']}/{part}"
    whole = service.client.get(href, headers={"accept-encoding": "identity"})
    etag = whole.headers["etag"]
    assert etag == f'"{hashlib.sha256(whole.content).hexdigest()}"'
    assert whole.headers["cache-control"] == "private, max-age=31536000, immutable"
    for tags in (etag, f'"x", {etag}', f"W/{etag}", "*"):
        again = service.client.get(href, headers={"if-none-match": tags, "range": "bytes=0-1"})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert service.client.get(href, headers={"if-none-match": '"x"'}).content == whole.content


def test_a_range_of_what_the_client_has_a_part_of(service: Any, job: dict) -> None:
    href = f"{job['links']['artifacts']}/instructions.bin"
    whole = service.client.get(href)
    for tag, status, expected in (
        (whole.headers["etag"], 206, whole.content[2:4]),
        ('"x"', 200, whole.content),
        (f"W/{whole.headers['etag']}", 200, whole.content),
    ):
        answer = service.client.get(href, headers={"range": "bytes=2-3", "if-range": tag})
        assert (answer.status_code, answer.content) == (status, expected)
        assert answer.headers["etag"] == whole.headers["etag"]


def test_the_index_has_the_digests(service: Any, job: dict) -> None:
    for item in service.client.get(job["links"]["artifacts"]).json()["artifacts"]:
        assert hashlib.sha256(service.client.get(item["href"]).content).hexdigest() == item["sha256"]
