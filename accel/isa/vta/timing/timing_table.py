"""VTA's instructions as the clock takes them: cycles, reads and tokens of each, filled in row by row."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import AnyInstruction, Compute, Copy
from accel.isa.decode import Decoded, encoding_arrays
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, SCALAR, VECTOR, Array
from accel.isa.vta.document.instruction_view import Vta, instructions_of
from accel.isa.vta.document.vta_parameters import VtaParameters, parameters_of
from accel.isa.vta.timing import clock_columns as layout
from accel.isa.vta.timing import event_loop as kernel
from accel.util.arrays import Int64
from accel.util.same_object import SameObject

Kinds = npt.NDArray[np.int16]
KINDS = Array("int16", 1)
# the columns that an instruction may have, by role
ROLES = 17
DRAM, ROWS, COLUMNS, STRIDE, TOP, BOTTOM, LEFT, RIGHT = range(8)
BEGIN, END, OUTER, INNER, IMMEDIATE, POP_A, POP_B, PUSH_A, PUSH_B = range(8, ROLES)
# what is the same for all instructions of a sort
SORT = 17
ACTION, UNIT, SYNC, QUEUES = range(4)  # a queue for each of the four token roles
PIPELINE, WITH_IMMEDIATE, TWO_OPERANDS = range(7, 10)
ELEMENT, STORE, STORE_BURST, STORE_ELEMENT, PRIORITY, TAIL, ZEROS_LEAD = range(10, SORT)
# values of ACTION
NOTHING, PASSES, STORES, LOADS = range(4)


@compiled
def floors(count: int, step: int, first: int, divisor: int) -> int:
    """The sum of ``(first + i * step) // divisor`` over i < count, in the steps of Euclid's algorithm."""
    total = 0
    while True:
        total += count * (count - 1) // 2 * (step // divisor) + count * (first // divisor)
        step, first = step % divisor, first % divisor
        last = step * count + first
        if last < divisor:
            return int(total)
        count, first, step, divisor = last // divisor, last % divisor, divisor, step


@compiled
def _store_cycles(copy: Int64, sort: Int64, boundary: int) -> int:
    """A start, and for each burst its handshake and, for each element, a read of the memory and its beats."""
    rows, size, address, stride = (copy[layout.ROWS], copy[layout.ROW_BYTES], copy[layout.ADDRESS], copy[layout.STRIDE])
    ends, begins = floors(rows, stride, address + size - 1, boundary), floors(rows, stride, address, boundary)
    elements = rows * size // sort[ELEMENT]
    return int(sort[STORE] + sort[STORE_BURST] * (rows + ends - begins) + sort[STORE_ELEMENT] * elements)


@compiled
def _value(fields: Int64, places: Int64, role: int, row: int) -> int:
    """What an instruction has in a role; 0 where it has no such field."""
    return int(fields[places[role], row]) if places[role] >= 0 else 0


@compiled
def fill(kind: Kinds, fields: Int64, sorts: Int64, places: Int64, lead: int, boundary: int, table: Int64) -> None:
    """Fill a row of ``table`` for each instruction.

    What an instruction has no use for stays undefined.

    Args:
        kind: (n,) the sort of each instruction.
        fields: (fields, n) their values.
        sorts: (sorts, SORT) what is the same for all of a sort.
        places: (sorts, ROLES) the row of ``fields`` of each role; -1: there is none.
        lead: cycles from a load's start to its first command.
        boundary: bytes that no burst crosses.
        table: (n, 16).
    """
    for row in range(len(kind)):
        entry, sort, place = table[row], sorts[kind[row]], places[kind[row]]
        entry[layout.UNIT] = sort[UNIT]
        entry[layout.PRIORITY] = 0
        entry[layout.DURATION] = sort[SYNC]
        for token in range(4):
            queue = sort[QUEUES + token]
            entry[layout.POP_A + token] = queue if queue >= 0 and _value(fields, place, POP_A + token, row) != 0 else -1
        if sort[ACTION] == PASSES:
            microops = _value(fields, place, END, row) - _value(fields, place, BEGIN, row)
            passes = _value(fields, place, OUTER, row) * _value(fields, place, INNER, row) * max(microops, 0)
            each = sort[WITH_IMMEDIATE] if _value(fields, place, IMMEDIATE, row) != 0 else sort[TWO_OPERANDS]
            entry[layout.DURATION] = sort[PIPELINE] + each * passes
        elif sort[ACTION] != NOTHING:
            rows, columns = _value(fields, place, ROWS, row), _value(fields, place, COLUMNS, row)
            if rows * columns == 0:
                continue
            entry[layout.ADDRESS] = _value(fields, place, DRAM, row) * sort[ELEMENT]
            entry[layout.ROWS] = rows
            entry[layout.ROW_BYTES] = columns * sort[ELEMENT]
            entry[layout.STRIDE] = _value(fields, place, STRIDE, row) * sort[ELEMENT]
            if sort[ACTION] == STORES:
                entry[layout.DURATION] = _store_cycles(entry, sort, boundary)
                continue
            above, below = _value(fields, place, TOP, row), _value(fields, place, BOTTOM, row)
            sides = _value(fields, place, LEFT, row) + _value(fields, place, RIGHT, row)
            width = sides + columns
            bare = sides == 0 and below > 0
            entry[layout.PRIORITY] = sort[PRIORITY]
            entry[layout.DURATION] = lead + above
            entry[layout.TAIL] = sort[TAIL]
            entry[layout.ZEROS_LEAD] = sort[ZEROS_LEAD]
            entry[layout.ZEROS] = width * above + (0 if bare else sides * rows + width * below)
            entry[layout.BARE_ROWS] = rows if bare else 0
            entry[layout.ZEROS_BELOW] = width * below if bare else 0


