"""What it gains to run launches on into one another: every network as separate launches, and joined.

Both programs are verified. Cycles are the accelerator's, beside the bound of the whole, the larger of the sums of what
the compute unit and the bus need; beside what the single launches allow if the seams between them cost nothing
(``accel/report/seam_cycles.py``), which a row says if it misses by more than 5%; and end to end, where the document
says what its host costs.

``python bench/launches.py NETWORK... --accelerator NAME``; names are those of ``python -m examples``, without any all
of them. ``--accelerator`` may be repeated.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.kept_programs import PROGRAM_FILE
from accel.driver.run_model import run_model
from accel.driver.run_options import Launches, Options
from accel.errors import CyclopsError
from accel.program_files.open_program import open_program
from accel.report.documents.report_documents import Report
from accel.report.seam_cycles import cycles_without_seams
from accel.util.content_cache import FolderCache
from examples.networks import NETWORKS, build

_ALLOWED = 1.05  # times what single launches allow: what joined ones are to take at most
_ENDS = f"{'end to end':>13}{'joined':>13}"
_HEAD = f"{'':23}{'separate':>13}{'joined':>13}{'saved':>8}{'of bound':>10}{'of single':>11}{_ENDS}"


def measure(name: str, accelerator: str) -> tuple[Report, Report, int]:
    """Returns the reports of a network with separate launches and with joined ones, and what the single ones allow.

    Raises:
        CyclopsError: it cannot be compiled, or the outputs are wrong.
    """
    model, target = build(name).SerializeToString(), load_accelerator(accelerator)

    def run(launches: Launches) -> Report:
        options = Options(trace=False, launches=launches)
        return run_model(model, target, options, Path(directory), cache=cache)

    with tempfile.TemporaryDirectory() as directory:
        cache = FolderCache(Path(directory, "cache"))
        separate = run("separate")
        allowed = cycles_without_seams(open_program(Path(directory, PROGRAM_FILE)))
        return separate, run("joined"), allowed


def show(name: str, separate: Report, joined: Report, allowed: int) -> None:
    """Print the line of a network."""
    saved = 1 - joined.cycles / separate.cycles if separate.cycles else 0.0
    bound = sum(layer.lower_bound for layer in joined.layers) if joined.bound is None else joined.bound.cycles
    times, single = (f"{joined.cycles / least:.3f}" if least else "-" for least in (bound, allowed))
    ends = [
        f"{each.end_to_end.cycles:,}" if each.end_to_end is not None and each.end_to_end.modelled else "-"
        for each in (separate, joined)
    ]
    verified = "" if separate.verified and joined.verified else "  not verified"
    line = f"{name:23}{separate.cycles:13,}{joined.cycles:13,}{saved:8.1%}{times:>10}{single:>11}"
    missed = f"  more than {_ALLOWED} of single" if joined.cycles > _ALLOWED * allowed else ""
    print(f"{line}{ends[0]:>13}{ends[1]:>13}{verified}{missed}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each accelerator."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="else all")
    parser.add_argument("--accelerator", action="append")
    given = parser.parse_args(arguments)
    for accelerator in given.accelerator or ["vta", "gemmini", "npu", "output-stationary"]:
        print(f"{accelerator}\n{_HEAD}")
        for name in given.networks or NETWORKS:
            try:
                show(name, *measure(name, accelerator))
            except CyclopsError as error:
                print(f"{name:23} {error}", flush=True)


if __name__ == "__main__":
    main()
