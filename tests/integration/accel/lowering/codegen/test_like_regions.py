"""Regions made of like ones by their numbers, against the stages run with these numbers."""

from dataclasses import replace
from functools import partial

import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.codegen.like_regions import LikeRegions
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.codegen.region_object import dump_object
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.pipeline import lower_region
from accel.region.kinds import VectorRegion
from accel.region.vector_program import VectorProgram, VectorTensor

NPU = Target(load_accelerator("npu"))


def program(scale: float, offset: float) -> VectorRegion:
    """``y = x * scale + offset`` of 64 floats."""
    tensors = tuple(VectorTensor(name, "float32", (0,), memory) for name, memory in (("x", ""), ("y", ""), ("b", "v")))
    said = ("b[a0] = x[a0]", f"b[a0] = b[a0] * {scale!r}", f"b[a0] = b[a0] + {offset!r}", "y[a0] = b[a0]")
    return VectorRegion(VectorProgram((64,), (64,), tensors, 1, said, 1))


def compiled(region: VectorRegion) -> LoweredRegion:
    """A region that went through the stages."""
    made = lower_region(region, NPU)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def like() -> LikeRegions:
    """One region is known: of 0.3 and 0.7."""
    known = LikeRegions(NPU)
    first = program(0.3, 0.7)
    known.add(dump_region(first), partial(compiled, first))
    return known


def test_words_and_texts_are_those_of_the_stages(like: LikeRegions) -> None:
    """Would catch a number that is left, or put into another field, a text of the other region, or another spelling."""
    other = program(0.017, 1e3 / 7)
    found, made = like.find(dump_region(other)), compiled(other)
    assert found is not None
    assert dump_object(found.made) == dump_object(made.made)
    assert {name: stage.text() for name, stage in found.stages.items()} == {
        name: stage.text() for name, stage in made.stages.items()
    }


@pytest.mark.parametrize(
    ("scale", "offset"),
    [(1.0, 0.7), (0.25, 0.7), (0.3, 0.0), (-0.3, 0.7), (0.9, 0.9), (1.0000000001, 0.7)],
    ids=["one", "power of two", "zero", "sign", "equal numbers", "one as a float32"],
)
def test_numbers_that_arithmetic_knows_are_lowered(like: LikeRegions, scale: float, offset: float) -> None:
    """Would catch a program that is taken for one which is simplified, or done by other instructions."""
    assert like.find(dump_region(program(scale, offset))) is None


def test_a_number_that_is_nowhere_in_the_words_is_not_replaced() -> None:
    """Would catch what lowering made of a number other than that number: then nothing stands for it."""
    known, first = LikeRegions(NPU), program(0.3, 0.7)
    known.add(dump_region(first), partial(compiled, program(0.3, 0.6)))
    assert known.find(dump_region(program(0.3, 0.8))) is None
    shape = replace(first.shape, extents=(128,), tile=(128,))
    assert known.find(dump_region(replace(first, shape=shape))) is None