_SYNC = 2  # Compute, Load, Store: idle -> sync -> idle; finish: idle -> execute -> idle
_PIPELINE = 7  # TensorGemm, TensorAlu: start register, index generator, read, multiply or operate, write back
_STORE_START = 1  # Store: idle -> execute
_STORE_BURST = 3  # TensorStoreNarrowVME, VME: write command, address, acknowledge
_STORE_ELEMENT = 1  # TensorStoreNarrowVME: sReadMem, before the element's beats
_COMMAND = 2  # from an instruction's start to its first command at the bus: command generator, client queue
_DATA = 3  # from the cycle after the last beat to the instruction's end: VME, data pipe, block count
_DATA_WIDE = 2  # TensorLoad: TensorLoadWideVME loads elements that fit a beat, and has no data pipe
_ZEROS = 2  # from the start to the first zero written: ZeroPadding starts from a register
_ZEROS_WIDE = 1  # TensorLoadWideVME has no such register
_FETCH_COMMAND = 1  # from launch, or from the cycle after the last dispatch, to the read command (FetchVME64 sReadCmd)
_FETCH_DATA = 2  # from the cycle after the burst's last beat to the unit's first sight of it: sDrain, its queue
_RESPONSE = 2  # from a read command to the first beat, with a latency of 0: the memory of the recordings


def token_queues(accelerator: Accelerator) -> list[tuple[str, str]]:
    """The (producer, consumer) pairs of the document, in the order in which its instructions name them."""
    pairs: dict[tuple[str, str], None] = {}
    for instruction in accelerator.instructions:
        pairs.update({(instruction.unit, other): None for other in instruction.tokens.push})
        pairs.update({(other, instruction.unit): None for other in instruction.tokens.pop})
    return list(pairs)


