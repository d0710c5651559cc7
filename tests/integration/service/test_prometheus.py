import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from service.backend import listen
from service.server import serving_in_thread
from worker.config.settings import Settings
from worker.queue.job_queue import JobQueue
from worker.queue.queue_statistics import record_open_jobs
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.storage.object_store import Store
from worker.storage.redis_server import connect, redis_server
from worker.telemetry.counters import CACHE, ENDED, FAILED, MEASURES, STAGE, WAIT, Counters

_MOST_SERIES = 2000


@dataclass(frozen=True)
class Api:
    client: httpx2.Client
    queue: JobQueue
    jobs: Jobs

    def families(self) -> dict[str, Metric]:
        response = self.client.get("/metrics")
        assert response.status_code == 200
        return {family.name: family for family in text_string_to_metric_families(response.text)}

    def value(self, name: str, **labels: str) -> float | None:
        samples = [sample for family in self.families().values() for sample in family.samples if sample.name == name]
        return next((sample.value for sample in samples if sample.labels == labels), None)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    data = tmp_path_factory.mktemp("metrics")
    with redis_server(data / "redis") as url:
        settings = Settings(data=data, redis_url=url, queue="metrics")
        with (
            listen("127.0.0.1", 0) as bound,
            serving_in_thread(settings, bound) as base,
            httpx2.Client(base_url=base, timeout=30) as client,
        ):
            connection = connect(url)
            yield Api(client, JobQueue(connection, "metrics"), Jobs(Store(settings.store_dir)))
            connection.close()


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    api.queue.connection.flushall()


def test_what_has_not_happened_is_0(api: Api) -> None:
    assert api.value("cyclops_jobs_ended_total", state="failed") == 0
    assert api.value("cyclops_attempts_lost_total") == 0
    assert api.value("cyclops_job_wait_seconds_count") == 0
    assert api.value("cyclops_job_wait_seconds_bucket", le="+Inf") == 0
    assert api.value("cyclops_jobs", state="queued") == 0
    assert api.value("cyclops_workers", state="idle") == 0
    assert not api.families()["cyclops_jobs_failed"].samples


def test_what_jobs_came_to(api: Api) -> None:
    counters = Counters("metrics")
    counters.count(ENDED, "failed")
    counters.count(FAILED, "time-limit")
    counters.count(CACHE, "hit", 3)
    for seconds in (0.2, 0.25, 7000.0):
        counters.observe(WAIT, seconds)
    counters.observe(STAGE, 0.02, "simulate")
    counters.add(api.queue.connection)
    assert api.value("cyclops_jobs_ended_total", state="failed") == 1
    assert api.value("cyclops_jobs_failed_total", type="time-limit") == 1
    assert api.value("cyclops_cache_requests_total", result="hit") == 3
    assert api.value("cyclops_job_wait_seconds_bucket", le="0.1") == 0
    assert api.value("cyclops_job_wait_seconds_bucket", le="0.25") == 2
    assert api.value("cyclops_job_wait_seconds_bucket", le="1800.0") == 2
    assert api.value("cyclops_job_wait_seconds_bucket", le="+Inf") == 3
    assert api.value("cyclops_job_wait_seconds_sum") == pytest.approx(7000.45)
    assert api.value("cyclops_stage_duration_seconds_count", stage="simulate") == 1


def test_the_queue(api: Api) -> None:
    created = time.time() - 100
    ids = [f"{int((created + age) * 1e6):014x}" + "0" * 18 for age in range(3)]
    for job_id in ids:
        api.queue.submit(job_id)
    api.queue.delay("f" * 32, 60)
    record_open_jobs(api.queue, 4)
    assert api.value("cyclops_jobs", state="queued") == 3
    assert api.value("cyclops_jobs", state="resting") == 1
    assert api.value("cyclops_queue_head_age_seconds") == pytest.approx(100, abs=5)
    assert api.value("cyclops_open_jobs") is not None  # the api itself looks for lost jobs now and then


