"""How long somebody waits for an answer: of the command line, and of a service's worker that is warm.

Seconds are of this machine; the ratio beside them is to what a process needs to start and import TVM here, in the
same run. Each figure but the first runs is the middle one of three; every one of them is of a document or a seed that
nobody asked for before, as the same question again is answered from what is kept.

``python bench/answers.py PART...`` measures some of the parts alone; ``--accelerator`` may be repeated, and
``--schedule`` is as for ``cyclops run``.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loading.service import ROOT, service

from accel.catalog.load_accelerator import load_accelerator
from examples.networks import build

Document = dict[str, Any]
_ACCELERATORS = ["vta", "gemmini", "output-stationary"]  # one of each family
_RUNS = 3
_WAIT = 300  # seconds


@dataclass
class Bench:
    """What the parts need: the place of their files, and what to compare with.

    Attributes:
        folder: for models, documents and caches.
        unit: seconds that a process takes to import TVM.
        schedule: the job's option.
        changes: numbers that were not used yet.
    """

    folder: Path
    unit: float
    schedule: str
    changes: Iterator[int]

    def print(self, name: str, accelerator: str, seconds: float, aim: float) -> None:
        row = f"{name:44} {accelerator:18} {seconds:7.2f} {aim:6.1f} {seconds / self.unit:6.2f}"
        print(row, flush=True)

    def model(self, network: str) -> Path:
        """The network's file, made once."""
        path = self.folder / f"{network}.onnx"
        if not path.exists():
            path.write_bytes(build(network).SerializeToString())
        return path

    def resized(self, accelerator: str) -> Document:
        """The preset's document with another size of its first buffer of int8, as nobody has asked for."""
        document = json.loads(load_accelerator(accelerator).model_dump_json())
        memory = next(memory for memory in document["memories"] if memory["dtype"] == "int8")
        memory["depth"] -= 16 * (1 + next(self.changes))
        if document["family"] == "gemmini":
            document["parameters"]["scratchpad_bytes"] = memory["depth"] * memory["shape"][0]
        return {**document, "name": f"{accelerator}-resized"}

    def retimed(self, accelerator: str) -> Document:
        """The preset's document with another latency of its DRAM."""
        document = json.loads(load_accelerator(accelerator).model_dump_json())
        document["dram"]["read_latency"] += 1 + next(self.changes)
        if document["family"] == "gemmini":  # whose clock reads the parameter
            document["parameters"]["memory_latency"] = document["dram"]["read_latency"]
        return {**document, "name": f"{accelerator}-retimed"}

    def run(self, model: Path, accelerator: str | Path, tree: Path = ROOT, **settings: str) -> float:
        """Seconds of ``cyclops run``, which verifies what it prints."""
        command = [sys.executable, "-m", "service.cli", "run", str(model), "--accelerator", str(accelerator)]
        environment = os.environ | {"PYTHONPATH": str(tree)} | settings
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return _timed([*command, "--schedule", self.schedule], tree, environment)


