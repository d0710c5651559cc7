"""Weights that stay in Gemmini's mesh: the same results, in less time where products have few rows."""

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
from accel.isa.gemmini.stream.kept_weights import with_kept_weights
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.stream_timing import cycles_of
from accel.program_files.open_program import open_program
from examples.single import Dense, dense_model
from tests.helpers.programs.gemmini_programs import ACC, ADD, DRAM_BYTES, GARBAGE, Writer, as_bits, word

CONFIG, MVIN, PRELOAD, COMPUTE, REUSE = 0, 2, 6, 4, 5
DIM = 16
PARAMETERS = GemminiParameters()
TILES, WEIGHTS, DATA = 4, 512, 64  # tiles of weights, and the rows where they and the data begin


def config_ex(*, flags: int = 4, stride: int = 1) -> tuple[int, int, int]:
    """Weight stationary, unless ``flags`` say otherwise."""
    return CONFIG, as_bits(1.0) << 32 | stride << 16 | flags, 1 << 48


def config_ld(stride: int, block: int) -> tuple[int, int, int]:
    return CONFIG, as_bits(1.0) << 32 | block << 16 | 1 << 8 | 1, stride


def product(weights: int, data: int, result: int, rows: int) -> list[tuple[int, int, int]]:
    preload = PRELOAD, word(DIM, DIM, weights), word(rows, DIM, ACC | ADD | result)
    return [preload, (COMPUTE, word(rows, DIM, data), word(DIM, DIM, GARBAGE))]


def drawn(seed: int) -> np.ndarray:
    """Products of few tiles of weights, with whatever may change these or the mesh in between."""
    random = np.random.default_rng(seed)
    words = [
        config_ex(),
        config_ld(64, DIM),
        (MVIN, 64, word(DIM, 4 * DIM, WEIGHTS)),
        (MVIN, 2048, word(DIM, 4 * DIM, DATA)),
    ]
    for _ in range(60):
        what, tile = random.integers(12), WEIGHTS + DIM * int(random.integers(TILES))
        if what == 0:  # over one tile, or from the middle of one on
            words.append((MVIN, int(random.integers(64, 4096)), word(DIM, DIM, tile + int(random.integers(2)) * 8)))
        elif what == 1:  # its second block alone is among the weights
            words += [config_ld(64, tile - DATA), (MVIN, 512, word(4, 2 * DIM, DATA + 8))]
        elif what == 2:
            flags = int(random.choice([4, 4 | 1 << 7, 4 | 1 << 9]))
            words.append(config_ex(flags=flags, stride=int(random.integers(3))))
        elif what == 3:
            words.append((MVIN, 256, word(4, DIM, ACC | int(random.integers(64)))))
        else:
            rows = int(random.integers(1, DIM + 1))
            words += product(tile, DATA + int(random.integers(16)), int(random.integers(48)), rows)
    return np.array(words, np.uint64)


def run(words: np.ndarray, seed: int, parameters: GemminiParameters) -> tuple[np.ndarray, ...]:
    machine = StreamMachine(parameters)
    memory = np.random.default_rng(seed).integers(0, 256, DRAM_BYTES, dtype=np.uint8)
    machine.run(words, memory)
    return machine.scratchpad(), machine.accumulator(), memory


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_what_is_kept_does_the_same(seed: int) -> None:
    """Catches weights that are used although a load or a configuration has changed them."""
    words = drawn(seed)
    for plain, kept in zip(
        run(words, seed, PARAMETERS), run(with_kept_weights(words, DIM), seed, PARAMETERS), strict=True
    ):
        assert np.array_equal(plain, kept)


@pytest.mark.parametrize("dim", [4, 16])
def test_any_stream_does_the_same(dim: int) -> None:
    """Streams of all primitive instructions, most of which end what is known of the mesh."""
    parameters = GemminiParameters(dim=dim, scratchpad_bytes=256 * dim, accumulator_bytes=1024 * dim)
    for seed in range(20):
        words = Writer(seed, dim).draw(40)
        for plain, kept in zip(
            run(words, seed, parameters), run(with_kept_weights(words, dim), seed, parameters), strict=True
        ):
            assert np.array_equal(plain, kept)


@pytest.mark.parametrize(("between", "kept"), [([], 7), ([config_ex(stride=2)], 0), ([(MVIN, 64, word(4, DIM, 3))], 0)])
def test_weights_are_brought_once(between: list[tuple[int, int, int]], kept: int) -> None:
    """Eight products of one tile: what is between them may change it, or the mesh."""
    stream = [config_ex()]
    for line in range(8):
        stream += [*(between if line else []), *product(0, 64 + 8 * line, 8 * line, 8)]
    words = with_kept_weights(np.array(stream, np.uint64), DIM)
    assert int((words[:, 0] == REUSE).sum()) == kept
    assert int((words[words[:, 0] == PRELOAD, 1] & np.uint64(GARBAGE) == GARBAGE).sum()) == kept


def test_products_of_few_rows_are_sooner_done() -> None:
    """On the machine that is the hardware register by register: 8 rows take less than the mesh's 16."""
    stream = [config_ex()]
    for tile in range(16):
        for line in range(8):
            stream += product(DIM * tile, 1024 + 8 * line, 8 * line, 8)
    words = np.array(stream, np.uint64)
    found = [
        cycles_of(each, PARAMETERS, LaunchContext.fresh(PARAMETERS)) for each in (words, with_kept_weights(words, DIM))
    ]
    assert found[0] > 16 * 8 * 16
    assert found[1] < 16 * (16 + 7 * 10) + 100


def test_a_ragged_line_brings_its_weights_once(tmp_path: Path) -> None:
    """Of 25 rows the 9 come first, while no other weights are brought: catches both pieces taking 16 cycles."""
    layer = dense_model(Dense(25, 512, 64, bias=False))
    report = run_model(layer.SerializeToString(), load_accelerator("gemmini"), Options(trace=False), tmp_path)
    assert report.verified
    words = np.asarray(open_program(tmp_path / "program.zip").words)
    products = words[np.isin(words[:, 0], (COMPUTE, REUSE))]
    rows = (products[:, 1] >> np.uint64(48)).tolist()
    tiles = (512 // DIM) * (64 // DIM)
    assert rows.count(9) == rows.count(16) == tiles
    assert (products[:, 0] == COMPUTE).sum() == tiles
    assert all(rows[at] == 9 for at in np.flatnonzero(products[:, 0] == COMPUTE))
