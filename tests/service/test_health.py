from collections.abc import Callable
from pathlib import Path

import httpx2

from service.serving import listen, served
from worker.settings import Settings


def test_healthy_and_ready(client: httpx2.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"redis": True, "store": True, "workers": 1}


def test_without_redis_it_is_alive_and_not_ready(tmp_path: Path, is_problem: Callable[..., dict]) -> None:
    settings = Settings(data=tmp_path, redis_url=f"unix://{tmp_path}/nothing.sock")
    with (
        listen("127.0.0.1", 0) as bound,
        served(settings, bound) as url,
        httpx2.Client(base_url=url, timeout=30) as client,
    ):
        assert client.get("/healthz").status_code == 200
        response = client.get("/readyz")
        is_problem(response, 503, "not-ready")
        assert response.headers["retry-after"]
