"""Every network of the examples, on machines of several kinds: verified, with its memory bounded.

A job takes 2 GiB at most, or four times the model if that is more. CI has each accelerator,
each of the small networks, and a large one.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import cycle, product, starmap
from pathlib import Path
from typing import Any

import pytest

from accel.catalog.load_accelerator import load_accelerator, preset_names
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from examples.networks import NETWORKS, build
from tests.helpers.marking import others_all

TINY = ("autoencoder", "keyword_spotting", "resnet8", "visual_wake_words", "attention")
LARGE = [name for name in NETWORKS if name not in (*TINY, "conv224")]
# one that forks and joins, and is soon done; the small networks have the other kinds of layers
TURNS = {("light_squeezenet", "gemmini")}
RESNETS = ("resnet18", "resnet34", "resnet50", "light_resnet50")
OFTEN = [
    ("vta", "visual_wake_words"),
    *zip(preset_names(), cycle(name for name in TINY if name != "visual_wake_words")),
]
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


def large(network: str, accelerator: str) -> Any:
    """Those of the wheel of onnx take half a minute each; the others are of the same kinds."""
    long = network.startswith("light_") and network != "light_squeezenet"
    marks = [pytest.mark.long] if long else [] if (network, accelerator) in TURNS else [pytest.mark.all]
    return pytest.param(network, accelerator, marks=marks)


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
@pytest.mark.parametrize(("network", "accelerator"), list(starmap(large, product(LARGE, ["vta", "gemmini"]))))
def test_a_large_network(network: str, accelerator: str, tmp_path: Path) -> None:
    job = run(network, accelerator, tmp_path)
    assert job.report["verified"]
    assert all(op["reason"] for op in job.report["host_ops"])
    if network in RESNETS:
        assert job.report["macs"]["share"] >= 0.99
    assert job.peak < max(_LEAST, _TIMES * job.model)


def resident(line: str) -> int:
    """Bytes of this process: of now by ``VmRSS``, the most since they were last cleared by ``VmHWM``."""
    found = re.search(rf"{line}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert found
    return int(found[1]) << 10


@pytest.mark.slow
@pytest.mark.parametrize(("accelerator", "network"), others_all(product(preset_names(), TINY), OFTEN))
def test_a_small_network(network: str, accelerator: str, tmp_path: Path) -> None:
    """In the process of the test, which others have made larger."""
    model = build(network).SerializeToString()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = resident("VmRSS")
    report = run_model(model, load_accelerator(accelerator), Options(trace=False), tmp_path)
    assert report.verified
    assert resident("VmHWM") - before < _LEAST // 2
