"""Dry runs over HTTP."""

import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest

from accel.accelerator.text.document_text import MAX_BYTES
from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.load_accelerator import accelerator_id, load_accelerator, parse_accelerator, preset_names
from accel.report.documents.plan_documents import Plan
from examples.graph import Graph
from examples.resnet8 import resnet8
from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.idle_service import Quiet, quiet_service
from tests.helpers.models.dynamic_models import flattening

Check = Callable[..., dict]
URL = "/v1/jobs?dry_run=true"


def upload(client: httpx2.Client, model: bytes) -> str:
    return client.post("/v1/models", content=model).json()["id"]


@pytest.fixture(scope="module")
def model(service: Service) -> str:
    return upload(service.client, conv_model(Conv(16, 16, 8, 8)).SerializeToString())


@pytest.fixture(scope="module")
def resnet(service: Service) -> str:
    return upload(service.client, resnet8().SerializeToString())


@pytest.mark.parametrize("name", preset_names())
def test_a_plan_for_every_preset(client: httpx2.Client, model: str, name: str) -> None:
    answer = client.post(URL, json={"model": model, "accelerator": name})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    plan = Plan.model_validate(answer.json())
    assert (plan.accelerator, plan.family) == (name, load_accelerator(name).family)
    assert plan.macs.share == 1.0


