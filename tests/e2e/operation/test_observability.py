"""What is seen of jobs from outside: in logs, metrics and traces."""

import itertools
import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from examples.single import Conv, conv_model
from tests.helpers import processes
from tests.helpers.collector import Collector, collector

pytestmark = pytest.mark.slow

MODEL = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
STAGES = ["quantize", "import", "partition", "pack", "schedule", "flatten", "inject", "sync", "allocate", "emit"]


@dataclass(frozen=True)
class Observed:
    service: Any
    collector: Collector

    def lines(self, **fields: object) -> list[dict]:
        """The lines of the log that have these fields."""
        every = [json.loads(line) for line in list(self.service.lines)]
        return [line for line in every if fields.items() <= line.items()]

    def metric(self, name: str, **labels: str) -> float:
        text = self.service.client.get("/metrics").text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return 0.0


@pytest.fixture(scope="module")
def observed(start_service: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    with (
        collector() as kept,
        start_service(
            tmp_path_factory.mktemp("observed"),
            CYCLOPS_LOG_FORMAT="json",
            OTEL_EXPORTER_OTLP_ENDPOINT=kept.url,
            OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20collector",
            OTEL_BSP_SCHEDULE_DELAY="200",
            OTEL_METRIC_EXPORT_INTERVAL="500",
        ) as service,
    ):
        yield Observed(service, kept)


@pytest.fixture(scope="module")
def traced(observed: Observed) -> tuple[str, dict]:
    """A job that has succeeded, and the trace in which a client posted it."""
    client, trace = observed.service.client, secrets.token_hex(16)
    model = client.post("/v1/models", content=MODEL).json()["id"]
    headers = {
        "traceparent": f"00-{trace}-{'12' * 8}-01",
        "X-Request-Id": "asked-by.me",
        "Authorization": "Bearer hush",
    }
    job = {"model": model, "accelerator": "vta"}
    posted = client.post("/v1/jobs", params={"dry_run": "false", "secret": "s3cret"}, json=job, headers=headers)
    assert posted.status_code == 202
    assert posted.headers["x-request-id"] == "asked-by.me"
    job = observed.service.wait(posted.headers["location"])
    assert job["state"] == "succeeded"
    observed.collector.wait(lambda: any(span.name == "job" for span in observed.collector.of_trace(trace)))
    observed.collector.wait(lambda: any(span.name == "POST /v1/jobs" for span in observed.collector.of_trace(trace)))
    return trace, job


def test_every_line_is_an_object_and_tells_no_secret(observed: Observed, traced: tuple[str, dict]) -> None:
    assert all({"time", "level", "logger", "message", "process", "pid"} <= line.keys() for line in observed.lines())
    text = "".join(observed.service.lines)
    assert "s3cret" not in text
    assert "hush" not in text
    assert {"rq.worker", "uvicorn.error", "cyclops.access"} <= {line["logger"] for line in observed.lines()}


def test_all_four_processes_name_the_job(observed: Observed, traced: tuple[str, dict]) -> None:
    trace, job = traced
    every = {"api", "worker", "supervisor", "job"}
    _eventually(lambda: {line["process"] for line in observed.lines(job=job["id"])} == every)
    lines = observed.lines(job=job["id"])
    for line in lines:
        if line["process"] in {"supervisor", "job"}:
            assert (line["attempt"], line["request_id"], line["trace_id"]) == (1, "asked-by.me", trace), line
    assert len({line["pid"] for line in lines}) == 3  # the confined one logs through the one that attends to it
    (accepted,) = [line for line in lines if line["process"] == "api"]
    assert (accepted["request_id"], accepted["trace_id"]) == ("asked-by.me", trace)


def test_a_line_for_every_request(observed: Observed, traced: tuple[str, dict]) -> None:
    _eventually(lambda: bool(observed.lines(logger="cyclops.access", request_id="asked-by.me")))
    (line,) = observed.lines(logger="cyclops.access", request_id="asked-by.me")
    assert (line["method"], line["route"], line["status"]) == ("POST", "/v1/jobs", 202)
    assert line["bytes"] > 100
    assert line["ms"] > 0
    assert observed.lines(logger="cyclops.access", route="/v1/jobs/{id}", method="GET")


def test_the_spans_form_one_tree(observed: Observed, traced: tuple[str, dict]) -> None:
    trace, job = traced
    spans = observed.collector.of_trace(trace)
    (request,) = [span for span in spans if span.parent == "12" * 8]
    assert (request.service, request.name) == ("cyclops-api", "POST /v1/jobs")
    (root,) = [span for span in spans if span.parent == request.id]
    assert (root.service, root.name) == ("cyclops-worker", "job")
    assert root.attributes == {"cyclops.job": job["id"], "cyclops.attempt": "1", "cyclops.state": "succeeded"}
    below = sorted((span for span in spans if span.parent == root.id), key=lambda span: span.begin)
    stages = [*STAGES, "simulate", "verify", "report"]
    assert [span.name for span in below] == ["wait", *(f"stage {name}" for name in ["fetch", *stages, "publish"])]
    assert len(spans) == 2 + len(below)
    for before, after in itertools.pairwise(below):
        assert before.begin <= before.end <= after.begin + 1_000_000
    assert root.begin <= below[0].begin
    assert below[-1].end <= root.end
    assert observed.collector.authorizations == {"Bearer collector"}


def test_no_spans_of_probes(observed: Observed) -> None:
    observed.service.client.get("/healthz")
    time.sleep(0.5)
    assert not [span for span in observed.collector.spans if "healthz" in span.name or "metrics" in span.name]


def test_metrics_of_a_job_that_succeeded_and_of_the_cache(observed: Observed, traced: tuple[str, dict]) -> None:
    hits, misses = (observed.metric("cyclops_cache_requests_total", result=result) for result in ("hit", "miss"))
    job = observed.service.wait(observed.service.submit(MODEL, seed=3))
    assert job["state"] == "succeeded"
    _eventually(lambda: observed.metric("cyclops_jobs_ended_total", state="succeeded") >= 2)
    assert misses >= 1  # those of the first job
    assert observed.metric("cyclops_cache_requests_total", result="hit") > hits
    # nothing is compiled again: only a choice of such a job, and a program that was run on these inputs, are not there
    assert observed.metric("cyclops_cache_requests_total", result="miss") == misses + 2
    assert observed.metric("cyclops_job_wait_seconds_count") >= 2
    assert observed.metric("cyclops_job_duration_seconds_count", state="succeeded") >= 2
    for stage in ("fetch", *STAGES, "simulate", "verify", "report", "publish"):
        assert observed.metric("cyclops_stage_duration_seconds_count", stage=stage) >= 2, stage
    assert observed.metric("cyclops_stage_duration_seconds_sum", stage="simulate") > 0
    assert observed.metric("cyclops_http_requests_total", method="POST", route="/v1/jobs", status="202") >= 2
    assert observed.metric("cyclops_workers", state="idle") + observed.metric("cyclops_workers", state="busy") == 1
    assert observed.metric("cyclops_redis_up") == observed.metric("cyclops_store_up") == 1


def test_metrics_of_a_job_that_failed(observed: Observed) -> None:
    failed = observed.metric("cyclops_jobs_ended_total", state="failed")
    bad = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
    uploaded = observed.service.client.post("/v1/models", content=bad).json()["id"]
    options = {"host_nodes": ["nobody"]}
    posted = observed.service.client.post(
        "/v1/jobs", json={"model": uploaded, "accelerator": "vta", "options": options}
    )
    job = observed.service.wait(posted.headers["location"])
    assert job["state"] == "failed"
    slug = job["error"]["type"].removeprefix("/problems/")
    _eventually(lambda: observed.metric("cyclops_jobs_ended_total", state="failed") == failed + 1)
    assert observed.metric("cyclops_jobs_failed_total", type=slug) == 1
    assert observed.metric("cyclops_job_duration_seconds_count", state="failed") == 1
    observed.collector.wait(lambda: any(s.name == "job" and s.failed for s in observed.collector.spans))
    (span,) = [span for span in observed.collector.spans if span.name == "job" and span.failed]
    assert span.attributes["error.type"] == slug


def test_metrics_of_a_job_that_lost_a_process_and_was_canceled(observed: Observed) -> None:
    canceled = observed.metric("cyclops_jobs_ended_total", state="canceled")
    location = observed.service.submit(MODEL, seed=4)
    _, child = processes.frozen(observed.service.process.pid)
    observed.service.wait_for(location, {"running"})
    _eventually(lambda: observed.metric("cyclops_jobs", state="running") == 1)
    _eventually(lambda: observed.metric("cyclops_open_jobs") == 1)
    processes.kill(child)
    processes.frozen(observed.service.process.pid, but={child})
    _eventually(lambda: observed.metric("cyclops_attempts_lost_total") == 1)
    assert observed.service.client.post(f"{location}/cancel").json()["state"] == "canceled"
    assert observed.metric("cyclops_jobs_ended_total", state="canceled") == canceled + 1
    _eventually(lambda: observed.metric("cyclops_job_duration_seconds_count", state="canceled") == 1)
    job = location.rsplit("/", 1)[1]
    _eventually(lambda: {line["attempt"] for line in observed.lines(job=job) if "attempt" in line} == {1, 2})


def test_the_collector_gets_the_same_metrics(observed: Observed, traced: tuple[str, dict]) -> None:
    def found() -> dict[str, Any]:
        *_, last = observed.collector.metrics
        return {metric.name: metric for metric in last.resource_metrics[0].scope_metrics[0].metrics}

    _eventually(lambda: bool(observed.collector.metrics))
    _eventually(lambda: sum(point.as_double for point in found()["cyclops_jobs_ended"].sum.data_points) >= 1)

    def waited() -> Any:
        (wait,) = found()["cyclops_job_wait_seconds"].histogram.data_points
        return wait

    _eventually(lambda: waited().count == observed.metric("cyclops_job_wait_seconds_count"))
    assert waited().count == sum(waited().bucket_counts)
    text = observed.service.client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert found().keys() >= {name for name in families if name.startswith("cyclops_")} - {"cyclops_build_info"}


def _eventually(there: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.1)
