import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from service.http import problems
from service.http.request_context import current_traceparent
from service.middleware.bodies import HeadAsGet
from service.middleware.observation import RequestObserver
from service.prometheus import RequestMetrics


@pytest.fixture
def meters() -> RequestMetrics:
    return RequestMetrics()


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def app(meters: RequestMetrics, spans: InMemorySpanExporter) -> Iterator[TestClient]:
    app = FastAPI()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    app.add_middleware(HeadAsGet)
    app.add_middleware(RequestObserver, meters=meters, tracer=provider.get_tracer("test"))
    problems.install_problem_handlers(app)

    @app.get("/things/{name}")
    def thing(name: str) -> dict[str, str | None]:
        return {"name": name, "parent": current_traceparent()}

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("a wire")

    @app.get("/events")
    def events() -> StreamingResponse:
        def lines() -> Iterator[str]:
            yield f"{meters.registry.get_sample_value('cyclops_event_streams')}"

        return StreamingResponse(lines(), media_type="text/event-stream")

    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def count(meters: RequestMetrics, **labels: str) -> float | None:
    return meters.registry.get_sample_value("cyclops_http_requests_total", labels)


@pytest.mark.parametrize("given", ["a", "A-1.b_c", "7" * 64])
def test_an_id_that_the_client_gives(app: TestClient, given: str) -> None:
    assert app.get("/things/1", headers={"X-Request-Id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "7" * 65, "a b", 'a"', "-a", "a\u00e9".encode(), "{a}", "a,b"])
def test_an_id_that_could_do_harm_is_replaced(app: TestClient, given: str) -> None:
    found = app.get("/things/1", headers={"X-Request-Id": given}).headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", found)


def test_two_ids_are_none(app: TestClient) -> None:
    found = app.get("/things/1", headers=[("X-Request-Id", "a"), ("X-Request-Id", "b")]).headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", found)


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/broken", 500)])
def test_a_problem_has_the_id_once(app: TestClient, path: str, status: int) -> None:
    response = app.get(path, headers={"X-Request-Id": "mine"})
    assert response.status_code == status
    assert response.json()["request_id"] == "mine"
    assert response.headers.get_list("x-request-id") == ["mine"]


def test_lines_and_counters(app: TestClient, meters: RequestMetrics, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cyclops.access")
    app.get("/things/secret-id", params={"key": "s3cret"}, headers={"Authorization": "Bearer hush"})
    app.head("/things/1")
    app.get("/nothing/at/all")
    app.request("BREW", "/things/1")
    app.get("/broken")
    told = [record.fields for record in caplog.records if record.name == "cyclops.access"]
    assert [(line["method"], line["route"], line["status"]) for line in told] == [
        ("GET", "/things/{name}", 200),
        ("HEAD", "/things/{name}", 200),
        ("GET", "unmatched", 404),
        ("other", "/things/{name}", 405),
        ("GET", "/broken", 500),
    ]
    assert told[0]["bytes"] > 20
    for secret in ("secret-id", "s3cret", "hush"):
        assert secret not in caplog.text
    assert count(meters, method="GET", route="/things/{name}", status="200") == 1
    assert count(meters, method="HEAD", route="/things/{name}", status="200") == 1
    assert count(meters, method="GET", route="unmatched", status="404") == 1
    assert count(meters, method="other", route="/things/{name}", status="405") == 1
    assert count(meters, method="GET", route="/broken", status="500") == 1
    labels = {"method": "GET", "route": "/things/{name}"}
    assert meters.registry.get_sample_value("cyclops_http_request_duration_seconds_count", labels) == 1
    assert meters.registry.get_sample_value("cyclops_http_requests_in_progress") == 0


def test_a_stream_is_counted_while_it_is_open(app: TestClient, meters: RequestMetrics) -> None:
    assert app.get("/events").text == "1.0"
    assert meters.registry.get_sample_value("cyclops_event_streams") == 0
    labels = {"method": "GET", "route": "/events"}
    assert meters.registry.get_sample_value("cyclops_http_request_duration_seconds_count", labels) is None
    assert count(meters, method="GET", route="/events", status="200") == 1


def test_spans(app: TestClient, spans: InMemorySpanExporter) -> None:
    trace, parent = "ab" * 16, "cd" * 8
    headers = {"traceparent": f"00-{trace}-{parent}-01"}
    handed_on = app.get("/things/1", params={"key": "s3cret"}, headers=headers).json()["parent"]
    app.get("/broken")
    first, second = spans.get_finished_spans()
    assert first.name == "GET /things/{name}"
    assert f"{first.parent.span_id:016x}" == parent
    assert handed_on == f"00-{trace}-{first.context.span_id:016x}-01"
    assert dict(first.attributes) == {
        "http.request.method": "GET",
        "http.route": "/things/{name}",
        "http.response.status_code": 200,
    }
    assert second.parent is None
    assert not second.status.is_ok


@pytest.mark.parametrize(
    "traceparent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff-x-y-z", "0" * 9000]
)
def test_a_traceparent_that_is_none(app: TestClient, spans: InMemorySpanExporter, traceparent: str) -> None:
    assert app.get("/things/1", headers={"traceparent": traceparent}).status_code == 200
    (span,) = spans.get_finished_spans()
    assert span.parent is None


def test_every_answer_of_the_service_has_an_id(client: httpx2.Client, is_problem: Callable[..., dict]) -> None:
    for response in (
        client.get("/healthz"),
        client.get("/v1/jobs/x"),
        client.post("/v1/jobs", content="{"),
        client.head("/"),
    ):
        assert response.headers["x-request-id"], response
    response = client.post("/v1/jobs", content=b"x" * 1_000_000, headers={"X-Request-Id": "large"})
    assert is_problem(response, 413, "too-large")["request_id"] == "large"


def test_text_for_a_terminal(service: Any, tmp_path: Path) -> None:
    service.client.get("/v1/models/" + "0" * 64)
    deadline = time.monotonic() + 60
    line = re.compile(r"INFO cyclops\.access: GET /v1/models/\{id\} 404 in \d")
    while not any(map(line.search, list(service.lines))) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert any(map(line.search, service.lines))
