"""How far the cycle counts can be trusted: what was compared with hardware, and whether a program asks for just that.

The comparison is with a Verilated VTAShell of tvm-vta's Chisel sources: cycles of whole programs (24 streams and 19
runs at a read latency of 16 cycles, 16 streams at others) and of micro-benchmarks.
"""

from collections.abc import Iterable

from accel.accelerator.document import Accelerator
from accel.accelerator.memories import Memory
from accel.accelerator.synchronisation import TokenSync
from accel.accelerator.timing_model import TimingModel
from accel.isa.decode import Decoded
from accel.isa.vta.compared import beyond
from accel.isa.vta.config import vta_accelerator
from accel.isa.vta.parameters import parameters_of
from accel.isa.vta.ten_keys import VtaConfig
from accel.isa.vta.variant import CHISEL
from accel.isa.vta.view import view

PROGRAMS = 59
EXACT_PROGRAMS = 59
MICRO_BENCHMARKS = 95
EXACT_MICRO_BENCHMARKS = 95
WORST_PERCENT = 0.0
LATENCIES = (0, 16, 64, 128, 200)


def timing_model(accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
    """What is known of the cycles on ``accelerator``, from the fields of its document and a program's instructions."""
    differences, used = _differences(accelerator), beyond(launches)
    outside = [*differences, *used]
    known = (
        f"exact on {EXACT_PROGRAMS} of {PROGRAMS} RTL programs and {EXACT_MICRO_BENCHMARKS} of {MICRO_BENCHMARKS} "
        f"micro-benchmarks; worst {WORST_PERCENT:.2f}%"
    )
    if not outside:
        return TimingModel(
            statement=known,
            calibrated=True,
            exact=EXACT_PROGRAMS,
            of=PROGRAMS,
            worst_percent=WORST_PERCENT,
            outside=[],
        )
    uses = f"modelled: the program uses {'; '.join(used)}"
    statement = (
        f"not compared with any hardware: {'; '.join(differences)}. The rules are those of the Chisel RTL ({known}) "
        "with these values in their place; no HLS design was measured"
    )
    if not differences:
        statement = f"{uses}. The rest follows the rules of the Chisel RTL ({known})"
    elif used:
        statement += f". It is {uses}"
    return TimingModel(statement=statement, calibrated=False, exact=0, of=0, worst_percent=None, outside=outside)


def _differences(accelerator: Accelerator) -> list[str]:
    """Everything of the document that the cycle counts depend on, and that is not as it was compared."""
    wanted = vta_accelerator(VtaConfig(), CHISEL)
    facts = [*_sizes(accelerator, wanted), *_clockwork(accelerator, wanted)]
    outside = [f"{what} {found}, calibrated {calibrated}" for what, found, calibrated in facts if found != calibrated]
    if accelerator.dram.read_latency not in LATENCIES:
        latencies = ", ".join(map(str, LATENCIES[:-1])) + f" and {LATENCIES[-1]}"
        outside.append(f"read latency {accelerator.dram.read_latency} cycles, calibrated {latencies}")
    return outside


def _sizes(accelerator: Accelerator, wanted: Accelerator) -> list[tuple[str, object, object]]:
    facts: list[tuple[str, object, object]] = []
    for role, memory in _roles(accelerator).items():
        found, calibrated = accelerator.memory(memory), wanted.memory(_roles(wanted)[role])
        facts.append((f"element of {memory}", _shape(found), _shape(calibrated)))
        if role != "microops":  # the RTL has 2,048 and the configuration says 8,192: it makes no difference to time
            facts.append((f"elements of {memory}", found.depth, calibrated.depth))
    return facts


def _shape(memory: Memory) -> str:
    return " x ".join(map(str, memory.shape))


def _roles(accelerator: Accelerator) -> dict[str, str]:
    return dict(zip(("microops", "data", "weights", "accumulators"), view(accelerator).memories, strict=True))


def _clockwork(accelerator: Accelerator, wanted: Accelerator) -> list[tuple[str, object, object]]:
    dram, timing, like = accelerator.dram, parameters_of(accelerator), parameters_of(wanted)
    sync, like_sync = accelerator.synchronisation, wanted.synchronisation
    assert isinstance(sync, TokenSync)
    assert isinstance(like_sync, TokenSync)
    depths = [timing.queue_depths[unit] for unit in accelerator.units]
    return [
        ("bits of the memory bus", 8 * dram.bus_bytes, 8 * wanted.dram.bus_bytes),
        ("beats of a burst", dram.burst_beats, wanted.dram.burst_beats),
        ("bytes that a burst does not cross", dram.burst_boundary_bytes, wanted.dram.burst_boundary_bytes),
        ("instructions of a fetch", timing.fetch_burst_instructions, like.fetch_burst_instructions),
        ("depth of the instruction queues", depths, [like.queue_depths[unit] for unit in wanted.units]),
        ("limit of a token counter", sync.limit, like_sync.limit),
        ("reads in flight", timing.reads_in_flight, like.reads_in_flight),
        ("ALU cycles a pass with an immediate", timing.immediate_pass_cycles, like.immediate_pass_cycles),
        ("ALU cycles a pass with two operands", timing.two_operand_pass_cycles, like.two_operand_pass_cycles),
        ("leftover tokens carried over", sync.carry, like_sync.carry),
    ]
