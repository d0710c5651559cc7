"""The presets and uploaded accelerators over HTTP."""

import json
from collections.abc import Callable

import httpx2
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog import accelerator_id, load_accelerator, parse_accelerator, preset_names
from examples.single import Conv, conv_model
from tests.conftest import Service

TEN_KEYS = {
    "TARGET": "sim",
    "HW_VER": "0.0.2",
    "LOG_INP_WIDTH": 3,
    "LOG_WGT_WIDTH": 3,
    "LOG_ACC_WIDTH": 5,
    "LOG_BATCH": 0,
    "LOG_BLOCK": 3,
    "LOG_UOP_BUFF_SIZE": 13,
    "LOG_INP_BUFF_SIZE": 13,
    "LOG_WGT_BUFF_SIZE": 14,
    "LOG_ACC_BUFF_SIZE": 15,
}


def test_the_presets_are_listed_and_described(client: httpx2.Client) -> None:
    page = client.get("/v1/accelerators").json()
    assert [item["id"] for item in page["items"]][: len(preset_names())] == preset_names()
    assert page["next_cursor"] is None
    document = Accelerator.model_validate(client.get("/v1/accelerators/vta").json())
    assert document == load_accelerator("vta")


@pytest.mark.parametrize("form", ["ten keys", "variant", "document"])
def test_each_form_is_uploaded(client: httpx2.Client, form: str) -> None:
    document = {
        "ten keys": TEN_KEYS,
        "variant": {"vta_config": TEN_KEYS, "variant": {"bus_bytes": 16}, "name": "wide"},
        "document": load_accelerator("vta-32").model_dump(mode="json"),
    }[form]
    answer = client.post("/v1/accelerators", json=document)
    assert answer.status_code == 201
    wanted = parse_accelerator(document)
    assert answer.json() == {"id": accelerator_id(wanted), "title": wanted.title, "family": "vta"}
    assert answer.headers["location"] == f"/v1/accelerators/{accelerator_id(wanted)}"
    got = client.get(answer.headers["location"])
    assert got.status_code == 200
    assert Accelerator.model_validate(got.json()) == wanted
    again = client.post("/v1/accelerators", json=got.json())
    assert (again.status_code, again.json()) == (201, answer.json())


def test_pages_hold_the_presets_then_what_was_uploaded(client: httpx2.Client) -> None:
    uploaded = [
        client.post("/v1/accelerators", json=TEN_KEYS | {"LOG_UOP_BUFF_SIZE": size}).json()["id"] for size in (10, 11)
    ]
    ids, cursor = [], {}
    while True:
        page = client.get("/v1/accelerators", params={"limit": 1, **cursor}).json()
        ids += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert ids == [item["id"] for item in client.get("/v1/accelerators").json()["items"]]
    assert ids[: len(preset_names())] == preset_names()
    assert ids[len(preset_names()) :] == sorted(ids[len(preset_names()) :])
    assert set(uploaded) <= set(ids)


def test_a_job_runs_on_an_uploaded_accelerator(service: Service) -> None:
    client = service.client
    accelerator = client.post("/v1/accelerators", json=TEN_KEYS).json()["id"]
    model = client.post("/v1/models", content=conv_model(Conv(8, 8, 6, 6)).SerializeToString()).json()["id"]
    posted = client.post("/v1/jobs", json={"model": model, "accelerator": accelerator})
    assert posted.status_code == 202, posted.text
    job = service.wait(posted.headers["Location"])
    assert job["state"] == "succeeded", job
    report = client.get(f"{posted.headers['Location']}/report").json()
    assert (report["verified"], report["accelerator"]) == (True, "1x8_i8w8a32_13_13_14_15")
    assert report["timing_model"]["calibrated"] is False
    assert "element of wgt 8 x 8, calibrated 16 x 16" in report["timing_model"]["outside"]


BAD = {
    "not JSON": (b"{", "accelerator"),
    "a list": (b"[]", "accelerator"),
    "a surrogate": (b'{"TARGET": "\\ud800"}', "accelerator"),
    "a key twice": (b'{"TARGET": "a", "TARGET": "b"}', "TARGET"),
    "nested": (b"[" * 100_000, "accelerator"),
    "no number": (b'{"LOG_BLOCK": NaN}', "accelerator"),
    "unknown key": (json.dumps(TEN_KEYS | {"LOG_BLOK": 4}).encode(), "LOG_BLOK"),
    "missing key": (json.dumps({k: v for k, v in TEN_KEYS.items() if k != "LOG_BATCH"}).encode(), "LOG_BATCH"),
    "text": (json.dumps(TEN_KEYS | {"LOG_BLOCK": "4"}).encode(), "LOG_BLOCK"),
    "huge": (json.dumps(TEN_KEYS | {"LOG_ACC_BUFF_SIZE": 30}).encode(), "LOG_ACC_BUFF_SIZE"),
    "half a document": (b'{"family": "vta"}', "accelerator.name"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_accelerators_are_refused(client: httpx2.Client, is_problem: Callable[..., dict], name: str) -> None:
    body, field = BAD[name]
    answer = client.post("/v1/accelerators", content=body, headers={"content-type": "application/json"})
    is_problem(answer, 422, "invalid-accelerator", field)


def test_bodies_that_are_none(client: httpx2.Client, is_problem: Callable[..., dict]) -> None:
    is_problem(client.post("/v1/accelerators", content=b""), 422, "invalid-request", "body")
    form = {"file": ("vta.json", b"{}")}
    is_problem(client.post("/v1/accelerators", files=form), 415, "unsupported-media-type", "body")
    is_problem(client.post("/v1/accelerators", content=b" " * (2 << 20)), 413, "too-large", "body")


@pytest.mark.parametrize("name", ["tpu", "..%2fvta", "vta.json", "0" * 64, "A" * 64])
def test_unknown_accelerators(client: httpx2.Client, is_problem: Callable[..., dict], name: str) -> None:
    is_problem(client.get(f"/v1/accelerators/{name}"), 404, "not-found")
    answer = client.post("/v1/jobs", json={"model": "0" * 64, "accelerator": name})
    assert answer.status_code == 422
