"""The kernel stands in for the document's expressions: each of them, compiled by itself, computes the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.accelerator.semantics import all_semantics
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.util.arrays import aligned_zeros
from tests.helpers.marking import share
from tests.helpers.programs.streams import stream
from tests.reference.compiled_statement import compile_statement

SIZES = {"LOG_UOP_BUFF_SIZE": 9, "LOG_INP_BUFF_SIZE": 12, "LOG_WGT_BUFF_SIZE": 14, "LOG_ACC_BUFF_SIZE": 14}
ONE = {"y_size": 1, "x_size": 1, "x_stride": 1}
DST, SRC, WGT = 3, 5, 2  # elements that the micro-op names
DRAM_BYTES = 1 << 17
ACC, INP, WGTS, OUT = 16, 64, 64, 1024  # in DRAM, in elements of each


class Case:
    """A VTA, its kernel, and each of its expressions compiled; hypothesis prints it by its name."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.machine = VtaMachine(accelerator)
        self.expressions = [(meaning, compile_statement(meaning.typed)) for meaning in all_semantics(accelerator)]

    def __repr__(self) -> str:
        return self.accelerator.name


@pytest.fixture(scope="module", params=[("dst", 0), ("src", 2)], ids=["dst", "src, four rows"])
def case(request: pytest.FixtureRequest) -> Case:
    immediate_with, batch = request.param
    return Case(vta_accelerator(VtaConfig(**SIZES, LOG_BATCH=batch), Variant(immediate_with=immediate_with)))


def numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Any values of the type, of which some are small enough to shift by and some are the least or the greatest."""
    info = np.iinfo(dtype)
    any_ = random.integers(info.min, info.max, shape, dtype=np.int64, endpoint=True)
    small = random.integers(-40, 41, shape)
    extreme = random.choice([info.min, info.max, -1, 0, 1, 31, 32, -31, -32], shape)
    return np.choose(random.integers(0, 3, shape), [any_, small, extreme]).astype(dtype)


def dram_with(accelerator: Accelerator, random: np.random.Generator) -> np.ndarray:
    """One micro-op, and an element for each place of each memory that it names."""
    dram = aligned_zeros(DRAM_BYTES)
    fields = {field.name: field.lsb for field in accelerator.instruction("gemm").microops.fields}
    word = DST << fields["dst_idx"] | SRC << fields["src_idx"] | WGT << fields["wgt_idx"]
    dram[:4] = np.array([word], np.uint32).view(np.uint8)
    for name, at in (("acc", ACC), ("inp", INP), ("wgt", WGTS)):
        memory = accelerator.memory(name)
        elements = numbers(random, (8, *memory.shape), memory.dtype)
        begin = at * memory.element_bytes
        dram[begin : begin + elements.nbytes] = elements.view(np.uint8).reshape(-1)
    return dram


def element(accelerator: Accelerator, dram: np.ndarray, name: str, at: int, dtype: str) -> np.ndarray:
    memory = accelerator.memory(name)
    size = memory.element_count * np.dtype(dtype).itemsize
    return dram[at * size : (at + 1) * size].view(dtype).reshape(memory.shape).copy()


def loads(dst: str = "load_acc") -> list[tuple[str, dict[str, int]]]:
    """The micro-op, and the elements of the memories."""
    places = (("load_inp", INP, SRC), ("load_wgt", WGTS, WGT), (dst, ACC, DST), ("load_acc", ACC + 1, SRC))
    copies = [(name, ONE | {"dram_base": at, "sram_base": index}) for name, at, index in places]
    return [("load_uop", ONE), *copies]


def run(case: Case, dram: np.ndarray, instructions: list[tuple[str, dict[str, int]]]) -> np.ndarray:
    case.machine.reset()
    case.machine.run(stream(case.accelerator, instructions), dram)
    return case.machine.accumulators()[DST]


@pytest.mark.slow
@settings(max_examples=share(20), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), immediate=st.integers(-33, 33) | st.integers(-(1 << 15), (1 << 15) - 1))
def test_computing_instructions_do_what_their_expressions_say(case: Case, seed: int, immediate: int) -> None:
    accelerator = case.accelerator
    dram = dram_with(accelerator, np.random.default_rng(seed))
    acc = {
        "dst": element(accelerator, dram, "acc", ACC, "int32"),
        "src": element(accelerator, dram, "acc", ACC + 1, "int32"),
    }
    gemm = acc | {
        name: element(accelerator, dram, memory, at, "int8")
        for name, memory, at in (("data", "inp", INP), ("weights", "wgt", WGTS))
    }
    for meaning, compiled in case.expressions:
        name = meaning.instruction.name
        if isinstance(meaning.instruction, Copy):
            continue
        tensors = {"gemm": gemm, "alu": acc}[name]
        fields = {"uop_end": 1, "iter_out": 1, "iter_in": 1, **meaning.operation.when}
        fields |= {"imm": immediate} if name == "alu" else {}
        wanted = compiled({n: tensors[n] for n in meaning.typed.tensors}, {"imm": immediate})
        assert np.array_equal(run(case, dram, [*loads(), (name, fields)]), wanted), meaning.operation.name


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_copies_do_what_their_expressions_say(case: Case, seed: int) -> None:
    accelerator = case.accelerator
    dram = dram_with(accelerator, np.random.default_rng(seed))
    by_name = {meaning.instruction.name: compiled for meaning, compiled in case.expressions}
    words = element(accelerator, dram, "acc", ACC, "int32")
    at_byte = element(accelerator, dram, "acc", ACC, "int8")
    for name, inside in (("load_acc", words), ("load_acc_8bit", at_byte)):
        wanted = by_name[name]({"dram": inside, "sram": np.zeros_like(words)})
        assert np.array_equal(run(case, dram, loads(name)), wanted), name
    run(case, dram, [*loads(), ("store_out", ONE | {"sram_base": DST, "dram_base": OUT})])
    wanted = by_name["store_out"]({"sram": words, "dram": np.zeros_like(at_byte)})
    assert np.array_equal(element(accelerator, dram, "acc", OUT, "int8"), wanted)


@pytest.mark.slow
def test_every_operation_of_the_document_was_compared(case: Case) -> None:
    compared = {meaning.operation.name for meaning, _ in case.expressions if not isinstance(meaning.instruction, Copy)}
    alu = ("min", "max", "add", "shift_right", "multiply")
    assert compared == {"accumulate", "zero", *alu, *(f"{name}_imm" for name in alu)}
