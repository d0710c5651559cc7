"""JSON with two readings, or none."""

import importlib
import json
import pkgutil
from collections.abc import Callable

import httpx2
import pytest

from service import routes
from service.http.json_bodies import JsonRoute

Check = Callable[..., dict]
DIGEST = "0" * 64
TEXT = json.dumps({"model": DIGEST, "accelerator": "vta"})


def post(client: httpx2.Client, body: bytes) -> httpx2.Response:
    return client.post("/v1/jobs", content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "latin-1"])
def test_other_codings(client: httpx2.Client, is_problem: Check, coding: str) -> None:
    text = TEXT.replace("vta", "v\u00fc") if coding == "latin-1" else TEXT
    assert "UTF-8" in is_problem(post(client, text.encode(coding)), 422, "invalid-request", "body")["detail"]
    answer = client.post("/v1/accelerators", content=json.dumps({"name": "v\u00fc"}).encode(coding))
    is_problem(answer, 422, "invalid-accelerator")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (f'{{"model": "{DIGEST}", "accelerator": "vta", "model": "{DIGEST}"}}', "model"),
        (f'{{"model": "{DIGEST}", "mod\\u0065l": null}}', "model"),
        (f'{{"model": "{DIGEST}", "options": {{"seed": 1, "seed": 2}}}}', "options.seed"),
        ('{"options": {"host_nodes": [{"a": 1, "a": 1}]}}', "options.host_nodes.0.a"),
        ('{"\\ud800": 1, "\\ud800": 2}', None),
    ],
)
def test_keys_that_are_there_twice(client: httpx2.Client, is_problem: Check, text: str, field: str | None) -> None:
    assert "twice" in is_problem(post(client, text.encode()), 422, "invalid-request", field)["detail"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none(client: httpx2.Client, is_problem: Check, number: str) -> None:
    text = f'{{"model": "{DIGEST}", "accelerator": "vta", "options": {{"verify_seconds": {number}}}}}'
    assert number in is_problem(post(client, text.encode()), 422, "invalid-request", "body")["detail"]


@pytest.mark.parametrize("text", ["[" * 60_000, '{"model": ' + "1" * 60_000 + "}"])
def test_what_python_does_not_read(client: httpx2.Client, is_problem: Check, text: str) -> None:
    assert "cannot be read" in is_problem(post(client, text.encode()), 422, "invalid-request", "body")["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"base64": "QQ==", "base64": "QUI="}', "base64"),
        (b'{"base64": "QQ=="}'.decode().encode("utf-16"), "body"),
        (b'{"base64": NaN}', "body"),
        (b"[" * 60_000, "body"),
        (b'{"base64": "QQ=="', "body"),
    ],
)
def test_files_in_json(client: httpx2.Client, is_problem: Check, body: bytes, field: str) -> None:
    answer = client.post("/v1/tensors", content=body, headers={"Content-Type": "application/json"})
    is_problem(answer, 422, "invalid-request", field)


def test_what_has_one_reading_is_read(client: httpx2.Client, is_problem: Check) -> None:
    for body in (TEXT.encode(), b"\xef\xbb\xbf" + TEXT.encode(), b" \r\n" + TEXT.encode()):
        is_problem(post(client, body), 422, "unknown-model", "model")
    is_problem(post(client, b'{"model": '), 422, "invalid-request", "body")


def test_all_routes_with_such_bodies_are_strict() -> None:
    names = [each.name for each in pkgutil.walk_packages(routes.__path__, "service.routes.") if not each.ispkg]
    routers = [module.router for module in map(importlib.import_module, names) if hasattr(module, "router")]
    found = [route for router in routers for route in router.routes if getattr(route, "body_field", None)]
    assert found
    assert all(isinstance(route, JsonRoute) for route in found)
