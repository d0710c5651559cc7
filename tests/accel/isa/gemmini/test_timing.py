"""Cycles and traffic against what an FPGA measured, and laws that any stream must keep."""

import numpy as np
import pytest

from accel.isa.gemmini.parameters import GemminiParameters
from accel.isa.gemmini.timing import time
from accel.isa.gemmini.traffic import counted_bytes_read, dram_accesses
from tests.accel.isa.gemmini.vectors import needs_gemmini_golden, trace

LEAN = GemminiParameters(requests_in_flight=64)  # what the FPGA ran
_LOOP_AB = 10
_OFF = np.uint64(16)  # the native run's A and B lie 16 bytes behind a multiple of 64, where the tests want them


def aligned(name):
    """The stream with its operands where their declarations put them on the hardware."""
    words = trace(name)
    for row in words[words[:, 0] == _LOOP_AB]:
        assert all(address == 0 or address % 16 == 0 for address in row[1:])
    words[:, 1:] -= np.where((words[:, :1] == _LOOP_AB) & (words[:, 1:] != 0), _OFF, np.uint64(0))
    return words


@needs_gemmini_golden
@pytest.mark.parametrize(("name", "measured"), [("tiled_matmul_ws", 2597), ("tiled_matmul_ws_perf", 39815)])
def test_products_take_as_long_as_on_the_fpga_within_a_tenth(name, measured):
    assert time(aligned(name), LEAN).cycles == pytest.approx(measured, rel=0.1)


@needs_gemmini_golden
@pytest.mark.parametrize(("name", "measured"), [("conv_perf", 1862456), ("conv_dw_perf", 2529093)])
def test_convolutions_take_as_long_as_on_the_fpga_within_a_quarter(name, measured):
    assert time(trace(name), LEAN).cycles == pytest.approx(measured, rel=0.25)


@needs_gemmini_golden
def test_traffic_is_what_the_fpga_counted():
    accesses = dram_accesses(aligned("tiled_matmul_ws_perf"), LEAN)
    assert counted_bytes_read(accesses, LEAN) == 557_056
    assert accesses.bytes_read == 128 * 256 + 2 * 256 * 256 + 128 * 64  # A, B twice, a row of the bias for each tile
    assert accesses.bytes_written == 32_768


@needs_gemmini_golden
@pytest.mark.parametrize("name", ["tiled_matmul_ws", "tiled_matmul_ws_perf"])
def test_times_keep_order_and_fold_back(name):
    words = trace(name)
    timing = time(words, LEAN)
    assert timing.start.shape == timing.end.shape == (len(words),)
    assert (timing.end >= timing.start).all()
    assert (timing.primitive_end >= timing.primitive_start).all()
    assert timing.cycles >= timing.end.max()
    assert all(0 < cycles <= timing.cycles for cycles in timing.busy.values())
    assert all((waits >= 0).all() for waits in timing.waits.values())
    products = int(np.isin(timing.expanded.words[:, 0], (4, 5)).sum())
    assert timing.cycles >= products * LEAN.dim  # the mesh takes a row a cycle


@needs_gemmini_golden
def test_slower_memory_is_never_faster_and_a_wider_bus_never_slower():
    words = trace("tiled_matmul_ws_perf")
    cycles = [time(words, GemminiParameters(memory_latency=latency)).cycles for latency in (10, 100, 400)]
    assert cycles == sorted(cycles)
    assert time(words, GemminiParameters(dma_bus_bytes=64)).cycles <= time(words, GemminiParameters()).cycles
