"""The order in which Gemmini's instructions are sent: it changes time alone, and layers come near their bounds."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.function.stream_machine import StreamMachine
from accel.isa.gemmini.timing.issue_order import issue_order
from accel.program_files.open_program import open_program
from examples.single import Conv, conv_model
from tests.helpers.documents.gemmini_loops import without_loops
from tests.helpers.programs.gemmini_programs import DRAM_BYTES, Writer

CONFIG, LOADS, MVOUT, FENCE = 0, (1, 2, 14), 3, 127
PRELOAD, COMPUTES = 6, (4, 5)


def queue_of(function: int, first: int) -> str:
    """As the instruction set's manual has it: three kinds of config go to the unit that they are for."""
    if function == CONFIG:
        return {0: "execute", 1: "load"}.get(first & 3, "store")
    return "load" if function in LOADS else "store" if function == MVOUT else "execute"


def drawn(seed: int, dim: int) -> np.ndarray:
    """A stream whose stores write DRAM where no load reads it, as nothing orders these.

    None pools, repeats pixels, transposes or keeps results in the mesh; products of a third of them read one row again
    and again, with a stride of 0.
    """
    words = Writer(seed, dim).draw(40)
    kind = np.where(words[:, 0] == CONFIG, words[:, 1] & np.uint64(3), 3)
    words[kind == 0, 1] = words[kind == 0, 1] & ~np.uint64(0x380) | np.uint64(4)
    if seed % 3 == 0:
        words[kind == 0, 1] &= ~np.uint64(0xFFFF << 16)
    words[kind == 1, 1] = words[kind == 1, 1] & ~np.uint64(0xFF00) | np.uint64(0x100)
    words[kind == 2, 1] &= np.uint64(0xF)
    loads = np.isin(words[:, 0], LOADS)
    words[loads, 1] //= np.uint64(2)
    words[words[:, 0] == MVOUT, 1] += np.uint64(DRAM_BYTES // 2)
    return words


@pytest.mark.parametrize("dim", [4, 16])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_another_order_does_the_same(dim: int, seed: int) -> None:
    """Catches an instruction that passes one whose rows it shares, and a queue that is out of order."""
    parameters = GemminiParameters(dim=dim, scratchpad_bytes=256 * dim, accumulator_bytes=1024 * dim)
    words = drawn(seed, dim)
    order = issue_order(words, parameters)
    assert sorted(order.tolist()) == list(range(len(words)))
    for queue in ("load", "execute", "store"):
        mine = [at for at in order.tolist() if queue_of(int(words[at, 0]), int(words[at, 1])) == queue]
        assert mine == sorted(mine)
    dram = np.random.default_rng(seed).integers(0, 256, DRAM_BYTES, dtype=np.uint8)
    results = []
    for stream in (words, words[order]):
        machine, memory = StreamMachine(parameters), dram.copy()
        machine.run(stream, memory)
        results.append((machine.scratchpad(), machine.accumulator(), memory))
    for plain, sent in zip(*results, strict=True):
        assert np.array_equal(plain, sent)


def test_nothing_passes_a_fence() -> None:
    parameters = GemminiParameters()
    first, second = drawn(1, 16), drawn(2, 16)
    fence = np.array([[FENCE, 0, 0]], np.uint64)
    order = issue_order(np.concatenate([first, fence, second]), parameters)
    assert set(order[: len(first)].tolist()) == set(range(len(first)))
    assert order[len(first)] == len(first)


@pytest.mark.parametrize("rs1", [1 << 16, 1 << 16 | 1 << 8 | 4, 1 << 16 | 2 << 8 | 1])
def test_what_touches_other_rows_is_sent_as_it_stands(rs1: int) -> None:
    """Results kept in the mesh, a transposed operand, repeated pixels."""
    words = np.concatenate([drawn(3, 16), np.array([[CONFIG, rs1, 1 << 48]], np.uint64)])
    assert issue_order(words, GemminiParameters()).tolist() == list(range(len(words)))


@pytest.mark.parametrize(("first", "stands"), [(300, False), (500, True)])
def test_pooling_beyond_a_bank_is_sent_as_it_stands(*, first: int, stands: bool) -> None:
    """An image of 9 rows of 16 in the first bank of 512, or in both: of the second the station does not know."""
    pooled = 16 << 56 | 9 << 48 | 8 << 40 | 8 << 32 | 2 << 6 | 1 << 4 | 2  # 8x8 windows of 2x2, a pixel apart
    store = [[CONFIG, pooled, 16], [MVOUT, DRAM_BYTES // 2, 1 << 48 | 16 << 32 | 1 << 31 | first]]
    words = np.concatenate([drawn(3, 16), np.array(store, np.uint64)])
    order = issue_order(words, GemminiParameters())
    assert (order.tolist() == list(range(len(words)))) == stands


def test_a_launch_of_loops_is_sent_as_it_stands() -> None:
    loop = np.array([[9, 16, 1 << 32 | 1 << 16 | 1], [8, 0, 0]], np.uint64)
    words = np.concatenate([drawn(3, 16), loop])
    assert issue_order(words, GemminiParameters()).tolist() == list(range(len(words)))


@pytest.mark.parametrize(("preset", "channels", "most"), [("gemmini", 16, 1.2), ("gemmini-32", 32, 1.3)])
def test_a_layer_takes_little_more_than_its_products(preset: str, channels: int, most: float, tmp_path: Path) -> None:
    """Loads and stores are hidden behind the products: sent tile by tile they take 1.78 and 1.57 times as long."""
    model = conv_model(Conv(channels, channels, 32, 32))
    report = run_model(model.SerializeToString(), load_accelerator(preset), Options(trace=False), tmp_path)
    assert report.verified
    (layer,) = report.layers
    assert layer.cycles < most * layer.lower_bound


def test_contexts_are_in_different_halves(tmp_path: Path) -> None:
    """The next tile is loaded into banks that no product reads, and stored from banks into which none accumulates."""
    accelerator = without_loops(load_accelerator("gemmini"))
    run_model(conv_model(Conv(64, 64, 32, 32)).SerializeToString(), accelerator, Options(trace=False), tmp_path)
    words = np.asarray(open_program(tmp_path / "program.zip").words)
    spad, acc = accelerator.memories
    loaded = words[np.isin(words[:, 0], LOADS), 2]
    stored = words[words[:, 0] == MVOUT, 2]
    for rows, depth in (
        (loaded[loaded >> np.uint64(31) & np.uint64(1) == 0], spad.depth),
        (stored, acc.depth),
    ):
        halves = (rows & np.uint64((1 << 26) - 1)) // np.uint64(depth // 2)
        assert set(halves.tolist()) == {0, 1}
