"""Launches too large to be timed, against their own cycles: parts of them say these within a twentieth."""

import math
from dataclasses import replace

import onnx
import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.launch_estimate import launch_cycles
from accel.driver.trials.region_timer import RegionTimer
from accel.lowering.ir.function_attributes import region_functions, region_of
from accel.region.kinds import Region
from accel.region.shapes import Convolution
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.models.build_models import lower

LARGE, DENSE = Conv(64, 256, 28, 28), Dense(1, 512, 1024)


def tiles_of(region: Region) -> int:
    """Tiles of output channels, times tiles of rows."""
    conv, tiling = region.shape, region.tiling
    assert isinstance(conv, Convolution)
    return math.ceil(conv.out_blocks / tiling.out_blocks) * math.ceil(conv.out_height / tiling.out_rows)


def region_for(model: onnx.ModelProto, preset: str) -> tuple[Region, RegionTimer]:
    """The only region of a model, and what times it."""
    accelerator = load_accelerator(preset)
    (function,) = region_functions(lower(model, accelerator, "pack")).values()
    region = region_of(function)
    assert region is not None
    return region, RegionTimer(Target(accelerator))


@pytest.mark.parametrize(
    ("model", "preset"),
    [
        (conv_model(LARGE), "vta"),  # of several rows of tiles
        (conv_model(LARGE), "gemmini"),  # whose tiles take two times in turn
        pytest.param(dense_model(DENSE), "output-stationary", marks=pytest.mark.slow),
        pytest.param(dense_model(DENSE), "vta", marks=pytest.mark.slow),
        pytest.param(dense_model(DENSE), "gemmini", marks=pytest.mark.slow),
        pytest.param(conv_model(LARGE), "output-stationary", marks=pytest.mark.slow),
    ],
)
def test_a_few_tiles_tell_what_all_take(model: onnx.ModelProto, preset: str) -> None:
    """It would catch parts that are cut at other places, and a plan that counts large launches as nothing."""
    region, timer = region_for(model, preset)
    assert tiles_of(region) > 4
    whole = timer(region)
    asked: list[int] = []

    def small(part: Region) -> int | None:
        asked.append(tiles_of(part))
        return timer(part) if tiles_of(part) <= 4 else None

    assert launch_cycles(region, small) == pytest.approx(whole, rel=0.05)
    assert max(asked[1:]) < tiles_of(region)


def test_what_can_be_timed_is_and_what_cannot_in_any_part_has_no_cycles() -> None:
    region, timer = region_for(dense_model(DENSE), "vta")
    assert launch_cycles(region, timer) == timer(region)
    assert launch_cycles(region, lambda _: None) is None
    conv = region.shape
    assert isinstance(conv, Convolution)
    grouped = replace(region, shape=replace(conv, groups=2))
    assert launch_cycles(grouped, lambda part: None if part == grouped else 1) is None
