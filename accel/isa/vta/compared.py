"""What of VTA's instructions was compared with the Chisel RTL, and what a program asks for beyond it.

The tables hold what the recordings have (``tests/accel/isa/vta/test_calibration.py`` finds the same in them), and what
the RTL lacks or does otherwise; ``docs/timing.md`` has the sources.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from accel.accelerator.instructions import Compute, Copy
from accel.isa.decode import Decoded
from accel.isa.vta.view import Alu, Vta, view

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


def beyond(launches: Iterable[Decoded]) -> list[str]:
    """What the instructions of a program ask for that was not compared, each once, with what is known of it."""
    return list(dict.fromkeys(found for decoded in launches for found in _beyond(decoded)))


def _beyond(decoded: Decoded) -> Iterator[str]:
    accelerator, vta = decoded.accelerator, view(decoded.accelerator)
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


def _sides(padded: npt.NDArray[np.bool_]) -> list[tuple[str, ...]]:
    """The combinations of sides, padded (4, n), that are there."""
    kinds = np.unique(padded[:, padded.any(axis=0)], axis=1).T
    return [tuple(side for side, there in zip(SIDES, kind, strict=True) if there) for kind in kinds.tolist()]
