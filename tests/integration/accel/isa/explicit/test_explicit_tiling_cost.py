"""What the planner is told that tilings cost, against what they take."""

import numpy as np
import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.explicit import tile_replay_kernel as kernel
from accel.isa.explicit.document_tiling_cost import tiling_cost
from accel.isa.explicit.hazards.accesses import HIGH, LOW, MEMORY, WRITES, ranges_of
from accel.isa.explicit.issue_order import arranged
from accel.isa.family_registry import family_of
from accel.lowering.kinds.contraction.convolution_tiling import plan_convolution
from accel.lowering.pipeline import lower_region, region_words
from accel.region.epilogue import Epilogue, Scaling
from accel.region.kinds import Region
from accel.region.shapes import Convolution, PackedActivation
from accel.util.arrays import Words

NONE, SAME = (0, 0, 0, 0), (1, 1, 1, 1)
EPILOGUES = {
    "vector": Epilogue((("add_tensor", 0), ("shift_right", 8), ("max", 0), ("min", 127))),
    "output-stationary": Epilogue((), start="bias", scaling=Scaling(0.01, -128, 127)),
    "mvin-mvout": Epilogue((), start="bias", result="int32"),
}
# blocks of data and their extents; groups, kernel, strides; blocks of the result and its extents
MATRIX = Convolution(PackedActivation.dense(1, 128, 1, 1), 8, (1, 1), (1, 1), (1, 1), NONE, 1, 1)
ROWS = Convolution(PackedActivation.dense(1, 27, 1, 128), 2, (1, 1), (1, 1), (1, 1), NONE, 1, 128)
GROUPS = Convolution(PackedActivation.dense(1, 4096, 1, 1), 8, (1, 1), (1, 1), (1, 1), NONE, 1, 1, groups=8)
# blocks of results lie farther apart than the store's 16 bits of bytes say: each is stored by itself
FAR = Convolution(PackedActivation.dense(1, 8, 1, 1100), 3, (1, 1), (1, 1), (1, 1), NONE, 1, 1100)
LAYERS = {
    "vector": {
        "3x3": Convolution(PackedActivation.dense(1, 64, 8, 8), 1, (3, 3), (1, 1), (1, 1), SAME, 8, 8),
        "3x3 by 2": Convolution(PackedActivation.dense(1, 32, 24, 24), 1, (3, 3), (2, 2), (1, 1), (0, 0, 1, 1), 12, 12),
        "1x1": Convolution(PackedActivation.dense(1, 64, 25, 5), 1, (1, 1), (1, 1), (1, 1), NONE, 25, 5),
        "matrix": MATRIX,
    },
    "output-stationary": {"rows": ROWS, "matrix": MATRIX, "groups": GROUPS, "far rows": FAR},
    "mvin-mvout": {"rows": ROWS, "matrix": MATRIX},
}


def words_of(target: Target, region: Region) -> Words:
    lowered = lower_region(region, target)
    assert lowered is not None
    return arranged(region_words(lowered, target.accelerator), target.accelerator)[0]


@pytest.mark.parametrize(("preset", "name"), [(preset, name) for preset in LAYERS for name in LAYERS[preset]])
def test_the_price_is_near_the_clock_and_the_cheapest_near_the_fastest(preset: str, name: str) -> None:
    target, layer, epilogue = Target(load_accelerator(preset)), LAYERS[preset][name], EPILOGUES[preset]
    priced = plan_convolution(layer, epilogue, target.accelerator, target.contraction, tiling_cost, 4)
    taken = []
    for option in priced:
        words = words_of(target, Region(layer, epilogue, option.tiling))
        taken.append(family_of(target.accelerator).time(decode(target.accelerator, words), {}).cycles)
        assert option.cycles == pytest.approx(taken[-1], rel=0.12), option.tiling
    assert taken[0] <= 1.02 * min(taken)


@pytest.mark.slow
def test_the_kernel_of_the_replay_stays_within_its_room() -> None:
    """Shapes at its ends: more steps of a tile and more tiles than are done, one tile, one piece of each."""
    candidates = np.zeros((4, kernel.COLUMNS), np.int64)
    candidates[:, kernel.OUT_BLOCKS], candidates[:, kernel.RESULT_CONTEXTS] = (1, 5, 64, 3), (2, 1, 2, 1)
    candidates[:, kernel.TILES], candidates[:, kernel.REDUCTIONS] = (1, 1000, 96, 7), (1, 50, 1, 3)
    candidates[:, kernel.DATA_STAY], candidates[:, kernel.WEIGHTS_STAY] = (1, 1, 12, 1), (1, 1, 1, 21)
    for kind in range(kernel.KINDS - 1):  # no store
        at = kernel.WORKS + kernel.EACH * kind
        candidates[:, at : at + kernel.EACH] = np.array([[1], [2], [900], [1]]) * (1, 160, 160, 16)
    found = np.zeros(4, np.int64)
    units, windows = np.array([0, 0, 0, 1, 1, 2, 3]), np.array([64, 1])
    kernel.replay.checked(candidates, np.arange(4), units, windows, kernel.new_room(), found)  # type: ignore[attr-defined]
    assert found[0] == 5 * 160  # one after the other


def test_a_region_alone_waits_for_no_address_of_another_tensor() -> None:
    target = Target(load_accelerator("output-stationary"))
    epilogue = EPILOGUES["output-stationary"]
    (option,) = plan_convolution(ROWS, epilogue, target.accelerator, target.contraction, tiling_cost)
    accesses = ranges_of(decode(target.accelerator, words_of(target, Region(ROWS, epilogue, option.tiling)))).table
    dram = accesses[accesses[:, MEMORY] == len(target.accelerator.memories)]
    stored, loaded = (dram[dram[:, WRITES] == writes] for writes in (1, 0))
    assert len(stored)
    assert len(loaded)
    apart = (loaded[:, LOW, np.newaxis] >= stored[:, HIGH]) | (loaded[:, HIGH, np.newaxis] <= stored[:, LOW])
    assert apart.all()
