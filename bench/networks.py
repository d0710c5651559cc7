"""Whole networks, from ONNX to a verified program: every stage's time, the peak of memory, the cycles, who does what.

Each network is compiled in a process of its own, so that its peak is its own. Names are those of
``python -m examples``; without any, the four of MLPerf Tiny and ResNet-18. ``--accelerator`` is as for ``cyclops run``.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from accel.catalog import load_accelerator
from accel.options import Options
from accel.run import run_model
from examples.networks import NETWORKS, build

_USUAL = ["autoencoder", "keyword_spotting", "resnet8", "visual_wake_words", "resnet18"]
_AFTER = ("simulate", "verify", "report")  # stages that compile nothing
_MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """A network: seconds of each stage, MiB, cycles and their bound, the share of MACs, the operators on the host."""

    seconds: dict[str, float]
    peak: float
    model: float
    cycles: int
    bound: int
    share: float
    host: list[str]
    sqnr_db: list[float]

    def show(self, name: str) -> None:
        compiling = sum(time for stage, time in self.seconds.items() if stage not in _AFTER)
        print(f"{name}: {compiling:.1f} s to compile, {self.peak:.0f} MiB at most (the model {self.model:.1f})")
        print("  " + ", ".join(f"{stage} {time:.2f}" for stage, time in self.seconds.items()))
        print(f"  {self.cycles:,} cycles, {self.cycles / self.bound:.3f} of the bound; {self.share:.1%} of the MACs")
        print(f"  on the host: {', '.join(self.host)}; SQNR {', '.join(f'{db:.1f} dB' for db in self.sqnr_db)}")


def measure(name: str, accelerator: str) -> Measured:
    """One network, in this process; it raises unless the outputs are right."""
    model = build(name).SerializeToString()
    with tempfile.TemporaryDirectory() as directory:
        report = run_model(model, load_accelerator(accelerator), Options(trace=False), Path(directory))
    return Measured(
        seconds={stage.name: stage.seconds for stage in report.stages},
        peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB,
        model=len(model) / _MIB,
        cycles=report.cycles,
        bound=sum(layer.lower_bound for layer in report.layers),
        share=report.macs.share,
        host=sorted({op.op for op in report.host_ops}),
        sqnr_db=[quality.sqnr_db for quality in report.quantisation],
    )


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
