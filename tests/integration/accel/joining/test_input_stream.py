"""Streams of inputs: what each further one adds, in the order that the accelerator itself keeps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import CompiledTooLarge
from accel.isa.family_registry import family_of
from accel.joining.input_stream import stream_program
from accel.program.program_model import Launch, Program
from accel.program_files.program_container import load_program
from accel.report.documents.report_documents import Report
from accel.simulate.engine import simulate
from tests.helpers.marking import rest_all
from tests.helpers.programs.race_checks import assert_ordered
from tests.integration.accel.joining.test_machines_with_tokens import three_layers

INPUTS = 3


def ran(accelerator: Accelerator, folder: Path, **options: object) -> Report:
    folder.mkdir()
    made = Options.model_validate({"trace": False, "schedule": "quick", **options})
    return run_model(three_layers(), accelerator, made, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_all(["vta", "gemmini", "npu"], keep=1))
def test_inputs_follow_one_another_in_no_more_cycles_than_apart(name: str, tmp_path: Path) -> None:
    """Catches an interval that is a latency, inputs that are left out, and a run by itself that a stream changes."""
    accelerator = load_accelerator(name)
    alone = ran(accelerator, tmp_path / "alone")
    joined = ran(accelerator, tmp_path / "joined", repeat=INPUTS)
    apart = ran(accelerator, tmp_path / "apart", repeat=INPUTS, launches="separate")
    assert alone.stream is None
    assert "stream" not in alone.model_dump()
    assert "repeat" not in alone.provenance.options
    assert joined.provenance.options["repeat"] == INPUTS
    assert joined.verified
    assert joined.layers == alone.layers
    for file in ("program.zip", "outputs.npz"):
        assert (tmp_path / "alone" / file).read_bytes() == (tmp_path / "joined" / file).read_bytes()
    one, other = joined.stream, apart.stream
    assert one is not None
    assert other is not None
    assert one.joined
    assert not other.joined
    assert other.accelerator_cycles == INPUTS * apart.cycles
    assert other.accelerator_latency == other.accelerator_interval == apart.cycles
    assert one.accelerator_cycles <= INPUTS * alone.cycles + (INPUTS if name == "gemmini" else 0)  # a fence each
    assert alone.end_to_end is not None
    beside = alone.end_to_end.cycles - alone.cycles
    assert one.latency_cycles == one.accelerator_latency + beside
    assert one.interval_cycles == max(one.accelerator_interval, beside)


@pytest.mark.slow
def test_inputs_are_ordered_as_layers_are(tmp_path: Path) -> None:
    """Catches stores of one input into buffers that the one before still reads, by a check of its own."""
    accelerator = load_accelerator("vta")
    ran(accelerator, tmp_path / "apart", launches="separate")
    program = load_program(tmp_path / "apart" / "program.zip")
    stream = stream_program(program, 2, family_of(accelerator), join=True)
    assert len({step.begin for step in launches_of(stream)}) == 2 * len(launches_of(program))
    assert sum(not step.joined for step in launches_of(stream)) == 1
    assert_ordered(stream)


def launches_of(program: Program) -> list[Launch]:
    return [step for step in program.steps if isinstance(step, Launch)]


@pytest.mark.all
@pytest.mark.slow
def test_a_fence_of_a_gemminis_stream_is_needed(tmp_path: Path) -> None:
    accelerator = load_accelerator("gemmini")
    ran(accelerator, tmp_path / "apart", launches="separate")
    program = load_program(tmp_path / "apart" / "program.zip")
    stream = stream_program(program, 2, family_of(accelerator), join=True)
    for fence in np.flatnonzero(stream.words[:, 0] == 127).tolist():
        words = stream.words.copy()
        words[fence, 0] = 126
        assert simulate(replace(stream, words=words), {}, timing=False).hazards.races


def test_a_stream_of_too_many_instructions_is_refused() -> None:
    vta = load_accelerator("vta")
    words = np.zeros((1 << 20, 2), np.uint64)
    program = Program(vta, {}, {}, (), (), (), words, np.zeros(len(words), np.int32), (), 0)
    stream_program(program, 16, family_of(vta), join=True)
    with pytest.raises(CompiledTooLarge, match="16777216") as refused:
        stream_program(program, 17, family_of(vta), join=True)
    assert refused.value.field == "options.repeat"
