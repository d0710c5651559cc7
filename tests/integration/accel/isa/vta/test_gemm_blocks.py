"""The matrix instruction in blocks of rows gives the bits of the reference, which takes it step by step."""

import functools

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.isa.kernels.kernel_library import host_cpu
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.function.dot_product import DotProduct
from accel.isa.vta.function.functional_table import Geometry
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.util.arrays import aligned_zeros
from tests.helpers.marking import rest_all, share
from tests.helpers.programs.random_programs import Program, by_reference
from tests.helpers.programs.streams import stream

SIZES = {"LOG_UOP_BUFF_SIZE": 8, "LOG_INP_BUFF_SIZE": 12, "LOG_WGT_BUFF_SIZE": 14, "LOG_ACC_BUFF_SIZE": 14}
SMALL = SIZES | {"LOG_WGT_BUFF_SIZE": 8, "LOG_INP_BUFF_SIZE": 8, "LOG_ACC_BUFF_SIZE": 10}
SHAPES = {
    "b16": vta_accelerator(VtaConfig(LOG_BLOCK=4, **SIZES)),
    "b8": vta_accelerator(VtaConfig(LOG_BLOCK=3, **SIZES)),
    "b32": vta_accelerator(VtaConfig(LOG_BLOCK=5, **SIZES | {"LOG_WGT_BUFF_SIZE": 15})),
    "b64": vta_accelerator(VtaConfig(LOG_BLOCK=6, **SIZES | {"LOG_WGT_BUFF_SIZE": 16})),
    "b4x16": vta_accelerator(VtaConfig(LOG_BATCH=2, LOG_BLOCK=4, **SIZES)),
    "b2": vta_accelerator(VtaConfig(LOG_BLOCK=1, **SMALL)),
}
HOST = tvm.target.Target({"kind": "llvm", "mcpu": host_cpu()})
DOTS = DotProduct.all_of_host(Geometry.of(SHAPES["b16"]), HOST)
DRAM_BYTES = 1 << 17
BEHIND_MICROOPS = 256  # bytes
MICROOPS = 12
STEPS = 2000


@functools.cache
def machine_of(shape: str, dot: DotProduct | None) -> VtaMachine:
    return VtaMachine(SHAPES[shape], dot=dot)


def microops(random: np.random.Generator, depths: dict[str, int]) -> dict[str, np.ndarray]:
    """Indices of some micro-ops, of a form that the kernel takes together, or nearly."""
    count = int(random.integers(1, MICROOPS + 1))
    any_ = {name: random.integers(0, max(depth // 4, 1), count) for name, depth in depths.items()}
    form = random.integers(0, 5)
    if form == 0:  # terms of one sum
        any_["dst"][:] = any_["dst"][0]
    elif form == 1:  # rows that meet the same weights
        any_["dst"] = any_["dst"][0] + np.cumsum(random.integers(1, 3, count)) % depths["dst"]
        any_["wgt"][:] = any_["wgt"][0]
    elif form == 2:  # the same, but one of them steps back or stays
        any_["dst"] = any_["dst"][0] + np.cumsum(random.choice([-1, 0, 1, 1, 1], count)).clip(0)
        any_["wgt"][:] = any_["wgt"][0]
    elif form == 3:  # sums one after the other
        any_["dst"] = any_["dst"][0] + np.arange(count) // 3
    return any_


def loops(random: np.random.Generator, tops: dict[str, int], depths: dict[str, int], count: int) -> dict[str, int]:
    """Extents and steps, so that no index leaves its memory; steps of dst are often those at which rows meet."""
    while True:
        outer, inner = (int(v) for v in random.choice([1, 2, 3, 5, 6, 7, 8, 13, 14, 15, 16, 21, 30], 2))
        near = [0, 1, 1, 2, outer, inner, max(inner - 1, 0), inner + 1]
        steps = {f"dst_factor_{side}": int(random.choice(near)) for side in ("out", "in")}
        steps |= {f"src_factor_{side}": int(random.choice([0, 1, 1, 2, 3, inner])) for side in ("out", "in")}
        steps |= {f"wgt_factor_{side}": int(random.choice([0, 0, 0, 1])) for side in ("out", "in")}
        reach = {
            name: tops[name] + (outer - 1) * steps[f"{name}_factor_out"] + (inner - 1) * steps[f"{name}_factor_in"]
            for name in depths
        }
        if outer * inner * count <= STEPS and all(reach[name] < depths[name] for name in depths):
            return {"iter_out": outer, "iter_in": inner} | steps


def case(accelerator: Accelerator, seed: int) -> tuple[Program, np.ndarray]:
    """Memories full of random numbers, many of them extreme, and a few matrix instructions on the same accumulators."""
    random = np.random.default_rng(seed)
    dram = aligned_zeros(DRAM_BYTES)
    dram[:] = random.integers(0, 256, DRAM_BYTES)
    if seed % 2:
        dram[:] = random.choice(np.array([0, 127, 128, 255], np.uint8), DRAM_BYTES)
    names = {"dst": "acc", "src": "inp", "wgt": "wgt"}
    depths = {name: accelerator.memory(memory).depth for name, memory in names.items()}
    program: Program = []
    for memory in names.values():
        size, depth = accelerator.memory(memory).element_bytes, accelerator.memory(memory).depth
        copy = {"dram_base": -(-BEHIND_MICROOPS // size), "y_size": 1, "x_size": depth, "x_stride": depth}
        program.append((f"load_{memory}", copy))
    begin, words = 0, np.zeros(BEHIND_MICROOPS // 4, np.uint32)
    for _ in range(3):
        found = microops(random, depths)
        count = len(found["dst"])
        for field in accelerator.instruction("gemm").microops.fields:
            words[begin : begin + count] |= (found[field.name.removesuffix("_idx")] << field.lsb).astype(np.uint32)
        tops = {name: int(indices.max()) for name, indices in found.items()}
        fields = loops(random, tops, depths, count)
        program.append(("gemm", fields | {"uop_bgn": begin, "uop_end": begin + count}))
        begin += count
    dram[:BEHIND_MICROOPS] = words.view(np.uint8)
    return [("load_uop", {"y_size": 1, "x_size": begin, "x_stride": begin}), *program], dram


def compare(shape: str, dot: DotProduct | None, seed: int) -> None:
    accelerator, machine = SHAPES[shape], machine_of(shape, dot)
    program, dram = case(accelerator, seed)
    reference = by_reference(accelerator, program, dram.copy())
    machine.reset()
    machine.run(stream(accelerator, program), dram)
    assert np.array_equal(machine.accumulators(), reference.memories["acc"])


@pytest.mark.slow
@settings(max_examples=share(30), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_blocks_of_rows_are_summed_as_step_by_step(seed: int) -> None:
    compare("b16", None, seed)


@pytest.mark.slow
@settings(max_examples=share(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_plain_arithmetic_sums_blocks_too(seed: int) -> None:
    compare("b16", DOTS[-1], seed)


@pytest.mark.slow
@pytest.mark.parametrize("shape", rest_all(["b32", "b4x16", "b2", "b8", "b64"], keep=2))
@settings(max_examples=share(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_blocks_of_other_shapes(shape: str, seed: int) -> None:
    compare(shape, None, seed)


@pytest.mark.slow
@pytest.mark.parametrize("dot", rest_all(DOTS[1:-1]), ids=lambda dot: dot.intrinsic)
@settings(max_examples=share(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_instruction_of_the_host_gives_the_same(dot: DotProduct, seed: int) -> None:
    compare("b16", dot, seed)
