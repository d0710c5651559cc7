"""The ways that are taken of regions which are priced alike."""

from collections.abc import Sequence

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.ir.function_attributes import without_numbers
from accel.lowering.movement.region_prices import RegionPrices
from accel.region.affine_view import AffineView
from accel.region.kinds import AnyRegion, VectorRegion
from accel.region.vector_program import UNIT, VectorProgram, VectorTensor

AT = "[a0, a1, a2]"
PROGRAM = VectorProgram(
    extents=(64, 16, 16),
    tile=(22, 16, 16),
    tensors=(
        VectorTensor("x", "float32", (UNIT, 0, 1, 2)),
        VectorTensor("y", "int8", (UNIT, 0, 1, 2)),
        VectorTensor("b0", "float32", (0, 1, 2), "v"),
    ),
    results=1,
    statements=(f"b0{AT} = x{AT}", f"b0{AT} = b0{AT} / 0.5", f"y{AT} = i8(max(min(rint(b0{AT}), 127.0), -128.0))"),
    contexts=3,
)
IN_BLOCKS = AffineView(  # two of 32 channels, one behind the other: as dense as no view at all
    atoms=((), (2, 32), (16,), (16,)),
    shape=(1, 1, 2, 8192),
    first=(0, 0, 0, 0),
    steps=((0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0), (0, 256, 16, 1)),
)


def test_a_region_that_is_priced_as_another_has_its_own_ways() -> None:
    """Would catch the third way of a region with blocks taken of one without, which has none: a crash in networks."""

    def split_is_faster(regions: Sequence[AnyRegion]) -> list[int | None]:
        return [1 if isinstance(each, VectorRegion) and len(each.shape.extents) > 3 else 1000 for each in regions]

    prices = RegionPrices(Target(load_accelerator("npu")), split_is_faster)
    blocks, plain = VectorRegion(PROGRAM, (IN_BLOCKS,)), VectorRegion(PROGRAM)
    assert without_numbers(blocks) == without_numbers(plain)
    prices.foresee([blocks, plain])
    assert len(prices.as_settled(blocks).shape.extents) > len(PROGRAM.extents)
    assert prices.as_settled(plain).shape.extents == PROGRAM.extents
