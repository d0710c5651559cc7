import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator

import httpx2
import numpy as np
import pytest
from onnx import TensorProto, helper

from examples.resnet8 import resnet8
from tests.helpers.models.external_models import FILE, in_one_file, two_weights

Check = Callable[..., dict]


@pytest.fixture(scope="module")
def model() -> bytes:
    return resnet8().SerializeToString()


def chunks(data: bytes, size: int = 10_000) -> Iterator[bytes]:
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


def test_an_upload_is_described(client: httpx2.Client, model: bytes) -> None:
    response = client.post("/v1/models", content=model)
    assert response.status_code == 201
    document = response.json()
    assert document["id"] == hashlib.sha256(model).hexdigest()
    assert document["bytes"] == len(model)
    assert document["format"] == "float"
    assert document["inputs"][0]["shape"] == [1, 3, 32, 32]
    assert document["macs"] == 12_501_632
    assert document["operators"]["Conv"] == 9
    assert response.headers["location"] == f"/v1/models/{document['id']}"
    assert client.get(response.headers["location"]).json() == document


def test_the_same_file_again_is_the_same_model(client: httpx2.Client, model: bytes) -> None:
    answers = [
        client.post("/v1/models", content=model),
        client.post("/v1/models", content=chunks(model)),
        client.post("/v1/models", files={"file": ("resnet8.onnx", model)}),
        client.post("/v1/models", data={"note": "first"}, files={"model": ("m.onnx", model)}),
        client.post("/v1/models", content=model, headers={"content-type": "application/x-www-form-urlencoded"}),
    ]
    assert [answer.status_code for answer in answers] == [201] * 5
    assert all(answer.json() == answers[0].json() for answer in answers)


def graph(
    shape: tuple[object, ...], element_type: int = TensorProto.FLOAT, opset: int = 17, ir_version: int = 10
) -> bytes:
    x = helper.make_tensor_value_info("x", element_type, shape)
    y = helper.make_tensor_value_info("y", element_type, shape)
    relu = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(relu, opset_imports=opsets, ir_version=ir_version).SerializeToString()


def external() -> bytes:
    model = resnet8()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../etc/passwd")
    return model.SerializeToString()


@pytest.mark.slow
def test_a_model_whose_weights_lie_in_another_file(client: httpx2.Client, is_problem: Check) -> None:
    model, data = in_one_file(two_weights())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("export/f.onnx", model)
        archive.writestr(f"export/{FILE}", data)
    answers = [
        client.post("/v1/models", content=packed.getvalue(), headers={"content-type": "application/zip"}),
        client.post("/v1/models", files={"file": ("f.zip", packed.getvalue())}),
        client.post("/v1/models", files=[("file", ("f.onnx", model)), ("file", (FILE, data))]),
        client.post("/v1/models", data={"note": "x"}, files=[("b", (FILE, data)), ("a", ("f.onnx", model))]),
    ]
    assert [answer.status_code for answer in answers] == [201] * 4, answers[0].text
    document = answers[0].json()
    assert all(answer.json() == document for answer in answers)
    whole = client.get(f"/v1/models/{document['id']}/content").content
    assert hashlib.sha256(whole).hexdigest() == document["id"]
    assert (len(whole), document["parameters"]) == (document["bytes"], 56)
    assert client.post("/v1/models", content=whole).json() == document
    plan = client.post("/v1/jobs?dry_run=true", json={"model": document["id"], "accelerator": "vta"})
    assert plan.json()["macs"] == {"total": 56, "accelerator": 56, "share": 1.0}

    problem = is_problem(client.post("/v1/models", content=model), 422, "external-data", "initializer:a")
    assert f"{FILE!r}" in problem["detail"]
    assert "send both in a zip, or as files of one multipart form" in problem["detail"]
    too_many = [("file", (f"{index}", b"x")) for index in range(1025)]
    is_problem(client.post("/v1/models", files=too_many), 413, "too-large", "body")


BAD = {
    "not ONNX": (b"GIF89a not a model at all", "invalid-model"),
    "random bytes": (np.random.default_rng(0).bytes(10_000), "invalid-model"),
    "external data": (external(), "external-data"),
    "an IR version to come": (graph((1, 4), ir_version=15), "invalid-model"),
    "an opset to come": (graph((1, 4), opset=29), "invalid-model"),
    "absurd shape": (graph((2**20, 2**20)), "unsupported-shape"),
    "negative shape": (graph((-4, 4)), "unsupported-shape"),
    "overflowing shape": (graph((2**31, 2**31)), "unsupported-shape"),
    "element type": (graph((1, 4), TensorProto.COMPLEX64), "unsupported-type"),
    "strings": (graph((1, 4), TensorProto.STRING), "unsupported-type"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_models_are_refused(client: httpx2.Client, is_problem: Check, name: str) -> None:
    data, slug = BAD[name]
    response = client.post("/v1/models", content=data)
    problem = is_problem(response, 422, slug)
    assert problem["field"]
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_truncated_model(client: httpx2.Client, is_problem: Check, model: bytes) -> None:
    for part in (0.1, 0.5, 0.99):
        is_problem(client.post("/v1/models", content=model[: int(len(model) * part)]), 422, "invalid-model")


def test_bodies_that_are_no_upload(client: httpx2.Client, is_problem: Check) -> None:
    is_problem(client.post("/v1/models", content=b""), 422, "invalid-request", "body")
    is_problem(client.post("/v1/models", json={"model": "x"}), 422, "invalid-request", "base64")
    text = {"content-type": "text/plain"}
    is_problem(client.post("/v1/models", content=b"x", headers=text), 415, "unsupported-media-type", "body")
    is_problem(client.post("/v1/models", data={"a": "b"}, files={}), 422, "invalid-model")
    boundary = {"content-type": "multipart/form-data; boundary=b"}
    is_problem(client.post("/v1/models", content=b"no form", headers=boundary), 400, "bad-request", "body")
    no_file = b'--b\r\ncontent-disposition: form-data; name="a"\r\n\r\nvalue\r\n--b--\r\n'
    is_problem(client.post("/v1/models", content=no_file, headers=boundary), 422, "invalid-request", "body")
    is_problem(
        client.post("/v1/models", content=b"x", headers={"content-type": "multipart/form-data"}), 400, "bad-request"
    )


@pytest.mark.parametrize("digest", ["0" * 64, "x", "..%2f..%2fjobs", "%00"])
def test_unknown_models(client: httpx2.Client, is_problem: Check, digest: str) -> None:
    is_problem(client.get(f"/v1/models/{digest}"), 404, "not-found")
