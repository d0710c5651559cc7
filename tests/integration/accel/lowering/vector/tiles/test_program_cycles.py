"""Estimated cycles of vector programs against the clock, and against their bounds."""

from dataclasses import replace

import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.isa.decode import decode
from accel.isa.family_registry import arrangement_of, family_of
from accel.lowering.pipeline import lower_region, region_words
from accel.lowering.vector.tiles.program_bounds import program_bound
from accel.lowering.vector.tiles.program_buffers import loads_together
from accel.lowering.vector.tiles.program_cycles import ProgramCycles
from accel.lowering.vector.tiles.program_tiles import BestTiles
from accel.region.kinds import VectorRegion
from accel.region.vector_program import VectorProgram, VectorTensor
from tests.helpers.documents.random_vector_machines import random_vector_machine


@pytest.fixture(scope="module")
def npu() -> Target:
    return Target(load_accelerator("npu"))


def softmax(rows: int, columns: int) -> VectorProgram:
    """A softmax of int32 into int8, uncut."""
    at = "[a0, a1]"
    return VectorProgram(
        extents=(rows, columns),
        tile=(rows, columns),
        tensors=(
            VectorTensor("x", "int32", (0, 1)),
            VectorTensor("y", "int8", (0, 1)),
            VectorTensor("b0", "float32", (0, 1), "v"),
            VectorTensor("b1", "float32", (0,), "v"),
        ),
        results=1,
        statements=(
            f"b0{at} = f32(x{at})",
            "b1[a0] = -3e+38",
            f"b1[a0] max= b0{at}",
            f"b0{at} = b0{at} - b1[a0]",
            f"b0{at} = exp(b0{at})",
            "b1[a0] = 0.0",
            f"b1[a0] += b0{at}",
            f"b0{at} = b0{at} / b1[a0]",
            f"b0{at} = b0{at} * 127.0",
            f"y{at} = i8(max(min(rint(b0{at}), 127.0), -128.0))",
        ),
        contexts=2,
    )


def gate(rows: int, columns: int) -> VectorProgram:
    """A SwiGLU's gate: SiLU of int8 times float32, into int8, uncut."""
    at = "[a0, a1]"
    return VectorProgram(
        extents=(rows, columns),
        tile=(rows, columns),
        tensors=(
            VectorTensor("x", "int8", (0, 1)),
            VectorTensor("z", "float32", (0, 1)),
            VectorTensor("y", "int8", (0, 1)),
            VectorTensor("b0", "float32", (0, 1), "v"),
            VectorTensor("b1", "float32", (0, 1), "v"),
        ),
        results=1,
        statements=(
            f"b0{at} = f32(x{at})",
            f"b1{at} = sigmoid(b0{at})",
            f"b1{at} = b0{at} * b1{at}",
            f"b0{at} = z{at}",
            f"b0{at} = b1{at} * b0{at}",
            f"y{at} = i8(max(min(rint(b0{at}), 127.0), -128.0))",
        ),
        contexts=2,
    )


def norm(rows: int, columns: int) -> VectorProgram:
    """A layer norm of int8 into int8 with a scale and an offset of columns, uncut."""
    at = "[a0, a1]"
    images = (VectorTensor("x", "int8", (0, 1)), VectorTensor("z", "float32", (1,)), VectorTensor("w", "float32", (1,)))
    return VectorProgram(
        extents=(rows, columns),
        tile=(rows, columns),
        tensors=(
            *images,
            VectorTensor("y", "int8", (0, 1)),
            *(VectorTensor(name, "float32", (0, 1), "v") for name in ("b0", "b5")),
            *(VectorTensor(name, "float32", (0,), "v") for name in ("b3", "b4")),
            *(VectorTensor(name, "float32", (1,), "v") for name in ("b1", "b2")),
        ),
        results=1,
        statements=(
            f"b0{at} = f32(x{at})",
            f"b0{at} = b0{at} * 0.04",
            "b1[a1] = z[a1]",
            "b2[a1] = w[a1]",
            "b3[a0] = 0.0",
            f"b3[a0] += b0{at}",
            f"b3[a0] = b3[a0] / {float(columns)}",
            "b4[a0] = 0.0",
            f"b0{at} = b0{at} - b3[a0]",
            f"b5{at} = b0{at} * b0{at}",
            f"b4[a0] += b5{at}",
            f"b4[a0] = b4[a0] / {float(columns)}",
            "b4[a0] = rsqrt(b4[a0])",
            f"b0{at} = b0{at} * b4[a0]",
            f"b0{at} = b0{at} * b1[a1]",
            f"b0{at} = b0{at} + b2[a1]",
            f"b0{at} = b0{at} / 0.04",
            f"y{at} = i8(max(min(rint(b0{at}), 127.0), -128.0))",
        ),
        contexts=1,
    )