def _sort(accelerator: Accelerator, vta: Vta, parameters: VtaParameters, instruction: AnyInstruction) -> Int64:
    """What is the same for all instructions of a sort; queues are filled in by :func:`_tokens`."""
    sort = np.zeros(SORT, np.int64)
    sort[UNIT] = accelerator.units.index(instruction.unit)
    sort[SYNC] = _SYNC
    if isinstance(instruction, Compute):
        sort[ACTION] = PASSES
        sort[PIPELINE] = _PIPELINE
        each = (1, 1)
        if instruction.name == vta.alu.instruction.name:
            each = (parameters.immediate_pass_cycles, parameters.two_operand_pass_cycles)
        sort[[WITH_IMMEDIATE, TWO_OPERANDS]] = each
    elif isinstance(instruction, Copy):
        size = instruction.dram_bytes(accelerator.memory(instruction.memory))
        sort[ELEMENT] = size
        if instruction.direction == "store":
            beats = -(-size // accelerator.dram.bus_bytes)
            sort[[ACTION, STORE, STORE_BURST, STORE_ELEMENT]] = (
                STORES, _STORE_START, _STORE_BURST, _STORE_ELEMENT + beats
            )  # fmt: skip
        else:
            # the memory engine's clients after fetch, first served first
            sort[[ACTION, PRIORITY]] = LOADS, 1 + vta.memories.index(instruction.memory)
            wide = size <= accelerator.dram.bus_bytes
            sort[[TAIL, ZEROS_LEAD]] = (_DATA_WIDE, _ZEROS_WIDE) if wide else (_DATA, _ZEROS)
    return sort


def _fields(vta: Vta, instruction: AnyInstruction) -> dict[int, str | None]:
    """The field of each role that the instruction has."""
    fields: dict[int, str | None] = {}
    if isinstance(instruction, Copy):
        copy = instruction.copy_fields
        fields = {
            DRAM: copy.dram,
            ROWS: copy.rows,
            COLUMNS: copy.columns,
            STRIDE: copy.row_stride,
            TOP: copy.pad_top,
            BOTTOM: copy.pad_bottom,
            LEFT: copy.pad_left,
            RIGHT: copy.pad_right,
        }
    elif isinstance(instruction, Compute) and instruction.microops is not None:
        outer, inner = instruction.loops
        fields = {
            BEGIN: instruction.microops.begin,
            END: instruction.microops.end,
            OUTER: outer.extent,
            INNER: inner.extent,
        }
        if instruction.name == vta.alu.instruction.name:
            fields[IMMEDIATE] = vta.alu.use_immediate
    return fields


def _tokens(queues: Sequence[tuple[str, str]], instruction: AnyInstruction, sort: Int64) -> dict[int, str | None]:
    """The fields of its tokens by role; puts their queues into ``sort``."""
    sort[QUEUES : QUEUES + 4] = -1
    fields: dict[int, str | None] = {}
    for offset, (other, field) in enumerate(instruction.tokens.pop.items()):
        fields[POP_A + offset] = field
        sort[QUEUES + offset] = queues.index((other, instruction.unit))
    for offset, (other, field) in enumerate(instruction.tokens.push.items()):
        fields[PUSH_A + offset] = field
        sort[QUEUES + 2 + offset] = queues.index((instruction.unit, other))
    return fields


@dataclass(frozen=True)
class InstructionCosts:
    """What the table of a launch depends on, but for its words: numbers of each sort of instruction.

    Attributes:
        sorts: (sorts, SORT) what is the same for all instructions of a sort.
        places: (sorts, ROLES) the row of a launch's fields of each role; -1: there is none.
        boundary: bytes that no burst crosses.
    """

    sorts: Int64
    places: Int64
    boundary: int

    def alike(self, other: "InstructionCosts") -> bool:
        """Returns whether each launch has the same table."""
        arrays = (self.sorts, other.sorts), (self.places, other.places)
        return self.boundary == other.boundary and all(np.array_equal(ours, theirs) for ours, theirs in arrays)

    def table(self, decoded: Decoded) -> Int64:
        """The kernel's table (n, 16): costs, reads and tokens of each instruction."""
        table = np.empty((len(decoded), layout.TABLE), np.int64)
        fill(decoded.kind, decoded.fields, self.sorts, self.places, _COMMAND, self.boundary, table)
        return table


def instruction_costs(accelerator: Accelerator) -> InstructionCosts:
    """Returns the costs that a document says and implies."""
    return _costs(SameObject(accelerator))


@functools.lru_cache(maxsize=16)
def _costs(same: SameObject[Accelerator]) -> InstructionCosts:
    accelerator = same.value
    vta, parameters, queues = instructions_of(accelerator), parameters_of(accelerator), token_queues(accelerator)
    row = {name: number for number, name in enumerate(encoding_arrays(accelerator).names)}
    sorts, places = [], []
    for instruction in accelerator.instructions:
        sort = _sort(accelerator, vta, parameters, instruction)
        names = _fields(vta, instruction) | _tokens(queues, instruction, sort)
        sorts.append(sort)
        places.append([-1 if (name := names.get(role)) is None else row.get(name, -1) for role in range(ROLES)])
    return InstructionCosts(np.stack(sorts), np.array(places, np.int64), accelerator.dram.burst_boundary_bytes)


def kernel_parameters(accelerator: Accelerator) -> Int64:
    """The kernel's parameters, which are the same for all instructions."""
    dram, parameters, sync = accelerator.dram, parameters_of(accelerator), accelerator.synchronisation
    assert isinstance(sync, TokenSync)
    values = np.zeros(layout.PARAMETERS, np.int64)
    values[layout.BUS] = dram.bus_bytes
    values[layout.LATENCY] = _RESPONSE + dram.read_latency
    values[layout.BURST_BEATS] = dram.burst_beats
    values[layout.BOUNDARY] = dram.burst_boundary_bytes
    values[layout.FETCH_BURST] = parameters.fetch_burst_instructions
    values[layout.TOKEN_LIMIT] = sync.limit
    values[layout.IN_FLIGHT] = parameters.reads_in_flight
    values[layout.FETCH_LEAD] = _FETCH_COMMAND
    values[layout.FETCH_TAIL] = _FETCH_DATA
    for unit, name in enumerate(accelerator.units):
        values[layout.QUEUE_DEPTHS + unit] = parameters.queue_depths[name]
    return values


def timing_signatures() -> tuple[Signature, ...]:
    """Returns what timing runs."""
    return (
        Signature(kernel.run_clock, MATRIX, VECTOR, MATRIX, VECTOR, MATRIX, MATRIX, MATRIX),
        Signature(fill, KINDS, MATRIX, MATRIX, MATRIX, SCALAR, SCALAR, MATRIX),
    )
