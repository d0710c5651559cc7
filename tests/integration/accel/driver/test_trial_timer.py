"""Trials of layers too large to be timed whole: parts of them behind caches, against the whole layer's cycles."""

import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.trials import trial_timer
from accel.driver.trials.region_timer import RegionTimer
from accel.driver.trials.trial_timer import TrialTimer
from accel.isa.gemmini.gemmini_family import GemminiFamily
from accel.lowering.ir.function_attributes import region_functions, region_of
from accel.region.kinds import AnyRegion
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.models.build_models import lower

LAYER = conv_model(Conv(64, 64, 64, 64))


def region_for(model: onnx.ModelProto, target: Target) -> AnyRegion:
    """The only region of a model."""
    (function,) = region_functions(lower(model, target.accelerator, "pack")).values()
    region = region_of(function)
    assert region is not None
    return region


@pytest.mark.slow
def test_parts_behind_caches_find_nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches parts that find all that they read in the L2, which of the whole layer has next to nothing."""
    target = Target(load_accelerator("gemmini-rocket"))
    region = region_for(LAYER, target)
    cold = GemminiFamily().cold(target.accelerator)
    assert isinstance(cold, Accelerator)
    (whole,) = RegionTimer(Target(cold), spare=1 << 20).times([region])
    assert whole is not None
    asked: list[AnyRegion] = []

    def noted(timer: RegionTimer, part: AnyRegion) -> int | None:
        asked.append(part)
        return timer.times([part])[0]

    monkeypatch.setattr(RegionTimer, "__call__", noted)
    monkeypatch.setattr(trial_timer, "_MOST_POINTS", 0)
    monkeypatch.setattr(trial_timer, "_MOST_OF_PART", 1 << 18)
    monkeypatch.setattr(trial_timer, "_UNSEEN", 1)
    (parts,) = TrialTimer(RegionTimer(target), target).times([region])
    assert parts == pytest.approx(whole, rel=0.05)
    assert asked
    assert region not in asked


def test_without_caches_regions_are_timed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches planning that grows by trials of parts where prices are as near as they."""
    monkeypatch.setattr(trial_timer, "_MOST_POINTS", 0)
    monkeypatch.setattr(RegionTimer, "times", lambda _timer, regions, _ahead=(): [7 for _ in regions])
    target = Target(load_accelerator("gemmini"))
    assert GemminiFamily().cold(target.accelerator) is None
    region = region_for(conv_model(Conv(16, 16, 8, 8)), target)
    assert TrialTimer(RegionTimer(target), target).times([region]) == [7]


def test_where_parts_say_nothing_larger_regions_are_timed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of half the L2 left the price to decide: 128 rows of BERT's 768 to 3072 took 1.25 times the library's."""
    monkeypatch.setattr(trial_timer, "_MOST_POINTS", 0)
    target = Target(load_accelerator("gemmini-rocket"))
    region = region_for(dense_model(Dense(16, 1024, 512)), target)
    monkeypatch.setattr(RegionTimer, "times", lambda _timer, regions, _ahead=(): [7 for _ in regions])
    assert TrialTimer(RegionTimer(target), target).times([region]) == [7]
    monkeypatch.setattr(trial_timer, "_MOST_WITHOUT_PARTS", 0)
    assert TrialTimer(RegionTimer(target), target).times([region]) == [None]
