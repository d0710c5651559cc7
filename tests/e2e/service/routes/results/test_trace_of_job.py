"""The trace of a job over HTTP."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from examples.single import Conv, conv_model
from tests.reference.trace_events import check

Check = Callable[..., dict]


@pytest.fixture(scope="module")
def job(service: Any) -> dict:
    layer = Conv(channels=16, filters=16, height=14, width=14, kernel=(3, 3), pads=(1, 1, 1, 1))
    job = service.wait(service.submit(conv_model(layer).SerializeToString()))
    assert job["state"] == "succeeded", job
    return job


def records(service: Any, job: dict) -> list[dict]:
    return service.client.get(job["links"]["trace"], params={"limit": 1000}).json()["items"]


def perfetto(service: Any, job: dict, **query: object) -> dict:
    response = service.client.get(job["links"]["trace"], params={"format": "perfetto", **query})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-disposition"] == 'attachment; filename="trace.perfetto.json"'
    document = json.loads(response.content)
    check(document)
    return document


def test_every_instruction_is_a_slice(service: Any, job: dict) -> None:
    document = perfetto(service, job)
    slices = {e["args"]["index"]: e for e in document["traceEvents"] if e.get("cat") == "instruction"}
    for record in records(service, job):
        event = slices.pop(record["index"])
        assert (event["name"], event["ts"], event["dur"]) == (
            record["op"],
            record["start"],
            record["end"] - record["start"],
        )
    assert not slices
    (launch,) = [e for e in document["traceEvents"] if e.get("cat") == "launch"]
    assert launch["dur"] == job["result"]["cycles"]


def test_a_window_with_a_clock(service: Any, job: dict) -> None:
    document = perfetto(service, job, begin=400, end=900, clock_mhz=100)
    shown = {e["args"]["index"] for e in document["traceEvents"] if e.get("cat") == "instruction"}
    assert shown == {r["index"] for r in records(service, job) if r["end"] > 400 and r["start"] < 900}
    assert "100 MHz" in document["otherData"]["time"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"events": 99}, "events"),
        ({"events": 10**9}, "events"),
        ({"events": "many"}, "events"),
        ({"begin": -1}, "begin"),
        ({"end": 0}, "end"),
        ({"begin": 10, "end": 10}, "end"),
        ({"begin": "1e3"}, "begin"),
        ({"clock_mhz": 0}, "clock_mhz"),
        ({"clock_mhz": "nan"}, "clock_mhz"),
        ({"format": "chrome"}, "format"),
    ],
)
def test_bad_queries(service: Any, job: dict, is_problem: Check, query: dict, field: str) -> None:
    response = service.client.get(job["links"]["trace"], params={"format": "perfetto"} | query)
    is_problem(response, 422, "invalid-request", field)


def test_json_stays_the_default(service: Any, job: dict) -> None:
    for accept in ("application/json", "*/*"):
        page = service.client.get(job["links"]["trace"], headers={"accept": accept}).json()
        assert page.keys() == {"items", "next_cursor"}


def test_pages_beyond_the_end(service: Any, job: dict) -> None:
    for cursor in ("9999999", "999999999999"):
        page = service.client.get(job["links"]["trace"], params={"cursor": cursor}).json()
        assert page == {"items": [], "next_cursor": None}


def test_many_readers_at_once(service: Any, job: dict) -> None:
    href = job["links"]["trace"]
    forms = ["json", "csv", "text", "binary", "perfetto"] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda form: service.client.get(href, params={"format": form}).content, forms))
    assert answers[:5] * 4 == answers


@pytest.mark.slow
def test_a_trace_of_another_version(service: Any, job: dict, is_problem: Check) -> None:
    """It takes a job whose trace nobody has opened."""
    layer = Conv(channels=16, filters=16, height=7, width=7)
    other = service.wait(service.submit(conv_model(layer).SerializeToString()))
    (path,) = service.data.glob(f"store/jobs/{other['id']}/runs/1/trace.npz")
    path.write_bytes(b"PK\5\6" + bytes(18))
    for form in ("json", "csv", "perfetto"):
        problem = is_problem(service.client.get(other["links"]["trace"], params={"format": form}), 404, "not-found")
        assert "run the job again" in problem["detail"]
