import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from examples.single import Conv, conv_model
from service.serving import listen, served
from worker.jobs import JobRequest, Jobs
from worker.settings import Settings
from worker.store import Store


def test_healthy_and_ready(client: httpx2.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"redis": True, "store": True, "workers": 1}


def test_without_redis_it_is_alive_and_answers_within_a_second(tmp_path: Path, is_problem: Callable[..., dict]) -> None:
    settings = Settings(data=tmp_path, redis_url=f"unix://{tmp_path}/nothing.sock")
    jobs = Jobs(Store(settings.store_dir))
    queued = jobs.create(JobRequest(model="0" * 64, accelerator="vta"))
    with (
        listen("127.0.0.1", 0) as bound,
        served(settings, bound) as url,
        httpx2.Client(base_url=url, timeout=30) as client,
    ):
        assert client.get("/healthz").status_code == 200
        begin = time.monotonic()
        response = client.get("/readyz")
        is_problem(response, 503, "not-ready")
        assert response.headers["retry-after"]
        assert time.monotonic() - begin < 1

        model = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
        digest = client.post("/v1/models", content=model).json()["id"]
        begin = time.monotonic()
        response = client.post("/v1/jobs", json={"model": digest, "accelerator": "vta"})
        is_problem(response, 503, "queue-unavailable")
        assert client.post(f"/v1/jobs/{queued}/cancel").json()["state"] == "canceled"
        assert time.monotonic() - begin < 2