@pytest.mark.slow
def test_a_document_that_nobody_keeps_is_planned_with(client: httpx2.Client, model: str, is_problem: Check) -> None:
    known = client.get("/v1/accelerators").json()
    text = accelerator_yaml(load_accelerator("vta")).replace("name: vta", "name: mine", 1)
    plan = client.post(URL, json={"model": model, "document": text}).json()
    assert plan["accelerator"] == "mine"
    assert plan["provenance"]["accelerator"]["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    same = client.post(URL, json={"model": model, "accelerator": "vta"}).json()
    assert (plan["nodes"], plan["launches"]) == (same["nodes"], same["launches"])
    wrong = client.post(URL, json={"model": model, "document": text.replace("word_bits: 128", "word_bits: 100")})
    found = is_problem(wrong, 422, "invalid-accelerator", "accelerator.word_bits")
    line = text.splitlines().index("word_bits: 128") + 1
    assert (found["errors"][0]["line"], found["errors"][0]["column"]) == (line, 1)
    both = {"model": model, "accelerator": "vta", "document": text}
    assert (
        is_problem(client.post(URL, json=both), 422, "invalid-request", "accelerator")["errors"][1]["field"]
        == "document"
    )
    is_problem(client.post(URL, json={"model": model}), 422, "invalid-request", "accelerator")
    large = {"model": model, "document": "# " + '"' * (MAX_BYTES - 4)}
    is_problem(client.post(URL, json=large), 422, "invalid-accelerator", "accelerator")
    larger = {"model": model, "document": "x" * (MAX_BYTES + 1)}
    is_problem(client.post(URL, json=larger), 422, "accelerator-too-large", "accelerator")
    half = httpx2.Request(
        "POST", client.base_url.join(URL), content=b'{"model": "%s", "document": "\\ud800"}' % model.encode()
    )
    half.headers["Content-Type"] = "application/json"
    is_problem(client.send(half), 422, "invalid-request", "document")
    assert client.get("/v1/accelerators").json() == known


@pytest.mark.slow
def test_a_job_keeps_the_document_that_comes_with_it(service: Service, model: str) -> None:
    text = accelerator_yaml(load_accelerator("vta")).replace("name: vta", "name: kept", 1)
    request = {"model": model, "document": text}
    first = service.client.post("/v1/jobs", json=request, headers={"Idempotency-Key": "a-document"})
    assert first.status_code == 202, first.text
    kept = accelerator_id(parse_accelerator(text.encode()))
    assert first.json()["accelerator"] == kept
    assert service.client.get(f"/v1/accelerators/{kept}").json()["name"] == "kept"
    again = service.client.post("/v1/jobs", json=request, headers={"Idempotency-Key": "a-document"})
    assert again.json()["id"] == first.json()["id"]
    job = service.wait(first.headers["Location"])
    assert job["result"]["verified"], job
    report = service.client.get(f"{first.headers['Location']}/report").json()
    assert report["provenance"]["accelerator"]["sha256"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.slow
def test_dynamic_axes_are_set_by_options(client: httpx2.Client, is_problem: Check) -> None:
    document = client.post("/v1/models", content=flattening("batch").SerializeToString()).json()
    assert [tensor["shape"] for tensor in document["inputs"] + document["outputs"]] == [
        ["batch", 3, 4, 4],
        ["batch", 5],
    ]
    job = {"model": document["id"], "accelerator": "vta"}
    unset = client.post(URL, json=job).json()
    assert (unset["macs"]["total"], [warning["kind"] for warning in unset["warnings"]]) == (240, ["unset-axis"])
    for options in ({"dims": {"batch": 4}}, {"shapes": {"x": [4, 3, 4, 4]}}):
        plan = client.post(URL, json=job | {"options": options}).json()
        assert (plan["macs"]["total"], plan["warnings"]) == (960, [])
    faults = {
        "options.dims.bath": ({"dims": {"bath": 4}}, "invalid-axes"),
        "options.shapes.x": ({"shapes": {"x": [4, 3, 4, 5]}}, "invalid-axes"),
        "options.dims.batch": ({"dims": {"batch": 0}}, "invalid-request"),
    }
    for field, (options, slug) in faults.items():
        is_problem(client.post("/v1/jobs", json=job | {"options": options}), 422, slug, field)
    for extent in ("4", True, 2**31, 1.5):
        is_problem(client.post(URL, json=job | {"options": {"dims": {"batch": extent}}}), 422, "invalid-request")
    file = io.BytesIO()
    np.savez(file, x=np.ones((4, 3, 4, 4), np.float32))
    given = client.post("/v1/tensors", content=file.getvalue()).json()["id"]
    answer = client.post("/v1/jobs", json=job | {"options": {"inputs": given}})
    assert "'batch' taken as 1" in is_problem(answer, 422, "invalid-tensors", "options.inputs")["detail"]
    program = {"program": "0" * 64, "options": {"dims": {"batch": 4}}}
    is_problem(client.post("/v1/jobs", json=program), 422, "invalid-request", "options.dims")


def test_resnet8(client: httpx2.Client, resnet: str) -> None:
    plan = client.post(URL, json={"model": resnet, "accelerator": "vta"}).json()
    assert plan["macs"]["share"] == 1.0
    assert {node["name"]: node["where"] for node in plan["nodes"]}["softmax"] == "host"
    assert all(node["reason"] for node in plan["nodes"] if node["where"] == "host")


def test_there_is_no_job_and_no_file_afterwards(service: Service, model: str) -> None:
    client = service.client
    before = [job["id"] for job in client.get("/v1/jobs?limit=1000").json()["items"]]
    answer = client.post(URL, json={"model": model, "accelerator": "vta"})
    assert "location" not in answer.headers
    assert [job["id"] for job in client.get("/v1/jobs?limit=1000").json()["items"]] == before
    assert not list((service.data / "scratch").glob("plan-*"))


@pytest.mark.slow
def test_on_an_uploaded_accelerator_with_samples(client: httpx2.Client, resnet: str) -> None:
    document = accelerator_yaml(load_accelerator("vta-8").model_copy(update={"name": "mine"}))
    accelerator = client.post("/v1/accelerators", content=document, headers={"content-type": "application/yaml"}).json()
    file = io.BytesIO()
    np.savez(file, image=np.ones((2, 3, 32, 32), np.float32))
    samples = client.post("/v1/tensors", content=file.getvalue()).json()["id"]
    job = {"model": resnet, "accelerator": accelerator["id"], "options": {"calibration": samples}}
    plan = client.post(URL, json=job).json()
    assert (plan["accelerator"], plan["quantisation"]) == ("mine", "given samples")


@pytest.mark.slow
def test_false_makes_a_job(service: Service, model: str) -> None:
    answer = service.client.post("/v1/jobs?dry_run=false", json={"model": model, "accelerator": "vta", "fresh": True})
    assert answer.status_code == 202
    assert service.wait(answer.headers["location"])["state"] == "succeeded"


@pytest.mark.parametrize(
    ("change", "slug", "field"),
    [
        ({"model": "0" * 64}, "unknown-model", "model"),
        ({"model": None}, "invalid-request", "model"),
        ({"accelerator": None}, "invalid-request", "accelerator"),
        ({"accelerator": "tpu"}, "unknown-accelerator", "accelerator"),
        ({"accelerator": "0" * 64}, "unknown-accelerator", "accelerator"),
        ({"model": None, "program": "0" * 64}, "unknown-program", "program"),
        ({"options": {"calibration": "0" * 64}}, "unknown-tensors", "options.calibration"),
        ({"options": {"seed": -1}}, "invalid-request", "options.seed"),
    ],
)
def test_bad_requests(
    client: httpx2.Client, is_problem: Check, model: str, change: dict, slug: str, field: str
) -> None:
    problem = is_problem(client.post(URL, json={"model": model, "accelerator": "vta"} | change), 422, slug, field)
    if slug == "unknown-accelerator":
        assert all(name in problem["detail"] for name in preset_names())


def test_a_flag_that_is_none(client: httpx2.Client, is_problem: Check, model: str) -> None:
    answer = client.post("/v1/jobs?dry_run=perhaps", json={"model": model, "accelerator": "vta"})
    is_problem(answer, 422, "invalid-request", "dry_run")


def test_a_program_is_not_planned(service: Service, is_problem: Check, model: str) -> None:
    client = service.client
    job = client.post("/v1/jobs", json={"model": model, "accelerator": "vta"}).headers["location"]
    assert service.wait(job)["state"] == "succeeded"
    program = client.post("/v1/programs", content=client.get(f"{job}/artifacts/program.zip").content).json()["id"]
    problem = is_problem(client.post(URL, json={"program": program}), 422, "invalid-request", "program")
    assert "compiled already" in problem["detail"]


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("hasty"), plan_seconds=1) as made:
        yield made


@pytest.mark.slow
def test_what_takes_too_long_ends_and_the_service_goes_on(hasty: Quiet, is_problem: Check) -> None:
    graph = Graph("large")
    weight = graph.constant("weight", np.full((512, 512, 3, 3), 0.01, np.float32))
    graph.output(graph.node("Conv", "conv", [graph.input("x", (1, 512, 130, 130)), weight]), (1, 512, 128, 128))
    client = hasty.client
    large = upload(client, graph.model().SerializeToString())
    problem = is_problem(client.post(URL, json={"model": large, "accelerator": "vta"}), 422, "plan-failed")
    assert "1 s" in problem["detail"]
    assert client.get("/healthz").status_code == 200
    assert not list(Path(hasty.settings.scratch_dir).glob("plan-*"))


@pytest.mark.slow
def test_the_plan_is_in_the_openapi_document(client: httpx2.Client) -> None:
    document = client.get("/openapi.json").json()
    answers = document["paths"]["/v1/jobs"]["post"]["responses"]
    possible = answers["200"]["content"]["application/json"]["schema"]["anyOf"]
    assert possible == [{"$ref": f"#/components/schemas/{name}"} for name in ("JobResource", "Plan")]
    assert answers["202"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/JobResource"}
    fields = document["components"]["schemas"]["Plan"]["properties"].values()
    assert all(field.get("description") or "$ref" in field for field in fields)
