"""Cycles and traffic against what an FPGA measured, and laws that any stream must keep."""

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.isa.family import Boxes, dram_traffic
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.machine import log_columns as log
from accel.isa.gemmini.timing.machine.memory.read_dma import packet
from accel.isa.gemmini.timing.stream_timing import time_stream
from accel.isa.gemmini.timing.stream_traffic import dram_accesses
from accel.program_files.open_program import open_program
from tests.helpers.programs.gemmini_parts import write_parts
from tests.helpers.programs.gemmini_vectors import needs_gemmini_golden, trace

PRESET = load_accelerator("gemmini-lean")
LEAN = parameters_of(PRESET)
_LOOP_AB = 10
_OFF = np.uint64(16)


def aligned(name):
    """The stream with its operands on multiples of 64 bytes.

    The addresses are those of a native run on another machine, whose compiler put A and B 16 bytes behind such a
    multiple. Those of the FPGA's run are not recorded; a row of 64 bytes is then one request and not two.
    """
    words = trace(name)
    for row in words[words[:, 0] == _LOOP_AB]:
        assert all(address == 0 or address % 16 == 0 for address in row[1:])
    words[:, 1:] -= np.where((words[:, :1] == _LOOP_AB) & (words[:, 1:] != 0), _OFF, np.uint64(0))
    return words


def counted_bytes_read(accesses: Boxes, parameters: GemminiParameters) -> int:
    """What the hardware's counter RDMA_BYTES_REC shows: a request's whole size with each of its beats (DMA.scala)."""
    bus, total = parameters.dma_bus_bytes, 0
    columns = np.stack([accesses.begin, accesses.rows, accesses.row_stride, accesses.row_bytes], axis=1)
    for first, rows, stride, row_bytes in columns[~accesses.write].tolist():
        for row in range(rows):
            address, left = first + row * stride, row_bytes
            while left > 0:
                size, useful = packet(address, left, bus, parameters.dma_max_bytes)
                total += size * (size // bus)
                address, left = address + useful, left - useful
    return total


def report_of(words, directory):
    """The report of a stream alone, as ``cyclops simulate`` gives it."""
    parts = write_parts(directory, words.tolist(), accelerator="gemmini-lean", expected=(), dram_bytes=1 << 26)
    return run_program(open_program(parts), SimulateOptions(engine="timing"), None)


@needs_gemmini_golden
@pytest.mark.parametrize(("name", "measured"), [("tiled_matmul_ws", 2597), ("tiled_matmul_ws_perf", 39815)])
@pytest.mark.parametrize("stream", [trace, aligned])
def test_products_take_as_long_as_on_the_fpga_within_a_tenth(name, measured, stream, tmp_path):
    report = report_of(stream(name), tmp_path)
    assert report.cycles == pytest.approx(measured, rel=0.1)
    assert report.timing_model.calibrated


@needs_gemmini_golden
@pytest.mark.parametrize(("name", "measured"), [("conv_perf", 1862456), ("conv_dw_perf", 2529093)])
@pytest.mark.slow
def test_convolutions_take_as_long_as_on_the_fpga_within_a_tenth(name, measured, tmp_path):
    assert report_of(trace(name), tmp_path).cycles == pytest.approx(measured, rel=0.1)


@needs_gemmini_golden
def test_traffic_is_what_the_fpga_counted_if_its_operands_are_aligned():
    accesses = dram_accesses(aligned("tiled_matmul_ws_perf"), LEAN, LaunchContext.fresh(LEAN))
    assert counted_bytes_read(accesses, LEAN) == 557_056
    read, written = dram_traffic(accesses)
    assert read == 128 * 256 + 2 * 256 * 256 + 128 * 64  # A, B twice, a row of the bias for each tile
    assert written == 32_768
    as_recorded = dram_accesses(trace("tiled_matmul_ws_perf"), LEAN, LaunchContext.fresh(LEAN))
    assert counted_bytes_read(as_recorded, LEAN) != 557_056
    assert dram_traffic(as_recorded) == (read, written)


@needs_gemmini_golden
@pytest.mark.parametrize("name", ["tiled_matmul_ws", "tiled_matmul_ws_perf"])
def test_times_keep_order_and_fold_back(name):
    words = trace(name)
    timing = time_stream(words, LEAN)
    assert timing.start.shape == timing.end.shape == (len(words),)
    assert (timing.end >= timing.start).all()
    asked, entered, issued, complete, begun = timing.log[:, log.ASKED : log.BEGUN + 1].T
    assert (asked <= entered).all()
    assert (entered < issued).all()
    assert (issued < begun).all()
    ends = complete >= 0
    assert (complete[ends] >= begun[ends]).all()
    assert timing.cycles >= timing.end.max()
    assert all(0 < cycles <= timing.cycles for cycles in timing.busy.values())
    assert all((waits >= 0).all() for waits in timing.waits.values())
    products = int(np.isin(timing.log[:, log.FUNCT], (4, 5)).sum())
    assert timing.cycles >= products * LEAN.dim  # the mesh takes a row a cycle
    assert timing.cycles >= LEAN.issue_cycles * (len(words) - 1)


@needs_gemmini_golden
def test_slower_memory_is_never_faster_and_a_wider_bus_never_slower():
    words = trace("tiled_matmul_ws_perf")
    cycles = [time_stream(words, GemminiParameters(memory_latency=latency)).cycles for latency in (10, 100, 400)]
    assert cycles == sorted(cycles)
    assert (
        time_stream(words, GemminiParameters(dma_bus_bytes=64)).cycles <= time_stream(words, GemminiParameters()).cycles
    )
