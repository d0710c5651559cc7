"""How far Gemmini's cycle counts can be trusted: what was recorded of the registers of two designs, and on an FPGA.

``tests/integration/accel/isa/gemmini/test_recorded_registers.py`` runs all recordings: every one takes the same cycles,
and so does every primitive instruction of it. Four streams were read on an FPGA (FireSim, the lean configuration, as
published by OpenASDx); ``test_gemmini_timing.py`` beside it compares. The FPGA's counts include the processor that
sends the instructions, its caches and its translation of addresses. So do those of the layers that the artifact of DOSA
(MICRO 2023) has, to half of which ``gemmini-rocket`` was fitted.
"""

from collections.abc import Iterable

from accel.accelerator.document import Accelerator
from accel.accelerator.timing_model import TimingModel
from accel.isa.decode import Decoded
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import Core, GemminiParameters, MemoryHierarchy

DEFAULT = GemminiParameters()
EIGHT = GemminiParameters(
    dim=8,
    scratchpad_bytes=64 * 1024,
    accumulator_bytes=32 * 1024,
    accumulator_banks=1,
    dma_bus_bytes=8,
    requests_in_flight=8,
    relu_before_scale=True,
)
LEAN = GemminiParameters(requests_in_flight=64, memory_latency=60, core=Core(issue_cycles=40))
FPGA_STREAMS = 4
FPGA_WORST = 7.7  # percent: conv_dw_perf, too many; tiled_matmul_ws -0.3, tiled_matmul_ws_perf -7.0, conv_perf -6.0
ROCKET = GemminiParameters(
    core=Core(issue_cycles=3, loop_cycles=100, start_cycles=500),
    memory=MemoryHierarchy(
        l2_latency=16,
        l2_bus_bytes=16,
        l2_write_cycles=20,
        misses_in_flight=10,
        llc_bytes=4 << 20,
        llc_latency=20,
        llc_line_bytes=128,
        llc_bus_bytes=8,
        dram_latency=16,
        dram_row_cycles=28,
        dram_banks=32,
    ),
)
FIRESIM_LAYERS = 74  # measured on an FPGA and not fitted to; bench/gemmini_firesim.py times them
FIRESIM_ERRORS = 3.0, 11.6, 26.3  # percent: median, 90th percentile, worst
RUNS = {"16x16": 908 * 3, "8x8": 758 * 3}  # streams, at three latencies of the memory
_BYTES_ALONE = ("relu_before_scale", "shift_into_accumulator")  # parameters that take no time
_FREE = ("memory_latency", *_BYTES_ALONE)
_STATEMENT = (
    "the same cycles as the registers of the RTL, event by event, in {runs} recorded runs of a {design} design, at "
    "memory latencies of 10, 30 and 80 cycles; the accelerator alone, without a processor"
)
_FPGA = (
    "within 8% of an FPGA on two products of matrices and two convolutions, with a processor that sends an instruction "
    "every 40 cycles and a memory that answers after 60, which were fitted to these four; the accelerator is "
    "a recorded design, but for its requests in flight"
)
_FIRESIM = (
    "modelled, with a processor and with memory; median {:.1f}%, 90th percentile {:.1f}% over {} layers measured on "
    "FireSim that it was not fitted to; the accelerator alone, whose cycles are given beside, has the same cycles as "
    "the registers of the RTL in all recorded runs"
)
_ELSEWHERE = (
    "not compared with any hardware: {outside}. The mechanism is the one that has the same cycles as the RTL of two "
    "designs, 16x16 and 8x8"
)


def timing_model(accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
    """Returns what is known of the cycles of an accelerator; all that ``launches`` may send was recorded."""
    del launches
    parameters = parameters_of(accelerator)
    if not _differences(parameters, LEAN, _BYTES_ALONE):
        return TimingModel(
            statement=_FPGA, calibrated=True, exact=0, of=FPGA_STREAMS, worst_percent=FPGA_WORST, outside=[]
        )
    if not _differences(parameters, ROCKET, _BYTES_ALONE):
        median, most, worst = FIRESIM_ERRORS
        statement = _FIRESIM.format(median, most, FIRESIM_LAYERS)
        return TimingModel(
            statement=statement, calibrated=True, exact=0, of=FIRESIM_LAYERS, worst_percent=worst, outside=[]
        )
    differences = {"16x16": _differences(parameters, DEFAULT, _FREE), "8x8": _differences(parameters, EIGHT, _FREE)}
    for design, outside in differences.items():
        if not outside:
            runs = RUNS[design]
            statement = _STATEMENT.format(runs=runs, design=design)
            return TimingModel(statement=statement, calibrated=True, exact=runs, of=runs, worst_percent=0.0, outside=[])
    outside = min(differences.values(), key=len)
    return TimingModel(
        statement=_ELSEWHERE.format(outside="; ".join(outside)),
        calibrated=False,
        exact=0,
        of=0,
        worst_percent=None,
        outside=outside,
    )


def _differences(parameters: GemminiParameters, recorded: GemminiParameters, free: tuple[str, ...]) -> list[str]:
    """Parameters that another design was compared with; those that are ``free`` left out."""
    known = recorded.model_dump()
    return [
        f"{name} {value}, compared {known[name]}"
        for name, value in parameters.model_dump().items()
        if name not in free and value != known[name]
    ]
