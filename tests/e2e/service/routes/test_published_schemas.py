"""The published schema over HTTP."""

import httpx2
import pytest
from jsonschema import Draft202012Validator

from accel.catalog.document_schema import ID, accelerator_schema
from accel.catalog.load_accelerator import preset_names
from service.http.conditional import etag_matches

PATH = "/v1/schemas/accelerator"


def test_it_is_the_schema(client: httpx2.Client) -> None:
    answer = client.get(PATH)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/schema+json"
    assert answer.json() == accelerator_schema()
    assert answer.json()["$id"] == ID


@pytest.mark.slow
def test_what_the_service_gives_is_valid_by_it(client: httpx2.Client) -> None:
    validator = Draft202012Validator(client.get(PATH).json())
    for name in preset_names():
        validator.validate(client.get(f"/v1/accelerators/{name}").json())


def test_a_client_that_has_it_gets_no_body(client: httpx2.Client) -> None:
    first = client.get(PATH)
    assert "max-age" in first.headers["cache-control"]
    again = client.get(PATH, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert client.get(PATH, headers={"if-none-match": '"another"'}).status_code == 200
    assert client.head(PATH).headers["etag"] == first.headers["etag"]


@pytest.mark.parametrize(
    ("header", "same"),
    [(None, False), ("*", True), ('"a"', True), ('W/"a"', True), ('"b", "a"', True), ('"b"', False), ("a", False)],
)
def test_if_none_match(header: str | None, same: bool) -> None:
    assert etag_matches(header, '"a"') is same


def test_there_is_no_other(client: httpx2.Client, is_problem: object) -> None:
    is_problem(client.get("/v1/schemas/model"), 404, "not-found")
    is_problem(client.post(PATH), 405, "method-not-allowed")
