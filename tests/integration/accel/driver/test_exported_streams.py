"""Streams for a harness: each, read as recordings of hardware are, runs alone to the same bytes in the same cycles."""

import json
from pathlib import Path

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.exported_streams import ExportOptions, export_streams
from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.errors import InvalidProgram
from accel.isa.recorded.recordings import read_recordings
from accel.program.program_model import Program
from accel.program_files.open_program import open_program
from accel.simulate.engine import simulate
from tests.helpers.models.build_models import build
from tests.helpers.programs.program_parts import joined, write_parts
from tests.integration.accel.lowering.codegen.test_region_objects import two_layers
from tests.reference.host import draw_inputs


def compiled(accelerator: Accelerator) -> tuple[Program, dict[str, np.ndarray]]:
    model = two_layers()
    program = build(model, accelerator)
    return program, dict(zip(program.inputs, draw_inputs(model).values(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "base"), [("gemmini", 0x80000000), ("vta", 0x100000)])
def test_each_stream_runs_alone(name: str, base: int, tmp_path: Path) -> None:
    """Moved addresses, pages and the configuration in front would each show in bytes or in cycles."""
    accelerator = load_accelerator(name)
    program, inputs = compiled(accelerator)
    latency, folder = accelerator.dram.read_latency, tmp_path / "streams"
    assert export_streams(program, inputs, ExportOptions((latency, 50), base), folder) == 2
    together = simulate(program, inputs)
    recordings = read_recordings(folder)
    assert recordings.latencies == tuple(sorted((latency, 50)))
    for number, stream in enumerate(recordings.streams):
        entry = json.loads((folder / "index.json").read_text())[number]
        run = np.load(folder / entry["run"])
        size = int(run["page_bytes"])
        before, after = (joined(run[f"{kind}_idx"], run[f"{kind}_pages"], size) for kind in ("pre", "post"))
        np.testing.assert_array_equal(run["insn"].view(np.uint64), stream.words)
        parts = write_parts(tmp_path / str(number), stream.words, before, after, accelerator=name)
        report = run_program(open_program(parts), SimulateOptions(), None)
        assert report.verified
        assert report.cycles == stream.cycles[latency]
        timing, sent = together.launches[number].timing, entry["configuration"]
        assert timing is not None
        assert timing.cycles <= stream.cycles[latency] <= timing.cycles + 20 * sent
        assert after
        assert min(before) >= base


def test_what_lies_at_its_own_place_is_not_moved(tmp_path: Path) -> None:
    accelerator = load_accelerator("gemmini")
    mvin = np.array([[2, 1 << 40, 16 << 48 | 16 << 32]], np.uint64)
    parts = write_parts(tmp_path / "parts", mvin, {1 << 40: bytes(256)}, {}, accelerator=accelerator.name)
    with pytest.raises(InvalidProgram, match="lies where it lies"):
        export_streams(open_program(parts), {}, ExportOptions((30,)), tmp_path / "streams")
