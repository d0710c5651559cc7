"""Prices of tilings on Gemmini, against what the compiler makes of them and the clock says."""

from pathlib import Path

import numpy as np
import pytest

from accel.accelerator.target import Target
from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.decode import decode
from accel.isa.family_registry import arrangement_of, family_of
from accel.lowering.kinds.contraction.convolution_tiling import plan_convolution
from accel.lowering.pipeline import lower_region, region_words
from accel.region.epilogue import Epilogue, Scaling
from accel.region.kinds import Region
from accel.region.shapes import Convolution, PackedActivation
from accel.region.tilings import Tiling, candidates_of_tiles
from tests.helpers.marking import rest_slow
from tests.integration.accel.lowering.partition.test_residual import block

NONE = (0, 0, 0, 0)
# blocks of data and their extents; groups, kernel, strides; blocks of the result and its extents
LAYERS = {
    "3x3": Convolution(PackedActivation.dense(1, 2, 18, 18), 2, (3, 3), (1, 1), (1, 1), NONE, 16, 16),
    "1x1": Convolution(PackedActivation.dense(1, 8, 14, 14), 4, (1, 1), (1, 1), (1, 1), NONE, 14, 14),
    "3x3 by 2": Convolution(PackedActivation.dense(1, 2, 33, 33), 4, (3, 3), (2, 2), (1, 1), NONE, 16, 16),
    "depthwise": Convolution(PackedActivation.dense(1, 4, 27, 7), 4, (3, 3), (1, 1), (1, 1), NONE, 25, 5, groups=4),
    "whole lines": Convolution(PackedActivation.dense(1, 4, 26, 26), 4, (3, 3), (1, 1), (1, 1), NONE, 24, 24, groups=4),
    "a block": Convolution(PackedActivation.dense(1, 2, 48, 48), 1, (1, 1), (1, 1), (1, 1), NONE, 48, 48),
    "matrix": Convolution(PackedActivation.dense(1, 8, 1, 1), 8, (1, 1), (1, 1), (1, 1), NONE, 1, 1),
}
LINE = Convolution(PackedActivation.dense(1, 2, 1, 4), 1, (1, 1), (1, 1), (1, 1), NONE, 1, 4)
BALANCED = Convolution(PackedActivation.dense(1, 15, 14, 14), 5, (1, 1), (1, 1), (1, 1), NONE, 14, 14)
EPILOGUE = Epilogue((), start="bias", scaling=Scaling(0.01, -128, 127))


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        *((name, "gemmini") for name in LAYERS if name != "whole lines"),
        ("whole lines", "gemmini-8"),
        ("a block", "gemmini-rocket"),
    ],
)
def test_the_price_is_near_the_clock(name: str, preset: str) -> None:
    """Of tilings that are worth a thought; where hundreds of small steps wait for each other it is off by more.

    ``gemmini-8`` has one bank of accumulators, in which biases wait for stores; on ``gemmini-rocket`` rows of one block
    wait in the L2 for those before in their line, which is four times as long, unless tiles are columns.
    """
    layer, target = LAYERS[name], Target(load_accelerator(preset))
    accelerator, arranged, family = (
        target.accelerator,
        arrangement_of(target.accelerator),
        family_of(target.accelerator),
    )
    assert arranged is not None
    priced = plan_convolution(layer, EPILOGUE, accelerator, target.contraction, family.tiling_cost, 40)
    worth = [option for option in priced if option.cycles < 1.5 * priced[0].cycles]
    for option in worth[:: max(1, len(worth) // 4)]:
        lowered = lower_region(Region(layer, EPILOGUE, option.tiling), target)
        assert lowered is not None
        words = region_words(lowered, accelerator)
        cycles = family.time(decode(accelerator, arranged(words)[0]), {}).cycles
        assert option.cycles == pytest.approx(cycles, rel=0.2), option.tiling


def test_sums_of_a_short_launch_count_their_constants() -> None:
    """Their loads come before all else: a bias that is loaded takes 265 cycles there, one that is summed 317."""
    layer, target = LINE, Target(load_accelerator("gemmini"))
    scaling, cost = EPILOGUE.scaling, family_of(target.accelerator).tiling_cost
    summed = Epilogue((("add_product", 0),), start="zero", scaling=scaling)
    prices = [
        plan_convolution(layer, each, target.accelerator, target.contraction, cost)[0].cycles
        for each in (EPILOGUE, summed)
    ]
    assert prices[0] < prices[1]
    assert prices == pytest.approx([265, 317], rel=0.35)


def test_weights_that_stay_are_loaded_beside_the_products_of_two_tiles() -> None:
    """Of four tiles of pixels for each group of weights: those of the next wait for the last but one to be done.

    Without it the price was the products' alone, a tenth less than the clock here, and a quarter of larger layers.
    """
    layer = Convolution(PackedActivation.dense(1, 24, 1, 64), 24, (1, 1), (1, 1), (1, 1), NONE, 1, 64)
    epilogue, target = Epilogue((), start="zero", scaling=EPILOGUE.scaling), Target(load_accelerator("gemmini-rocket"))
    accelerator, family, arranged = (
        target.accelerator,
        family_of(target.accelerator),
        arrangement_of(target.accelerator),
    )
    assert arranged is not None
    extents = [np.array([each]) for each in (3, 1, 16, 24, 1, 1)]
    candidates = candidates_of_tiles(layer, extents, "weights", 2, 2)
    price = family.tiling_cost(candidates, layer, epilogue, target.contraction, accelerator)[0]
    lowered = lower_region(Region(layer, epilogue, Tiling(3, 1, 16, 24, 1, 1, "weights", 2, 2, 1, 64)), target)
    assert lowered is not None
    cycles = family.time(decode(accelerator, arranged(region_words(lowered, accelerator))[0]), {}).cycles
    assert price == pytest.approx(cycles, rel=0.07)


@pytest.mark.slow
def test_of_tilings_whose_loads_take_as_long_as_products_a_fast_one_is_the_cheapest() -> None:
    """A price of the slowest alone took five blocks of results with weights for each step: 35% slower than others."""
    layer, target = BALANCED, Target(load_accelerator("gemmini"))
    accelerator, family = target.accelerator, family_of(target.accelerator)
    arranged = arrangement_of(accelerator)
    assert arranged is not None
    taken = []
    for option in plan_convolution(layer, EPILOGUE, accelerator, target.contraction, family.tiling_cost, 4):
        lowered = lower_region(Region(layer, EPILOGUE, option.tiling), target)
        assert lowered is not None
        words = region_words(lowered, accelerator)
        taken.append(family.time(decode(accelerator, arranged(words)[0]), {}).cycles)
    assert taken[0] < 18_000  # the fastest that is known takes 17,592
    assert taken[0] <= 1.03 * min(taken)


@pytest.mark.parametrize("latency", rest_slow([90, 60]))
def test_loops_are_priced_for_the_latency_of_their_document(latency: int, tmp_path: Path) -> None:
    """Catches a document whose loops cost what those of the machine did that it was derived from."""
    accelerator = derive_accelerator(load_accelerator("gemmini"), {"memory_latency": latency})
    model = block((1, 16, 32, 32), 3).SerializeToString()
    cycles = {}
    for schedule in ("quick", "timed"):
        options = Options.model_validate({"schedule": schedule, "trace": False})
        (tmp_path / schedule).mkdir()
        cycles[schedule] = run_model(model, accelerator, options, tmp_path / schedule).cycles
    assert cycles["quick"] <= 1.2 * cycles["timed"]
