"""How far VTA's cycle counts can be trusted: what was compared with hardware, and what a program asks for beyond it."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.memories import Memory
from accel.accelerator.timing_model import TimingModel
from accel.isa.decode import Decoded
from accel.isa.vta.document.instruction_view import Alu, Vta, instructions_of
from accel.isa.vta.document.vta_configuration import CHISEL, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.document.vta_parameters import parameters_of

# operations of the ALU that were recorded: the name, and whether the second operand is an immediate
OPERATIONS = frozenset(
    {("min", True), ("max", True), ("add", True), ("shift_right", True), ("max", False), ("add", False)}
)
SIDES = ("top", "bottom", "left", "right")
# sides that a load of each memory, by its role, was recorded with padding at; none but these
PADDING: dict[str, frozenset[tuple[str, ...]]] = {
    "data": frozenset(
        {
            ("top",), ("bottom",), ("left",), ("right",), ("left", "right"), ("top", "left"), ("top", "right"),
            ("bottom", "left"), ("bottom", "right"), ("top", "left", "right"), ("bottom", "left", "right"), SIDES,
        }
    ),
    "results": frozenset({("top",), ("bottom",), ("left",), ("right",), SIDES}),
    "weights": frozenset(),
    "microops": frozenset(),
}  # fmt: skip
MICROOPS = 2048  # that the RTL holds
_WHOLE_LOAD = 2048  # elements of data, 4,096 beats: the RTL's count of beats on their way comes round to 0
_HIDDEN_LATENCY = 16  # cycles: a beat of such a load is there before the last is asked for, as was recorded
_LACKS = "which the compared RTL does not have: it hangs"
_UNRECORDED = "which no recording has"


def not_compared(launches: Iterable[Decoded]) -> list[str]:
    """What the instructions of a program ask for that was not compared, each once, with what is known of it."""
    return list(dict.fromkeys(found for decoded in launches for found in _not_compared_of(decoded)))


def _not_compared_of(decoded: Decoded) -> Iterator[str]:
    accelerator, vta = decoded.accelerator, instructions_of(decoded.accelerator)
    yield from _operations(decoded, vta.alu)
    for compute in (vta.gemm.instruction, vta.alu.instruction):
        yield from _loops(decoded, compute)
    for copy in accelerator.instructions:
        if isinstance(copy, Copy):
            yield from _copies(decoded, copy, vta)
    finish = accelerator.finish
    if len(decoded) and finish is not None and not len(decoded.rows(finish)):
        yield "a launch without FINISH, which never ends on the RTL"


def _operations(decoded: Decoded, alu: Alu) -> Iterator[str]:
    rows = decoded.rows(alu.instruction)
    codes, immediate = decoded.column(alu.opcode)[rows], decoded.column(alu.use_immediate)[rows] != 0
    for code, with_immediate in sorted(set(zip(codes.tolist(), immediate.tolist(), strict=True))):
        name = alu.codes.get(code, "")  # one that is undefined is diagnosed where it runs
        if name == "multiply":
            yield f"the ALU operation MUL, {_LACKS}"
        elif name and (name, with_immediate) not in OPERATIONS:
            second = "an immediate" if with_immediate else "two operands"
            yield f"the ALU operation {name} with {second}, {_UNRECORDED}"


def _loops(decoded: Decoded, compute: Compute) -> Iterator[str]:
    rows, microops = decoded.rows(compute), compute.microops
    assert microops is not None
    begin, end = decoded.column(microops.begin)[rows], decoded.column(microops.end)[rows]
    turns = np.prod([decoded.column(loop.extent)[rows] for loop in compute.loops], axis=0)
    if (turns * np.maximum(end - begin, 0) == 0).any():
        yield f"{compute.name} of no turns or no micro-ops, of which the RTL makes 16,384 turns"
    if (end > MICROOPS).any():
        yield _many_microops()


def _many_microops() -> str:
    return f"micro-ops beyond the {MICROOPS:,} that the compared RTL holds"


def _copies(decoded: Decoded, copy: Copy, vta: Vta) -> Iterator[str]:
    accelerator, fields, all_rows = decoded.accelerator, copy.copy_fields, decoded.rows(copy)
    sizes = decoded.column(fields.rows)[all_rows], decoded.column(fields.columns)[all_rows]
    if ((sizes[0] == 0) != (sizes[1] == 0)).any():
        yield f"{copy.name} with one of its sizes 0 and not the other, {_UNRECORDED}"
    rows = all_rows[sizes[0] * sizes[1] > 0]
    if copy.direction == "store" or not len(rows):
        return
    if copy.memory == vta.results and copy.dram_dtype == "int8":
        yield f"{copy.name} (memory type acc_8bit), {_LACKS}"
        return
    role = dict(zip(vta.memories, ("microops", "data", "weights", "results"), strict=True))[copy.memory]
    pads = [fields.pad_top, fields.pad_bottom, fields.pad_left, fields.pad_right]
    padded = np.stack([decoded.column(name)[rows] > 0 for name in pads])
    for sides in _sides(padded):
        if sides not in PADDING[role]:
            yield f"{copy.name} with padding at {' and '.join(sides)}, {_UNRECORDED}"
    elements = decoded.column(fields.rows)[rows] * decoded.column(fields.columns)[rows]
    if role == "data" and accelerator.dram.read_latency > _HIDDEN_LATENCY and (elements >= _WHOLE_LOAD).any():
        yield f"{copy.name} of {_WHOLE_LOAD:,} elements at once, which ends early on the RTL at such a latency"
    if role == "microops" and (decoded.column(fields.sram)[rows] + elements > MICROOPS).any():
        yield _many_microops()


_SIDE_BITS = np.array([8, 4, 2, 1])


def _sides(padded: npt.NDArray[np.bool_]) -> list[tuple[str, ...]]:
    """The combinations of sides, padded (4, n), that are there."""
    codes = np.bincount(_SIDE_BITS @ padded, minlength=2 ** len(SIDES))
    return [
        tuple(side for side, bit in zip(SIDES, _SIDE_BITS.tolist(), strict=True) if code & bit)
        for code in codes.nonzero()[0].tolist()
        if code
    ]


PROGRAMS = 59
EXACT_PROGRAMS = 59
MICRO_BENCHMARKS = 95
EXACT_MICRO_BENCHMARKS = 95
WORST_PERCENT = 0.0
LATENCIES = (0, 16, 64, 128, 200)


def timing_model(accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
    """What is known of the cycles on ``accelerator``, from the fields of its document and a program's instructions."""
    differences, used = _differences(accelerator), not_compared(launches)
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
    facts = [*_sizes(accelerator, wanted), *_timing_differences(accelerator, wanted)]
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
    return dict(
        zip(("microops", "data", "weights", "accumulators"), instructions_of(accelerator).memories, strict=True)
    )


def _timing_differences(accelerator: Accelerator, wanted: Accelerator) -> list[tuple[str, object, object]]:
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
