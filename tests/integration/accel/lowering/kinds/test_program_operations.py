"""Vector programs that take the same cycles, by the operations that do their statements."""

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CompileError
from accel.lowering.kinds.program_operations import ProgramOperations
from accel.lowering.pipeline import lower_region, region_words
from accel.region.kinds import VectorRegion
from accel.region.vector_program import VectorProgram, VectorTensor

NPU = load_accelerator("npu")
NARROWED = ("i8({})", "i8(clip({}, -128, 127))", "i8(clip(rint({}), -128, 127))")
ROUND = 0x300  # the two bits of word 0 that choose how store_v8 narrows


def program(*statements: str, result: str = "int8") -> VectorProgram:
    """A program of 64 elements, which are int8 in DRAM where they come from."""
    chip = (VectorTensor("b", "float32", (0,), "v"), VectorTensor("c", "float32", (0,), "v"))
    dram = (VectorTensor("x", "int8", (0,)), VectorTensor("y", result, (0,)))
    return VectorProgram((64,), (64,), (*dram, *chip), 1, ("b[a0] = f32(x[a0])", *statements), 1)


def test_programs_that_are_done_alike_are_the_same_instructions() -> None:
    """Would catch programs that are priced as one, though another instruction does a statement, or in other steps."""
    target, words = Target(NPU), []
    programs = [program(f"y[a0] = {narrowed.format('b[a0]')}") for narrowed in NARROWED]
    assert len({target.derived(ProgramOperations).done_alike(each) for each in programs}) == 1
    for each in programs:
        lowered = lower_region(VectorRegion(each), target)
        assert lowered is not None
        words.append(region_words(lowered, NPU).copy())
        words[-1][:, 0] &= ~np.uint64(ROUND)
    assert all(np.array_equal(words[0], other) for other in words[1:])


def test_an_operation_of_another_cost_is_not_done_alike() -> None:
    """Would catch a cost that names the field which chooses the operation."""
    stated = NPU.model_dump(mode="json", exclude_unset=True)
    store = next(each for each in stated["instructions"] if each["name"] == "store_v8")
    store["cycles"] += " + 8 * round"
    operations = ProgramOperations(Target(Accelerator.model_validate(stated)))
    programs = [program(f"y[a0] = {narrowed.format('b[a0]')}") for narrowed in NARROWED]
    assert len({operations.done_alike(each) for each in programs}) == len(NARROWED)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("c[a0] = b[a0] + 3.0", "c[a0] = exp(b[a0])"),
        ("c[a0] = b[a0] + b[a0]", "c[a0] = b[a0] + 3.0"),
        ("c[a0] = b[a0] + 3.0", "b[a0] = b[a0] + 3.0"),
        ("b[a0] = b[a0] + 3.0", "b[a0] = b[a0]"),
    ],
    ids=["another instruction", "another operand", "another target", "nothing"],
)
def test_other_work_is_not_done_alike(one: str, other: str) -> None:
    """Would catch a program that is given the price of another one."""
    operations, store = ProgramOperations(Target(NPU)), "y[a0] = i8(b[a0])"
    assert operations.done_alike(program(one, store)) != operations.done_alike(program(other, store))
    assert operations.done_alike(program(one, store)) == operations.done_alike(
        program(one.replace("3.0", "0.7").replace("+ b", "* b"), store)
    )


def test_what_no_operation_does_is_refused_by_its_statement() -> None:
    """Would catch a program that is lowered without an instruction."""
    lacking = program("y[a0] = b[a0] - 1.0", result="float32")
    with pytest.raises(CompileError, match=r"no instruction does y\[a0\] = b\[a0\] - 1\.0"):
        ProgramOperations(Target(NPU)).first(lacking.parsed[-1], lacking)