def test_a_message_of_others_at_the_head(api: Api) -> None:
    api.queue.rq.enqueue_call("os.system", job_id="not-ours", timeout=1)
    assert api.value("cyclops_queue_head_age_seconds") == 0


def test_a_canceled_job_is_counted(api: Api) -> None:
    job_id = api.jobs.create(JobRequest(model="0" * 64, accelerator="vta"))
    for _ in range(2):
        assert api.client.post(f"/v1/jobs/{job_id}/cancel").json()["state"] == "canceled"
    assert api.value("cyclops_jobs_ended_total", state="canceled") == 1


@pytest.mark.slow
def test_without_redis_or_with_one_that_forgot(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, redis_url=f"unix://{tmp_path}/nothing.sock")
    with listen("127.0.0.1", 0) as bound, serving_in_thread(settings, bound) as base:
        response = httpx2.get(f"{base}/metrics", timeout=30)
    samples = {sample.name: sample.value for f in text_string_to_metric_families(response.text) for sample in f.samples}
    assert response.status_code == 200
    assert samples["cyclops_redis_up"] == 0
    assert samples["cyclops_store_up"] == 1
    assert "cyclops_redis_latency_seconds" not in samples
    assert "cyclops_jobs_ended_total" not in samples  # unknown, which is not 0


@pytest.mark.slow
def test_without_its_store(tmp_path: Path) -> None:
    settings = Settings(
        data=tmp_path,
        redis_url=f"unix://{tmp_path}/nothing.sock",
        store_url="s3://nothing",
        store_endpoint="http://127.0.0.1:9",
        store_region="x",
        store_access_key_id="x",
        store_secret_access_key="x",
    )
    with listen("127.0.0.1", 0) as bound, serving_in_thread(settings, bound) as base:
        response = httpx2.get(f"{base}/metrics", timeout=30)
    assert "cyclops_store_up 0.0" in response.text


def test_both_formats(api: Api) -> None:
    plain = api.client.get("/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    accepted = api.client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert accepted.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert {family.name for family in open_metrics(accepted.text)} >= {measure.name for measure in MEASURES}


def test_names_keep_to_the_conventions(api: Api) -> None:
    """What promtool's lint looks at: https://prometheus.io/docs/practices/naming."""
    for family in api.families().values():
        assert re.fullmatch("[a-z][a-z0-9_]*", family.name)
        assert family.documentation, family.name
        if family.name.startswith("cyclops_"):
            assert family.documentation.endswith("."), family.name
        for sample in family.samples:
            assert (family.type == "counter") == sample.name.endswith("_total"), sample.name
            assert (family.type == "histogram") == sample.name.endswith(("_bucket", "_count", "_sum")), sample.name
            for unit in ("_milliseconds", "_ms", "_minutes", "_kilobytes"):
                assert not family.name.endswith(unit)


@pytest.mark.slow
def test_series_are_few_whatever_jobs_say_and_clients_ask(api: Api) -> None:
    counters = Counters("metrics")
    for number in range(500):
        counters.observe(STAGE, 1.0, f"stage {number}")
        counters.count(FAILED, f"type {number}")
        counters.count(ENDED, f"state {number}")
    counters.add(api.queue.connection)
    for number in range(100):
        api.client.get(f"/nothing/{number}")
        api.client.get(f"/v1/jobs/{number}")
        api.client.request(f"M{number}", "/healthz")
    families = api.families()
    assert api.value("cyclops_stage_duration_seconds_count", stage="other") == 500
    assert api.value("cyclops_jobs_failed_total", type="other") == 500
    assert sum(len(family.samples) for family in families.values()) < _MOST_SERIES
    routes = {sample.labels["route"] for sample in families["cyclops_http_requests"].samples}
    assert routes <= {"/metrics", "unmatched", "/v1/jobs/{id}", "/healthz", "/v1/jobs/{id}/cancel", "other"}
