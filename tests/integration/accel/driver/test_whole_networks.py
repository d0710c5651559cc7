"""Every network of the examples, on machines of several kinds: verified, with its memory bounded.

A job takes 2 GiB at most, or four times the model if that is more.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from accel.catalog.load_accelerator import preset_names
from examples.networks import NETWORKS, build

TINY = ("autoencoder", "keyword_spotting", "resnet8", "visual_wake_words")
LARGE = [name for name in NETWORKS if name not in (*TINY, "conv224")]
RESNETS = ("resnet18", "resnet34", "resnet50", "light_resnet50")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads its peak from /proc")
_LEAST = 2 << 30
_TIMES = 4
_JOB = """
import json, re, sys
from pathlib import Path
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_options import Options
from accel.driver.run_model import run_model
model, accelerator, out = sys.argv[1:]
report = run_model(Path(model), load_accelerator(accelerator), Options(trace=False), Path(out))
# ru_maxrss would count what the process was before it became this one
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
print(json.dumps({"peak": peak, "report": report.model_dump(mode="json")}))
"""


def marks(network: str) -> list[pytest.MarkDecorator]:
    """Those of the wheel of onnx take half a minute each; the others are of the same kinds."""
    return [pytest.mark.long] if network.startswith("light_") and network != "light_squeezenet" else []


@dataclass(frozen=True)
class Job:
    """What a job in a process of its own took, and said; sizes in bytes."""

    peak: int
    model: int
    report: dict[str, Any]


def run(network: str, accelerator: str, directory: Path) -> Job:
    model, out = directory / "model.onnx", directory / "out"
    model.write_bytes(build(network).SerializeToString())
    out.mkdir()
    command = [sys.executable, "-c", _JOB, str(model), accelerator, str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Job(**json.loads(done.stdout.splitlines()[-1]), model=model.stat().st_size)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("accelerator", ["vta", "gemmini"])
@pytest.mark.parametrize("network", [pytest.param(name, marks=marks(name)) for name in LARGE])
def test_a_large_network(network: str, accelerator: str, tmp_path: Path) -> None:
    job = run(network, accelerator, tmp_path)
    assert job.report["verified"]
    assert all(op["reason"] for op in job.report["host_ops"])
    if network in RESNETS:
        assert job.report["macs"]["share"] >= 0.99
    assert job.peak < max(_LEAST, _TIMES * job.model)


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", preset_names())
@pytest.mark.parametrize("network", TINY)
def test_a_network_of_mlperf_tiny(network: str, accelerator: str, tmp_path: Path) -> None:
    job = run(network, accelerator, tmp_path)
    assert job.report["verified"]
    assert job.peak < _LEAST
