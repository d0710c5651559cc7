import json
import re
from pathlib import Path

import httpx2
from openapi_spec_validator import validate

from service.app import create_app
from service.openapi import openapi_text
from worker.config.settings import Settings

EXPORTED = Path(__file__).parents[3] / "openapi" / "openapi.json"


def test_the_exported_document_is_what_the_service_says(client: httpx2.Client) -> None:
    assert EXPORTED.read_text() == openapi_text(create_app(Settings())), "run `make openapi`"
    assert client.get("/openapi.json").json() == json.loads(EXPORTED.read_text())


def test_it_is_valid() -> None:
    document = json.loads(EXPORTED.read_text())
    assert document["openapi"].startswith("3.1")
    validate(document)


def test_every_error_is_a_problem() -> None:
    document = json.loads(EXPORTED.read_text())
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            for status, answer in operation["responses"].items():
                if status == "default" or status >= "400":
                    assert list(answer["content"]) == ["application/problem+json"], (method, path, status)


def test_what_needs_the_store_says_that_it_may_be_away() -> None:
    sentence = "The store cannot be reached."
    for path, operations in json.loads(EXPORTED.read_text())["paths"].items():
        needed = path.startswith("/v1/") and not path.startswith(("/v1/about", "/v1/schemas"))
        for method, operation in operations.items():
            told = sentence in operation["responses"].get("503", {}).get("description", "")
            assert told == needed, (method, path)


def test_the_documentation_asks_nobody_else(client: httpx2.Client) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert links
    for link in links:
        assert link.startswith("/"), link
        assert client.get(link).status_code == 200, link
    assert not re.search(r"https?://(?!127\.0\.0\.1)", page.text)
