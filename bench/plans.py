"""Whether a plan's cycles are those of the run: every example network on some presets.

A plan times each launch by itself; a run has them behind each other, and a job whose ``schedule`` is ``timed`` may cut
a layer otherwise. What is more than ``--within`` percent off is marked, and the status is then 1.
"""

import accel  # noqa: F401  isort: skip - before onnxruntime, which it keeps from reporting

import argparse
import sys
import tempfile
import time
from pathlib import Path

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from examples.networks import NETWORKS, build

_PRESETS = "vta,gemmini,output-stationary"


def compared(model: bytes, preset: str, schedule: str) -> tuple[int, int]:
    """The cycles of a plan and of a run, in this order."""
    accelerator = load_accelerator(preset)
    options = Options.model_validate({"trace": False, "limits": "some", "schedule": schedule})
    planned = plan_model(model, accelerator).estimated_cycles
    with tempfile.TemporaryDirectory() as out:
        return planned, run_model(model, accelerator, options, Path(out)).cycles or 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; else all")
    parser.add_argument("--accelerators", default=_PRESETS, help="presets, by commas")
    parser.add_argument("--schedule", default="quick", choices=("quick", "timed"), help="of the runs")
    parser.add_argument("--within", type=float, default=5.0, help="percent")
    given = parser.parse_args()
    print(f"{'network':<22}{'preset':<20}{'plan':>14}{'run':>14}{'off':>9}{'seconds':>10}")
    worst = 0.0
    for name in given.networks or NETWORKS:
        model = build(name).SerializeToString()
        for preset in given.accelerators.split(","):
            began = time.perf_counter()
            planned, cycles = compared(model, preset, given.schedule)
            off = 100 * (planned / cycles - 1) if cycles else 0.0
            worst = max(worst, abs(off))
            mark = " *" if abs(off) > given.within else ""
            seconds = time.perf_counter() - began
            print(f"{name:<22}{preset:<20}{planned:>14,}{cycles:>14,}{off:>8.2f}%{seconds:>10.1f}{mark}", flush=True)
    return int(worst > given.within)


if __name__ == "__main__":
    sys.exit(main())
