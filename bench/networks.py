"""Whole networks, from ONNX to a verified program: compile time, verification's time, peaks of memory, cycles, MACs.

Each network runs in a process of its own, so that its peaks are its own. It is compiled a second time with what the
first time left in the cache. Names are those of ``python -m examples``; without any, the four of MLPerf Tiny and
ResNet-18. ``--accelerator`` is as for ``cyclops run``.
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options, StageProgress
from accel.util.content_cache import FolderCache
from examples.networks import NETWORKS, build

_USUAL = ["autoencoder", "keyword_spotting", "resnet8", "visual_wake_words", "resnet18"]
_AFTER = ("simulate", "verify", "report")  # stages that compile nothing
_MIB = 1 << 20


class _CompiledError(Exception):
    """The stages that compile are over."""


@dataclass(frozen=True)
class Measured:
    """A network: seconds of each stage, and of the compiling ones with a full cache; MiB; cycles; MACs; the host's."""

    seconds: dict[str, float]
    again: float
    cached: str
    compile_peak: float
    peak: float
    model: float
    cycles: int
    bound: int
    share: float
    host: list[str]
    sqnr_db: list[float]

    def show(self, name: str) -> None:
        first = sum(time for stage, time in self.seconds.items() if stage not in _AFTER)
        print(f"{name}: compile {first:.1f} s, again {self.again:.1f} s ({self.cached}); ", end="")
        print(f"verify {self.seconds['verify']:.1f} s")
        print("  " + ", ".join(f"{stage} {time:.2f}" for stage, time in self.seconds.items()))
        print(f"  at most {self.compile_peak:.0f} MiB to compile, {self.peak:.0f} in all; the model {self.model:.1f}")
        print(f"  {self.cycles:,} cycles, {self.cycles / self.bound:.3f} of the bound; {self.share:.1%} of the MACs")
        print(f"  on the host: {', '.join(self.host)}; SQNR {', '.join(f'{db:.1f} dB' for db in self.sqnr_db)}")


def measure(name: str, accelerator: str) -> Measured:
    """One network, in this process; it raises unless the outputs are right."""
    model, target = build(name).SerializeToString(), load_accelerator(accelerator)
    peaks: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        out, cache = Path(directory), FolderCache(Path(directory, "cache"))
        report = run_model(
            model,
            target,
            Options(trace=False),
            out,
            progress=lambda now: peaks.update({now.stage: _peak()}),  # when it begins
            cache=cache,
        )
        peak = _peak()
        again, cached = _compile_again(model, target, out, cache)
    return Measured(
        seconds={stage.name: stage.seconds for stage in report.stages},
        again=again,
        cached=f"{cached} entries found, for {len(report.functions)} functions and their trials",
        compile_peak=peaks["simulate"],
        peak=peak,
        model=len(model) / _MIB,
        cycles=report.cycles,
        bound=sum(layer.lower_bound for layer in report.layers),
        share=report.macs.share,
        host=sorted({op.op for op in report.host_ops}),
        sqnr_db=[quality.sqnr_db for quality in report.quantisation],
    )


def _compile_again(model: bytes, accelerator: Accelerator, out: Path, cache: FolderCache) -> tuple[float, int]:
    """Seconds of the stages that compile, and how many entries were found: of functions, and of trials of them."""

    def stop(now: StageProgress) -> None:
        if now.stage in _AFTER:
            raise _CompiledError

    counted = _Counting(cache)
    begin = time.perf_counter()
    with contextlib.suppress(_CompiledError):
        run_model(model, accelerator, Options(trace=False), out, progress=stop, cache=counted)
    return time.perf_counter() - begin, counted.found


class _Counting:
    """A cache that counts what is found."""

    def __init__(self, cache: FolderCache) -> None:
        self._cache = cache
        self.found = 0

    def get(self, key: str) -> bytes | None:
        data = self._cache.get(key)
        self.found += data is not None
        return data

    def put(self, key: str, data: bytes) -> None:
        self._cache.put(key, data)


def _peak() -> float:
    """The most memory that this process has had so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--accelerator", default="vta")
    parser.add_argument("--here", action="store_true", help="in this process, as JSON: so it calls itself")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(asdict(measure(given.networks[0], given.accelerator))))
        return
    for name in given.networks or _USUAL:
        command = [sys.executable, __file__, name, "--accelerator", given.accelerator, "--here"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        Measured(**json.loads(done.stdout)).show(name)


if __name__ == "__main__":
    main()
