"""What of Gemmini's cycles was measured: what the four streams send, and no more."""

import numpy as np

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.family_registry import family_of
from accel.isa.gemmini.timing import gemmini_calibration
from accel.program.program_model import Launch
from examples.single import Dense, dense_model
from tests.helpers.models.build_models import build
from tests.helpers.programs.gemmini_vectors import needs_gemmini_golden, trace

LEAN = load_accelerator("gemmini-lean")
STREAMS = ("tiled_matmul_ws", "tiled_matmul_ws_perf", "conv_perf", "conv_dw_perf")


@needs_gemmini_golden
def test_the_streams_send_what_the_table_says() -> None:
    assert {int(funct) for name in STREAMS for funct in np.unique(trace(name)[:, 0])} == gemmini_calibration.MEASURED


def test_a_program_that_sends_something_else_is_told() -> None:
    program = build(dense_model(Dense(5, 70, 33)), LEAN)
    launches = [step for step in program.steps if isinstance(step, Launch)]
    words = [program.words[launch.begin : launch.begin + launch.count] for launch in launches]
    model = family_of(LEAN).timing_model(LEAN, [decode(LEAN, each) for each in words])
    assert not model.calibrated
    assert (model.exact, model.of, model.worst_percent) == (0, 0, None)
    (told,) = model.outside
    assert "sends mvin, mvin3, mvout, preload, compute_preloaded by themselves" in told
    assert model.statement.startswith(f"modelled: {told}. Those are within 10%")
    assert family_of(LEAN).timing_model(LEAN).calibrated
