"""Every example on one accelerator, through ``cyclops run``: is it verified, and how near is it to its bound.

    python bench/every_example.py gemmini-8
    python bench/every_example.py gemmini resnet50 vit_tiny --out REPORTS

Each network runs in a process of its own, one after the other: those named, or all of ``python -m examples``. A
line has cycles, their ratio to the sum of the layers' bounds, the share of MACs on the accelerator, the nodes on the
host, seconds waited, and the most memory. A network that fails is told with its problem and the next one runs; the exit
status is 1 then. ``--out`` keeps the reports as JSON; a network that has one there is read, not run again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from examples.networks import NETWORKS, build

_GIB = 1 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("accelerator", help="as for `cyclops run`")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--out", type=Path, help="a folder for the reports")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = given.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        failed = [name for name in given.networks or NETWORKS if not _verifies(name, given.accelerator, out)]
    print(f"{len(failed)} not verified: {', '.join(failed)}" if failed else "all verified")
    return 1 if failed else 0


def _verifies(name: str, accelerator: str, out: Path) -> bool:
    """Tell of one network; gives whether it ran and was verified."""
    kept = out / f"{name}.json"
    used = ""
    if not kept.exists():
        text, seconds, peak = _run(name, accelerator)
        used = f"; {seconds:.0f} s, {peak / _GIB:.2f} GiB"
        kept.write_text(text)
    report: dict[str, Any] = json.loads(kept.read_text())
    if "layers" not in report:  # a problem
        kept.unlink()
        print(f"{name}: {report['title']}: {report['detail']}{used}", flush=True)
        return False
    host = Counter(op["op"] for op in report["host_ops"])
    cycles, bound = report["cycles"], sum(layer["lower_bound"] for layer in report["layers"])
    verified = report["verified"] is True
    print(
        f"{name}: {'verified' if verified else 'NOT VERIFIED'}, {cycles:,} cycles, {cycles / bound:.3f} of the bound, "
        f"{report['macs']['share']:.2%} of the MACs; on the host: "
        f"{', '.join(f'{count} {op}' for op, count in sorted(host.items())) or 'nothing'}{used}",
        flush=True,
    )
    return verified


def _run(name: str, accelerator: str) -> tuple[str, float, int]:
    """Returns what ``cyclops run --json`` printed, the seconds that it took, and its most memory in bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch, "model.onnx")
        model.write_bytes(build(name).SerializeToString())
        command = [sys.executable, "-m", "service.cli", "run", str(model), "--accelerator", accelerator, "--json"]
        printed = Path(scratch, "report.json")
        begin = time.perf_counter()
        with printed.open("w") as file:
            process = subprocess.Popen(command, stdout=file)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        text = printed.read_text()
        if not text:  # it ended without a word, as for want of memory
            text = json.dumps({"title": "No report.", "detail": f"the exit status is {process.returncode}"})
        return text, time.perf_counter() - begin, used.ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
