"""What is said of Gemmini's cycles: the two designs that were recorded, and no other."""

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.family_registry import family_of
from accel.isa.gemmini.timing.gemmini_calibration import RUNS
from accel.isa.recorded.recordings import read_recordings
from tests.helpers.programs.gemmini_vectors import FOLDER, needs_gemmini_golden


def model_of(name, **parameters):
    accelerator = load_accelerator(name)
    changed = accelerator.model_copy(update={"parameters": accelerator.parameters | parameters})
    return family_of(changed).timing_model(changed)


@pytest.mark.parametrize(("name", "design"), [("gemmini", "16x16"), ("gemmini-8", "8x8")])
def test_the_recorded_designs_are_exact(name, design):
    for model in (model_of(name), model_of(name, memory_latency=80), model_of(name, relu_before_scale=False)):
        assert model.calibrated
        assert model.exact == model.of == RUNS[design]
        assert model.worst_percent == 0
        assert f"{RUNS[design]} recorded runs of a {design} design" in model.statement


@needs_gemmini_golden
@pytest.mark.parametrize(("design", "folder"), [("16x16", "rtl"), ("8x8", "rtl_8x8")])
def test_as_many_runs_are_claimed_as_there_are(design, folder):
    recordings = read_recordings(FOLDER / folder)
    assert RUNS[design] == len(recordings.streams) * len(recordings.latencies)


@pytest.mark.parametrize(
    ("name", "parameters", "outside"),
    [
        ("gemmini", {"stores_in_order": True}, ["stores_in_order True, compared False"]),
        ("gemmini-8", {"requests_in_flight": 16}, ["requests_in_flight 16, compared 8"]),
        (
            "gemmini",
            {"core": {"issue_cycles": 50}},
            ["core {'issue_cycles': 50, 'loop_cycles': 0, 'start_cycles': 0}, compared None"],
        ),
        ("gemmini-2025", {}, ["stores_in_order True, compared False"]),
    ],
)
def test_others_are_told_what_differs(name, parameters, outside):
    model = model_of(name, **parameters)
    assert not model.calibrated
    assert (model.exact, model.of, model.worst_percent) == (0, 0, None)
    assert model.outside == outside
    assert model.statement.startswith(f"not compared with any hardware: {outside[0]}")


def test_the_lean_preset_was_compared_with_an_fpga():
    model = model_of("gemmini-lean")
    assert (model.calibrated, model.exact, model.of, model.worst_percent) == (True, 0, 4, 7.7)
    assert not model_of("gemmini-lean", memory_latency=30).calibrated


def test_the_rocket_preset_says_how_near_it_is_to_what_it_was_not_fitted_to():
    model = model_of("gemmini-rocket")
    assert (model.calibrated, model.exact, model.of) == (True, 0, 74)
    assert "over 74 layers measured on FireSim that it was not fitted to" in model.statement
    assert not model_of("gemmini-rocket", memory=None).calibrated