def clock(program: VectorProgram, target: Target) -> int:
    lowered, arranged = lower_region(VectorRegion(program), target), arrangement_of(target.accelerator)
    assert lowered is not None
    assert arranged is not None
    words, _ = arranged(region_words(lowered, target.accelerator))
    return int(family_of(target.accelerator).time(decode(target.accelerator, words), {}).cycles)


@pytest.mark.parametrize(("tile", "contexts"), [(16, 2), (16, 3), (25, 2), (66, 2)])
def test_estimates_are_near_the_clock(npu: Target, tile: int, contexts: int) -> None:
    """Of tiles that divide the rows and tiles that do not, with two copies of buffers and with three."""
    program = replace(softmax(128, 197), tile=(tile, 197), contexts=contexts)
    assert npu.derived(ProgramCycles).of(program) == pytest.approx(clock(program, npu), rel=0.1)


@pytest.mark.parametrize(("rows", "columns"), [(128, 197), (40, 33), (1000, 17)])
def test_the_best_tiles_are_near_the_bound(npu: Target, rows: int, columns: int) -> None:
    found = npu.derived(BestTiles).of(softmax(rows, columns), None, {})
    assert found is not None
    bound, cycles = program_bound(found, npu), clock(found, npu)
    assert bound.cycles <= cycles <= 1.3 * bound.cycles


@pytest.mark.parametrize(("rows", "columns"), [(64, 1408), (48, 520)])
def test_a_second_load_does_not_wait_for_what_the_first_is_used_for(npu: Target, rows: int, columns: int) -> None:
    """Would catch a second operand that is loaded into the first one's buffer, when that has been computed with."""
    found = npu.derived(BestTiles).of(gate(rows, columns), None, {})
    assert found is not None
    assert program_bound(found, npu).cycles <= clock(found, npu) <= 1.15 * program_bound(found, npu).cycles
    waiting = loads_together(found)
    assert clock(waiting, npu) > 1.1 * clock(found, npu)
    assert npu.derived(ProgramCycles).of(waiting) == pytest.approx(clock(waiting, npu), rel=0.1)


@pytest.mark.parametrize(("rows", "columns"), [(256, 32), (64, 64), (128, 128)])
def test_few_tiles_load_what_they_share_behind_what_they_need_first(npu: Target, rows: int, columns: int) -> None:
    """Would catch norms that wait for scales and offsets before their first rows, or stay in one tile for that."""
    found = npu.derived(BestTiles).of(norm(rows, columns), None, {})
    assert found is not None
    assert found.loads_again
    assert program_bound(found, npu).cycles <= clock(found, npu) <= 1.3 * program_bound(found, npu).cycles
    assert clock(found, npu) < 0.95 * clock(replace(found, loads_again=False), npu)
    assert npu.derived(ProgramCycles).of(found) == pytest.approx(clock(found, npu), rel=0.05)


def test_a_bound_is_of_lanes_or_of_bytes(npu: Target) -> None:
    """By hand: six statements of all elements on 64 lanes, three of rows, and 32 bytes a cycle behind a latency."""
    bound = program_bound(softmax(128, 192), npu)
    rows, elements = 128, 128 * 192
    assert bound.bus == 100 + elements * 4 / 32 + elements / 32
    lanes = 6 * elements / 64 + 2 * rows / 64
    assert lanes <= bound.units["vector"] <= 1.02 * lanes + 8 * 16
    assert bound.units["load"] == 100 + elements * 4 / 32
    assert bound.throughput == max(bound.bus, *bound.units.values())


def test_a_sum_takes_in_as_many_numbers_as_an_element_has() -> None:
    """Would catch a bound of one number an iteration, where rows of four go into a sum that is one number."""
    target, at = Target(parse_accelerator(random_vector_machine(16))), "[a0, a1]"
    program = VectorProgram(
        extents=(8, 48),
        tile=(8, 48),
        tensors=(
            VectorTensor("x", "float32", (0, 1)),
            VectorTensor("y", "float32", (0, 1)),
            VectorTensor("b0", "float32", (0, 1), "v"),
            VectorTensor("b1", "float32", (0,), "s"),
        ),
        results=1,
        statements=(
            f"b0{at} = x{at}",
            "b1[a0] = 0.0",
            f"b1[a0] += b0{at}",
            f"b0{at} = b0{at} - b1[a0]",
            f"y{at} = b0{at}",
        ),
        contexts=1,
    )
    assert program_bound(program, target).cycles <= clock(program, target)
