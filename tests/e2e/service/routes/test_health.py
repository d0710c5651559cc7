import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from examples.single import Conv, conv_model
from service.backend import listen
from service.server import serving_in_thread
from tests.helpers.buckets import bucket_server
from worker.config.settings import Settings
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.storage.object_store import Store


def test_healthy_and_ready(client: httpx2.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    ready = client.get("/readyz").json()
    assert ready == {"redis": True, "store": True, "workers": 1, "warm": ["vta"], "warming": []}


@pytest.mark.slow
def test_without_redis_it_is_alive_and_answers(tmp_path: Path, is_problem: Callable[..., dict]) -> None:
    settings = Settings(data=tmp_path, redis_url=f"unix://{tmp_path}/nothing.sock")
    jobs = Jobs(Store(settings.store_dir))
    queued = jobs.create(JobRequest(model="0" * 64, accelerator="vta"))
    with (
        listen("127.0.0.1", 0) as bound,
        serving_in_thread(settings, bound) as url,
        httpx2.Client(base_url=url, timeout=30) as client,
    ):
        assert client.get("/healthz").status_code == 200
        response = client.get("/readyz")
        is_problem(response, 503, "not-ready")
        assert response.json()["detail"] == "Redis cannot be used"
        assert response.headers["retry-after"]

        model = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
        digest = client.post("/v1/models", content=model).json()["id"]
        response = client.post("/v1/jobs", json={"model": digest, "accelerator": "vta"})
        is_problem(response, 503, "queue-unavailable")
        assert client.post(f"/v1/jobs/{queued}/cancel").json()["state"] == "canceled"


@pytest.mark.slow
def test_without_its_bucket_it_is_alive_and_answers_within_seconds(
    tmp_path: Path, is_problem: Callable[..., dict], service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
    with bucket_server() as server:
        for name, value in server.environment("health").items():
            monkeypatch.setenv(name, value)
        settings = Settings(data=tmp_path, redis_url=f"unix://{service.data}/redis/redis.sock")
        with (
            listen("127.0.0.1", 0) as bound,
            serving_in_thread(settings, bound) as url,
            httpx2.Client(base_url=url, timeout=30) as client,
        ):
            assert client.get("/readyz").json()["store"]
            digest = client.post("/v1/models", content=model).json()["id"]
            job = {"model": digest, "accelerator": "vta"}
            with server.silent():
                begin = time.monotonic()
                assert client.get("/healthz").status_code == 200
                away = client.get("/readyz")
                is_problem(away, 503, "not-ready")
                assert away.json()["detail"] == "the store cannot be used"
                assert server.endpoint.removeprefix("http://") not in away.text
                for response in (
                    client.post("/v1/jobs", json=job),
                    client.get(f"/v1/models/{digest}"),
                    client.post("/v1/models", content=model),
                ):
                    is_problem(response, 503, "store-unavailable")
                    assert response.headers["retry-after"]
                assert time.monotonic() - begin < 4 * 5
            assert client.get("/readyz").status_code == 200
            assert client.get(f"/v1/models/{digest}").json()["id"] == digest
