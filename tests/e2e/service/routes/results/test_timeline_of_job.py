"""The timeline of a job over HTTP, against its trace."""

from collections.abc import Callable
from typing import Any

import pytest

from examples.single import Conv, conv_model
from tests.reference.timeline import decoded, painted, sums
from worker.examples import example_id

Check = Callable[..., dict]


@pytest.fixture(scope="module")
def job(service: Any) -> dict:
    layer = Conv(channels=16, filters=16, height=14, width=14, kernel=(3, 3), pads=(1, 1, 1, 1))
    job = service.wait(service.submit(conv_model(layer).SerializeToString()))
    assert job["state"] == "succeeded", job
    return job


@pytest.fixture(scope="module")
def timeline(service: Any, job: dict) -> Callable[..., Any]:
    def get(part: str = "", **query: object) -> Any:
        return service.client.get(f"/v1/jobs/{job['id']}/timeline{part}", params=query)

    return get


@pytest.fixture(scope="module")
def records(service: Any, job: dict) -> list[dict]:
    return service.client.get(job["links"]["trace"], params={"limit": 1000}).json()["items"]


def test_a_window_adds_up_to_the_trace(timeline: Callable[..., Any], records: list[dict]) -> None:
    tracks = timeline("/tracks").json()
    categories = [category["name"] for category in tracks["categories"]]
    response = timeline(begin=100, end=tracks["cycles"], bins=37)
    assert response.headers["content-type"] == "application/octet-stream"
    window = decoded(response.content)
    found = sums(window)
    assert window.merged
    for number, track in enumerate(tracks["tracks"]):
        begins = [launch["begin"] for launch in tracks["launches"]]
        cycles = painted(records, track["unit"], tuple(categories[1:]), tracks["cycles"], begins)
        assert sum(track["cycles"].values()) == tracks["cycles"]
        for place, edges in enumerate(zip(window.edges, window.edges[1:], strict=False)):
            inside = [category for category, _ in cycles[slice(*edges)]]
            for index, name in enumerate(categories):
                assert found[number, place, index] == inside.count(name)


def test_an_instruction_names_who_sent_its_tokens(timeline: Callable[..., Any], records: list[dict]) -> None:
    by_token = 0
    for record in records:
        for wait in (wait for wait in record["waited_for"] if wait["cause"] == "token"):
            said = timeline(f"/instructions/{record['index']}").json()
            assert said["record"] == record
            (taken,) = [d for d in said["dependences"] if (d["on"], d["role"]) == (wait["on"], "waits_for")]
            assert taken["end"] == records[taken["instruction"]]["end"] <= record["start"]
            assert taken["op"] == records[taken["instruction"]]["op"]
            by_token += 1
    assert by_token


def test_search_goes_round(timeline: Callable[..., Any], records: list[dict]) -> None:
    gemms = [record["index"] for record in records if record["op"] == "gemm"]
    assert timeline("/search", text="GEMM").json() == {"instruction": gemms[0]}
    assert timeline("/search", text="gemm", begin=gemms[-1] + 1).json() == {"instruction": gemms[0]}
    layer = records[-1]["launch"]
    assert timeline("/search", text=layer, begin=len(records) - 1).json() == {"instruction": len(records) - 1}
    assert timeline("/search", text="no such thing").json() == {"instruction": None}


@pytest.mark.parametrize(
    ("part", "query", "field"),
    [
        ("", {"begin": 10, "end": 10}, "begin"),
        ("", {"begin": 10**12}, "begin"),
        ("", {"begin": -1}, "begin"),
        ("", {"bins": 0}, "bins"),
        ("", {"bins": 8193}, "bins"),
        ("", {"end": "x"}, "end"),
        ("/search", {}, "text"),
        ("/search", {"text": ""}, "text"),
        ("/instructions/-1", {}, "index"),
    ],
)
def test_bad_queries(timeline: Callable[..., Any], is_problem: Check, part: str, query: dict, field: str) -> None:
    is_problem(timeline(part, **query), 422, "invalid-request", field)


def test_instructions_that_are_not_there(timeline: Callable[..., Any], records: list[dict], is_problem: Check) -> None:
    problem = is_problem(timeline(f"/instructions/{len(records)}"), 404, "not-found", "index")
    assert str(len(records)) in problem["detail"]


def test_a_job_without_times_has_no_timeline(service: Any, is_problem: Check) -> None:
    wanted = {"program": example_id("programs"), "options": {"engine": "function"}, "fresh": True}
    job = service.wait(service.client.post("/v1/jobs", json=wanted).headers["location"])
    for part in ("", "/tracks", "/instructions/0"):
        problem = is_problem(service.client.get(f"/v1/jobs/{job['id']}/timeline{part}"), 404, "not-found", "id")
        assert "only function was simulated" in problem["detail"]
