"""Attention in float32 over blocks of keys, beside what the planner makes of it otherwise: cycles and bytes of DRAM.

Each is compiled, simulated and verified both ways; `auto` is what the planner takes. By default on the document of
docs/machines.md, whose memory for floats holds 64 KiB.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Attention, Options
from accel.report.documents.report_documents import Report
from examples.attention import scores_to_context

DOCUMENT = Path(__file__).parents[1] / "docs" / "machines" / "float-array.yaml"
SHAPES = (
    (2, 24, 40, 16),
    (4, 128, 128, 32),
    (1, 256, 512, 32),
    (12, 128, 128, 64),
    (2, 512, 512, 64),
    (1, 64, 2048, 64),
    (4, 1, 1024, 64),
)
WAYS: tuple[Attention, ...] = ("unfused", "fused", "auto")


def main() -> None:
    """Print a row for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accelerator", type=Path, default=DOCUMENT)
    accelerator = parse_accelerator(parser.parse_args().accelerator.read_bytes())
    print("| heads, queries, keys, width | unfused cycles | fused | unfused bytes | fused | bound used | taken |")
    print("|---|---|---|---|---|---|---|")
    for shape in SHAPES:
        heads, queries, keys, width = shape
        causal = np.where(np.arange(keys) <= np.arange(queries)[:, None] + keys - queries, 0.0, -1e9)
        model = scores_to_context(*shape, mask=causal).SerializeToString()
        reports = {}
        for way in WAYS:
            with tempfile.TemporaryDirectory() as out:
                reports[way] = run_model(model, accelerator, Options(trace=False, attention=way), Path(out))
            assert reports[way].verified
        cycles = [f"{reports[way].cycles:,}" for way in WAYS[:2]]
        moved = [f"{_dram_bytes(reports[way]):,}" for way in WAYS[:2]]
        used = max(found.bound_used or 0.0 for found in reports["fused"].floats)
        taken = {placed.chosen for placed in reports["auto"].attention}
        cells = (f"{heads}, {queries}, {keys}, {width}", *cycles, *moved, f"{used:.1%}", "/".join(taken))
        print(f"| {' | '.join(cells)} |", flush=True)


def _dram_bytes(report: Report) -> int:
    assert report.dram is not None
    return report.dram.bytes_read + report.dram.bytes_written


if __name__ == "__main__":
    main()
