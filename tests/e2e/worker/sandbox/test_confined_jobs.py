"""Jobs run confined, for every family of instruction sets, whether the simulator's machine code is kept or not."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.single import Conv, conv_model
from tests.conftest import PREPARE, ROOT, keep_machine_code
from tests.helpers import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
MODEL = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
ACCELERATORS = ("vta", "gemmini", "mvin-mvout")


@pytest.mark.parametrize(
    "accelerator", ["vta", *(pytest.param(name, marks=pytest.mark.all) for name in ACCELERATORS[1:])]
)
def test_jobs(service: Any, accelerator: str) -> None:
    keep_machine_code(accelerator)
    run_on(service, accelerator)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kept", [False, True], ids=["cold", "warm"])
def test_jobs_with_a_cache_of_their_own(start_service: Callable[..., Any], tmp_path: Path, kept: bool) -> None:
    """Cold: a job compiles for itself, and may keep nothing. Warm: what another process kept serves it."""
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    if kept:
        subprocess.run([sys.executable, "-c", PREPARE, *ACCELERATORS], env=os.environ | cache, cwd=ROOT, check=True)
    with start_service(tmp_path / "data", **cache) as service:
        run_on(service, *ACCELERATORS)


def run_on(service: Any, *accelerators: str) -> None:
    about = service.client.get("/v1/about").json()["confinement"]
    model = service.client.post("/v1/models", content=MODEL).json()["id"]
    for accelerator in accelerators:
        job = {"model": model, "accelerator": accelerator, "fresh": True}
        location = service.client.post("/v1/jobs", json=job).headers["location"]
        seen = confinement(service.process.pid, lambda at=location: service.client.get(at).json()["state"])
        ended = service.wait(location, 300)
        assert ended["state"] == "succeeded", ended
        assert ended["result"]["verified"] is True
        assert ended["attempt"] == 1
        assert (seen.get("Seccomp") == "2") == about["calls"]["active"], (accelerator, seen)
        assert (seen.get("NoNewPrivs") == "1") or not about["privileges"]["active"]


def confinement(service_pid: int, state: Callable[[], str]) -> dict[str, str]:
    """What the kernel says of the process of a job, once it is confined; at last before the job has ended."""
    seen: dict[str, str] = {}
    while state() not in {"succeeded", "failed"}:
        with contextlib.suppress(OSError, AssertionError):  # it was quicker
            _, child = processes.job_of(service_pid, 1)
            lines = Path(f"/proc/{child}/status").read_text().splitlines()
            seen = {name: value.strip() for name, value in (line.split(":", 1) for line in lines if ":" in line)}
            if seen["Seccomp"] != "0":
                return seen
    return seen
