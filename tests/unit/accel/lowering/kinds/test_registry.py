"""Kinds of regions: each shape has one, is written and read as itself, and the most telling refusal is given."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tvm import tirx

from accel.lowering.ir.function_attributes import REGION, dump_region, region_of
from accel.lowering.kinds import registry
from accel.lowering.kinds.region_kind import Refusal
from accel.region.elementwise import Elementwise
from accel.region.epilogue import Epilogue, Scaling
from accel.region.kinds import SHAPES, Region
from accel.region.pooling import Pooling
from accel.region.row_layer_norm import IntegerLayerNorm, RowLayerNorm
from accel.region.row_softmax import IntegerSoftmax, RowSoftmax
from accel.region.shapes import Addition, Convolution, PackedActivation, RegionShape, SlidingWindow
from accel.region.tilings import Tiling

DATA = PackedActivation.dense(2, 3, 8, 9)
WINDOW = SlidingWindow((2, 2), (2, 2), (1, 1), (0, 0, 0, 0))
REGIONS: dict[RegionShape, tuple[int, int, int, int]] = {
    Convolution(DATA, 5, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 8, 9, unfolded=WINDOW, addend=DATA): (2, 5, 8, 9),
    Addition((DATA, DATA), ((1, 2), (3, 4))): (2, 3, 8, 9),
    Pooling(DATA, WINDOW, 4, 4, direct=True): (2, 3, 4, 4),
    Elementwise((DATA, DATA), (1, 2), "max", direct=False): (2, 3, 8, 9),
    RowSoftmax(DATA, 40, 4, IntegerSoftmax(3, 40, 1638, 78, 3200, 2)): (2, 3, 8, 9),
    RowLayerNorm(DATA, 40, 4, IntegerLayerNorm(224, 7)): (2, 3, 8, 9),
}


def region(shape: RegionShape) -> Region:
    """A region whose tiles are of three rows and four columns."""
    tiling = Tiling(1, 3, 4, 1, 1, 1, "stream", 2, 2, 9, 12)
    return Region(shape, Epilogue((("add_tensor", 0),), scaling=Scaling(1e-7, -1, 2)), tiling, "a reason")


def test_every_shape_has_one_kind() -> None:
    assert {kind.shape for kind in registry.KINDS} == set(SHAPES)
    assert len(registry.KINDS) == len(SHAPES) == len({shape.kind for shape in SHAPES})
    assert [type(shape) for shape in REGIONS] == list(SHAPES)


@pytest.mark.parametrize("shape", REGIONS, ids=lambda shape: shape.kind)
def test_regions_are_read_as_they_were_written(shape: RegionShape) -> None:
    for one in (region(shape), replace(region(shape), border=(1, 2, 3, 4))):
        function = tirx.PrimFunc([], tirx.Evaluate(0)).with_attr(REGION, dump_region(one))
        assert region_of(function) == one
    assert dump_region(one) != dump_region(region(shape)), "programs that are kept differ"
    assert region_of(tirx.PrimFunc([], tirx.Evaluate(0))) is None
    assert registry.kind_of(region(shape)).shape is type(shape)


@pytest.mark.parametrize(("shape", "size"), REGIONS.items(), ids=lambda shape: getattr(shape, "kind", ""))
def test_results_lie_in_whole_tiles(shape: RegionShape, size: tuple[int, int, int, int]) -> None:
    one = region(shape)
    assert one.result == PackedActivation(*size, pitch_h=9, pitch_w=12)
    within = replace(one, border=(1, 2, 3, 4)).result
    assert within == PackedActivation(*size, pitch_h=1 + 9 + 3, pitch_w=2 + 12 + 4, top=1, left=2)
    batch, blocks, height, width = size
    assert one.tiles == batch * blocks * -(-height // 3) * -(-width // 4)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([Refusal("the first"), Refusal("the second")], "the first"),
        ([Refusal("the first", defers=True), Refusal("the second")], "the second"),
        ([Refusal("the first"), ["an option"]], ["an option"]),
    ],
)
def test_the_first_refusal_counts_unless_it_defers(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], found: Any
) -> None:
    kinds = [SimpleNamespace(operators={"add"}, plan=lambda _, answer=answer: answer) for answer in answers]
    other = SimpleNamespace(operators={"dense"}, plan=lambda _: ["of another operator"])
    monkeypatch.setattr(registry, "KINDS", (other, *kinds))
    request: Any = SimpleNamespace(composite=SimpleNamespace(op="add"))
    assert registry.plan_region(request) == found
