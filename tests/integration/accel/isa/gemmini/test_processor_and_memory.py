"""The processor before Gemmini, and the memory behind it: laws of both, and what an FPGA with both measured."""

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import Core, GemminiParameters, MemoryHierarchy
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.stream_timing import cycles_of
from accel.program_files.open_program import open_program
from bench.gemmini_library.library_streams import Options, conv_stream, matmul_stream
from bench.gemmini_library.library_tiling import Convolution, Memories
from bench.gemmini_library.measured_layers import measured_layers, predictions, spread
from tests.helpers.programs.gemmini_parts import write_parts
from tests.helpers.programs.gemmini_vectors import FOLDER, needs_gemmini_golden

ROCKET = load_accelerator("gemmini-rocket")
PRODUCT = matmul_stream(48, 96, 80, Memories(), Options(bias=False), base=1 << 20)
IMAGE = conv_stream(Convolution(1, 16, 32, 6, 6, 3, 1, 1, 6, 6), Memories(), Options(bias=False), base=1 << 20)
STREAMS = pytest.mark.parametrize("sent", [PRODUCT, IMAGE], ids=["product", "convolution"])
FIRESIM = FOLDER / "firesim_layers.json"


def cycles(sent, core=None, before=None, **memory):
    parameters = GemminiParameters(core=core, memory=MemoryHierarchy(**memory) if memory else None)
    return cycles_of(sent.words, parameters, LaunchContext.fresh(parameters), before)


@STREAMS
def test_a_processor_that_is_never_late_changes_nothing(sent):
    """It would, if the processor were taken to need an instruction's cycles before it sends the first."""
    assert cycles(sent, Core(issue_cycles=1)) == cycles(sent)


@STREAMS
def test_code_before_the_first_instruction_is_added(sent):
    assert cycles(sent, Core(start_cycles=1234)) == cycles(sent) + 1234


@STREAMS
def test_an_l2_that_has_all_lines_is_a_fixed_latency(sent):
    """The one memory must answer in the same cycles as the recorded one, where nothing sets them apart."""
    assert cycles(sent, l2_latency=30, l2_bus_bytes=64, l2_write_cycles=0) == cycles(sent)


@STREAMS
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("l2_latency", (10, 30, 90)),
        ("l2_bus_bytes", (64, 8, 1)),
        ("l2_write_cycles", (0, 30, 300)),
        ("dram_latency", (10, 100, 1000)),
        ("dram_line_cycles", (1, 8, 64)),
        ("dram_row_cycles", (0, 30, 300)),
        ("misses_in_flight", (16, 4, 1)),
        ("warm", (True, False)),
    ],
)
def test_a_slower_memory_saves_no_cycle(sent, name, values):
    found = [cycles(sent, **{"warm": False, name: value}) for value in values]
    assert found == sorted(found)
    assert found[0] < found[-1]


@STREAMS
def test_a_last_level_answers_what_the_l2_has_lost(sent):
    """The L2 is too small; only a last level that has the lines may be faster than DRAM, and as its latency says.

    Each has one way, so that no victim is drawn.
    """
    small = {"l2_bytes": 1024, "l2_ways": 1, "llc_ways": 1, "dram_latency": 500, "before": [sent.words]}
    found = [cycles(sent, **small, llc_bytes=1 << 20, llc_latency=latency) for latency in (10, 100, 500)]
    assert found == sorted(set(found))
    assert found[0] < cycles(sent, **small) < found[-1]
    assert found[0] < cycles(sent, **{**small, "before": []}, llc_bytes=1 << 20, llc_latency=10)


def test_what_ran_before_decides_what_the_l2_has():
    """Its own lines, those of a stream elsewhere, or nothing."""
    elsewhere = matmul_stream(256, 512, 512, Memories(), Options(bias=False), base=1 << 24)
    ran = [PRODUCT.words], [elsewhere.words], []
    own, other, none = (cycles(PRODUCT, before=each, dram_latency=500) for each in ran)
    assert own == cycles(PRODUCT, warm=True, dram_latency=500)
    assert none == cycles(PRODUCT, warm=False, dram_latency=500)
    assert own < min(other, none)


@STREAMS
@pytest.mark.parametrize("name", ["issue_cycles", "loop_cycles"])
def test_a_slower_processor_saves_no_cycle(sent, name):
    found = [cycles(sent, Core(**{name: value})) for value in (1, 50, 2000)]
    assert found == sorted(found)


def test_a_matrix_that_does_not_fit_the_l2_is_read_again():
    """Each pass over the second matrix, 96 KB, misses in an L2 of 16 KB and not in one of 256 KB."""
    sent = matmul_stream(256, 512, 192, Memories(accumulator_rows=128), Options(bias=False), base=1 << 20)
    small, large = (cycles(sent, l2_bytes=kilo << 10, dram_latency=500, misses_in_flight=2) for kilo in (16, 256))
    assert small > 2 * large


def test_a_report_tells_the_accelerator_alone_from_the_rest(tmp_path):
    parts = write_parts(tmp_path, PRODUCT.words.tolist(), accelerator="gemmini-rocket", expected=(), dram_bytes=1 << 22)
    report = run_program(open_program(parts), SimulateOptions(engine="timing"), None)
    assert report.accelerator_cycles == cycles(PRODUCT)
    assert report.cycles > report.accelerator_cycles
    assert "not fitted" in report.timing_model.statement


@pytest.mark.slow
@needs_gemmini_golden
def test_layers_that_it_was_not_fitted_to_are_as_near_as_it_says():
    """Of the other half, those of up to two million cycles; bench/gemmini_firesim.py has all."""
    layers = [each for each in measured_layers(FIRESIM) if not each.fitted and each.cycles < 2_000_000]
    median, most, _ = spread(predictions(layers, parameters_of(ROCKET)))
    assert median < 4
    assert most < 12
