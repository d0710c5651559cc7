from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import httpx2

from worker.config.settings import Settings

Start = Callable[..., object]


def test_it_says_what_it_is(client: httpx2.Client) -> None:
    about = client.get("/v1/about").json()
    assert about["version"] == version("cyclops")
    assert about["tvm"] == version("apache-tvm")
    assert {"explicit", "gemmini", "vta"} <= set(about["families"])
    assert about["limits"]["uploads"]["model_bytes"] == Settings().max_model_bytes
    assert about["limits"]["job"]["seconds"] == Settings().job_seconds
    assert about["confinement"]["limits"]["active"] is True
    assert all(mechanism["detail"] for mechanism in about["confinement"].values())


def test_it_shows_no_path_of_the_host(client: httpx2.Client, service: object) -> None:
    assert str(Path(service.data)) not in client.get("/v1/about").text
