"""Simulators are compiled once: not by a job after another, nor after a restart, nor by each of two workers."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel.catalog.load_accelerator import load_accelerator
from examples.single import Conv, conv_model

MODEL = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
PRESET = "mvin-mvout"


def document() -> bytes:
    """A user's accelerator, whose kernel no preset has: one instruction is called otherwise."""
    preset = json.loads(load_accelerator(PRESET).model_dump_json(exclude_none=True))
    preset["instructions"][0]["name"] = "first"
    return json.dumps(preset | {"name": "mine"}).encode()


def run(service: Any, accelerator: str) -> None:
    uploaded = service.client.post("/v1/models", content=MODEL).json()["id"]
    job = {"model": uploaded, "accelerator": accelerator, "fresh": True}
    posted = service.client.post("/v1/jobs", json=job)
    assert posted.status_code == 202, posted.text
    ended = service.wait(posted.headers["Location"])
    assert ended["state"] == "succeeded", ended["error"]


def readiness(service: Any) -> tuple[list[str], list[str]]:
    answer = service.client.get("/readyz")
    assert answer.status_code == 200  # whatever is compiled
    ready = answer.json()
    return ready["warm"], ready["warming"]


def count(services: list[Any], text: str) -> int:
    return sum(text in line for service in services for line in service.lines)


@pytest.mark.slow
def test_nothing_is_compiled_twice(start_service: Callable[..., Any], tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CYCLOPS_WARM_UP": PRESET}
    with start_service(tmp_path / "data", **environment) as first:
        deadline = time.monotonic() + 200
        while readiness(first) != ([PRESET], []):
            assert readiness(first)[0] in ([], [PRESET])
            assert time.monotonic() < deadline, first.lines
            time.sleep(0.2)
        posted = first.client.post("/v1/accelerators", content=document(), headers={"Content-Type": "application/json"})
        mine = posted.json()["id"]
        for _ in range(2):
            run(first, mine)
    with start_service(tmp_path / "data", workers=2, **environment) as second:
        while second.client.get("/readyz").json()["workers"] < 2:
            time.sleep(0.1)
        assert readiness(second) == ([PRESET], [])
        run(second, mine)
        run(second, PRESET)
    both = [first, second]
    assert count(both, f"compiled the simulator of {PRESET}") == 1
    assert count(both, "compiled the kernel of the family explicit") == 2, first.lines  # the preset's and the user's
    assert count([first], f"loaded the simulators of {PRESET}") == 1
    assert count([second], f"loaded the simulators of {PRESET}") == 2
    assert len(list(tmp_path.glob("cache/cyclops/compiled-*/explicit-*.prepared"))) == 1
    assert len(list(tmp_path.glob("data/kernels/*/*"))) == 1


@pytest.mark.slow
@pytest.mark.all  # of a machine of a user, whose first job compiles too, the other test is
def test_without_a_warm_up_the_first_job_compiles_for_all(start_service: Callable[..., Any], tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CYCLOPS_WARM_UP": "none"}
    with start_service(tmp_path / "data", **environment) as service:
        assert readiness(service) == ([], [])
        run(service, PRESET)
        prepared = list(tmp_path.glob("cache/cyclops/compiled-*/explicit-*.prepared"))
        code = {path: path.stat().st_mtime_ns for path in tmp_path.glob("cache/cyclops/compiled-*/" + "?" * 64)}
        assert len(prepared) == 1
        assert code
        run(service, PRESET)
        assert code == {path: path.stat().st_mtime_ns for path in tmp_path.glob("cache/cyclops/compiled-*/" + "?" * 64)}
    assert count([service], "compiled the kernel of the family explicit") == 1
    assert count([service], "what simulates the family explicit is not compiled yet") == 1  # of the first job alone
