"""Prices of tilings on VTA, against what the clock says of what the compiler makes of them."""

import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.family_registry import family_of
from accel.lowering.kinds.contraction.convolution_tiling import PricedTiling, plan_convolution
from accel.lowering.pipeline import lower_region, region_words
from accel.region.epilogue import Epilogue
from accel.region.kinds import Region
from accel.region.shapes import Convolution, PackedActivation
from tests.helpers.marking import rotated

NONE, SAME = (0, 0, 0, 0), (1, 1, 1, 1)
BIAS = Epilogue((("add_tensor", 0), ("shift_right", 8), ("max", 0), ("min", 127)))
PRODUCT = Epilogue((("add_product", 0), ("shift_right", 8), ("max", 0), ("min", 127)))
# blocks of data and their extents; groups, kernel, strides; blocks of the result and its extents
LAYERS = {
    "3x3": Convolution(PackedActivation.dense(1, 2, 16, 16), 2, (3, 3), (1, 1), (1, 1), SAME, 16, 16),
    "1x1": Convolution(PackedActivation.dense(1, 4, 25, 5), 4, (1, 1), (1, 1), (1, 1), NONE, 25, 5),
    "3x3 by 2": Convolution(PackedActivation.dense(1, 1, 32, 32), 2, (3, 3), (2, 2), (1, 1), (0, 0, 1, 1), 16, 16),
    "depthwise": Convolution(PackedActivation.dense(1, 6, 14, 14), 6, (3, 3), (1, 1), (1, 1), SAME, 14, 14, groups=6),
    "few pixels": Convolution(PackedActivation.dense(1, 4, 6, 6), 8, (1, 1), (1, 1), (1, 1), NONE, 6, 6),
    "matrix": Convolution(PackedActivation.dense(1, 8, 1, 1), 8, (1, 1), (1, 1), (1, 1), NONE, 1, 1),
}


def cycles(target: Target, layer: Convolution, epilogue: Epilogue, option: PricedTiling) -> int:
    lowered = lower_region(Region(layer, epilogue, option.tiling), target)
    assert lowered is not None
    words = region_words(lowered, target.accelerator)
    return family_of(target.accelerator).time(decode(target.accelerator, words), {}).cycles


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset"), rotated(LAYERS, ["vta", "vta-32", "vta-ultra96"]))
def test_the_price_is_near_the_clock_and_the_cheapest_near_the_fastest(name: str, preset: str) -> None:
    target, layer = Target(load_accelerator(preset)), LAYERS[name]
    price = family_of(target.accelerator).tiling_cost
    tried = [
        (option.cycles, cycles(target, layer, epilogue, option))
        for epilogue in (BIAS, PRODUCT)
        for option in plan_convolution(layer, epilogue, target.accelerator, target.contraction, price, 6)
    ]
    for expected, taken in tried:
        assert expected == pytest.approx(taken, rel=0.15)
    assert min(tried)[1] <= 1.04 * min(taken for _, taken in tried)