def _timed(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _middle(act: Callable[[], float]) -> float:
    return statistics.median(act() for _ in range(_RUNS))


def first_run(bench: Bench, accelerator: str) -> None:
    """Of a fresh installation: neither kernels nor the code of our modules are compiled."""
    tree = bench.folder / f"installed-{accelerator}"
    for package in ("accel", "worker", "service"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    seconds = bench.run(bench.model("resnet8"), accelerator, tree, XDG_CACHE_HOME=str(tree / "cache"))
    bench.print("first run after installing, ResNet-8", accelerator, seconds, 15)


def resized(bench: Bench, accelerator: str) -> None:
    """A size changed in the document, in a process of its own."""

    def once() -> float:
        path = bench.folder / "document.json"
        path.write_text(json.dumps(bench.resized(accelerator)))
        return bench.run(bench.model("resnet8"), path)

    bench.print("cyclops run, ResNet-8, a size changed", accelerator, _middle(once), 2.5)


def networks(bench: Bench, accelerator: str) -> None:
    """Large networks, compiled from nothing."""
    aims = {"resnet18": 5, "resnet50": 15, "mobilenet_v3": 8, "efficientnet_b0": 8, "shufflenet_v2": 8}
    for network, aim in aims.items():
        model = bench.model(network)
        bench.print(f"cyclops run, {network}", accelerator, bench.run(model, accelerator), aim)


class Client:
    """Questions to a service, one after the other."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: bytes | None = None, **headers: str) -> Any:
        request = urllib.request.Request(self._base + path, body, headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=_WAIT) as answer:  # noqa: S310
            return json.loads(answer.read())

    def post(self, path: str, document: Document, **headers: str) -> Any:
        return self.ask(path, json.dumps(document).encode(), **{"Content-Type": "application/json"}, **headers)

    def report(self, job: Document) -> None:
        """Post the job, wait for its end, and read the report."""
        record = self.post("/v1/jobs", job, Prefer=f"wait={_WAIT}")
        if record["state"] != "succeeded":
            raise RuntimeError(record["error"])
        self.ask(record["links"]["report"])


@dataclass
class Warm:
    """A service whose worker is warm, and a model that it has."""

    client: Client
    model: str
    schedule: str

    def answer(self, document: Document) -> float:
        """Seconds from the document to the report."""
        begin = time.perf_counter()
        accelerator = self.client.post("/v1/accelerators", document)["id"]
        options = {"schedule": self.schedule}
        self.client.report({"model": self.model, "accelerator": accelerator, "options": options})
        return time.perf_counter() - begin


@contextlib.contextmanager
def _service(bench: Bench, data: Path) -> Iterator[Warm]:
    with service(data, 1) as one:
        client = Client(one.port)
        model = client.ask("/v1/models", bench.model("resnet8").read_bytes())["id"]
        while client.ask("/readyz").get("warming"):
            time.sleep(0.1)
        yield Warm(client, model, bench.schedule)


def warm_worker(bench: Bench, accelerator: str) -> None:
    """From the document's POST to the report, of a worker that had other jobs before."""
    with _service(bench, bench.folder / f"warm-{accelerator}") as warm:
        for _ in range(2):
            warm.answer(bench.resized(accelerator))
        seconds = _middle(lambda: warm.answer(bench.resized(accelerator)))
        bench.print("warm worker, ResNet-8, a size changed", accelerator, seconds, 1)
        warm.answer(bench.retimed(accelerator))
        seconds = _middle(lambda: warm.answer(bench.retimed(accelerator)))
        bench.print("warm worker, ResNet-8, timing changed", accelerator, seconds, 0.3)


def restart(bench: Bench, accelerator: str) -> None:
    """What the first and the second job after a worker's restart take more than a later one."""
    data = bench.folder / f"restart-{accelerator}"
    with _service(bench, data) as warm:
        warm.answer(bench.resized(accelerator))
    with _service(bench, data) as warm:
        first, second, *later = [warm.answer(bench.resized(accelerator)) for _ in range(2 + _RUNS)]
    bench.print("first job after a restart, more than a later", accelerator, first - statistics.median(later), 1)
    bench.print("second job after a restart, more than a later", accelerator, second - statistics.median(later), 0)


_PARTS = {part.__name__: part for part in (first_run, resized, networks, warm_worker, restart)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(_PARTS)}; else all")
    parser.add_argument("--accelerator", action="append")
    parser.add_argument("--schedule", choices=("auto", "quick", "timed"), default="auto")
    given = parser.parse_args()
    print(f"{os.cpu_count()} processor cores, load {os.getloadavg()[0]:.1f} before")
    print(f"{'':44} {'accelerator':18} {'seconds':>7} {'aim':>6} {'ratio':>6}")
    with tempfile.TemporaryDirectory(prefix="cyclops-answers-") as name:
        folder = Path(name)
        unit = _middle(lambda: _timed([sys.executable, "-c", "import tvm"], folder, dict(os.environ)))
        bench = Bench(folder, unit, given.schedule, itertools.count())
        for part in given.parts or _PARTS:
            for accelerator in given.accelerator or _ACCELERATORS:
                _PARTS[part](bench, accelerator)
        print(f"importing TVM takes {unit:.2f} s")


if __name__ == "__main__":
    main()
