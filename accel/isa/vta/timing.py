"""VTA's cycles: decoded instructions to start, end and stalls.

The costs of single instructions are here, each with its source in the Chisel design (tvm-vta ``hardware/chisel``,
``core/``); what depends on the other units is in :mod:`accel.isa.vta.timing_kernel`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator, Contract, Copy, Map
from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.vta import timing_kernel as kernel
from accel.isa.vta.deadlock import deadlock

Int64 = npt.NDArray[np.int64]

_SYNC = 2  # Compute, Load, Store: idle -> sync -> idle; finish: idle -> execute -> idle
_PIPELINE = 7  # TensorGemm, TensorAlu: start register, index generator, read, multiply or operate, write back
_STORE_START = 1  # Store: idle -> execute
_STORE_BURST = 3  # TensorStoreNarrowVME, VME: write command, address, acknowledge
_STORE_ELEMENT = 1  # TensorStoreNarrowVME: sReadMem, before the element's beats
_COMMAND = 2  # from an instruction's start to its first command at the bus: command generator, client queue
_DATA = 5  # from the last beat to the instruction's end: two pipeline registers, block count, done, dequeue
_DATA_UOP = 4  # the same for micro-ops
_PADDING = 3  # before the first zero is written: ZeroPadding starts a cycle late, ends a cycle late
_FETCH_COMMAND = 2  # from launch, or from the queue's last dispatch, to the read command (FetchVME64 sReadCmd)
_FETCH_DATA = 3  # from the burst's last beat to the first dispatch: sDrain, instruction queue


@dataclass(frozen=True)
class Timing:
    """Cycles of one launch of n instructions.

    ``start`` and ``end`` are (n,); ``waits`` maps a cause to the cycles (n,) that an instruction lost to it:
    ``fetch`` (not fetched yet, or its unit's queue was full), a token queue such as ``load_to_compute``, or
    ``memory`` (the read channel served others). ``cycles`` is when the last instruction ended.
    """

    start: Int64
    end: Int64
    waits: dict[str, Int64]
    cycles: int
    busy: dict[str, int]
    tokens: dict[str, int]


def token_queues(accelerator: Accelerator) -> list[tuple[str, str]]:
    """The (producer, consumer) pairs of the document, in the order in which its instructions name them."""
    pairs: dict[tuple[str, str], None] = {}
    for instruction in accelerator.instructions:
        pairs.update({(instruction.unit, other): None for other in instruction.tokens.push})
        pairs.update({(other, instruction.unit): None for other in instruction.tokens.pop})
    return list(pairs)


def _queue_name(queue: tuple[str, str]) -> str:
    return "_to_".join(queue)


def token_names(accelerator: Accelerator) -> list[str]:
    """The queues' names, such as ``store_to_compute``, in the order of :func:`token_queues`."""
    return [_queue_name(queue) for queue in token_queues(accelerator)]


def token_state(accelerator: Accelerator, tokens: dict[str, int]) -> Int64:
    """Counters (queues,) from their names, such as ``store_to_compute``.

    Raises:
        SimulationError: a queue that the accelerator does not have, or a count beyond its counter.
    """
    names = token_names(accelerator)
    limit = accelerator.timing.token_limit
    for name, count in tokens.items():
        if name not in names:
            raise SimulationError(f"no token queue is called {name}; there are {', '.join(names)}", field="tokens")
        if not 0 <= count <= limit:
            raise SimulationError(f"{count} tokens in {name}; its counter holds 0 to {limit}", field="tokens")
    return np.array([tokens.get(name, 0) for name in names], np.int64)


def passes(decoded: Decoded, instruction: Contract | Map, rows: Int64) -> Int64:
    """Micro-ops executed: the product of the loop extents and the number of micro-ops."""
    table = instruction.microops
    count = decoded.column(table.end)[rows] - decoded.column(table.begin)[rows]
    for loop in instruction.loops:
        count = count * decoded.column(loop.extent)[rows]
    return np.asarray(np.maximum(count, 0))


def map_cycles(decoded: Decoded, instruction: Map, rows: Int64) -> Int64:
    """Cycles of a map's passes: what the document says of one pass, with an immediate and with two operands."""
    timing = decoded.accelerator.timing
    immediate = decoded.column(instruction.use_immediate)[rows] != 0
    each = np.where(immediate, timing.immediate_pass_cycles, timing.two_operand_pass_cycles)
    return np.asarray(each * passes(decoded, instruction, rows))


def traffic(decoded: Decoded) -> tuple[Int64, Int64]:
    """Bytes read and bytes written (n,) by each instruction's own copy; fetching instructions is not counted."""
    moved = {"load": np.zeros(len(decoded), np.int64), "store": np.zeros(len(decoded), np.int64)}
    for copy in decoded.accelerator.instructions:
        if isinstance(copy, Copy):
            rows, fields = decoded.rows(copy), copy.copy_fields
            elements = decoded.column(fields.rows)[rows] * decoded.column(fields.columns)[rows]
            moved[copy.direction][rows] = elements * copy.dram_bytes(decoded.accelerator.memory(copy.memory))
    return moved["load"], moved["store"]


def _store_cycles(accelerator: Accelerator, table: Int64, size: int) -> Int64:
    """One cycle, and for each burst its handshake and, for each element, a read of the memory and its beats."""
    row_of = np.repeat(np.arange(len(table)), table[:, kernel.ROWS])
    first = np.cumsum(table[:, kernel.ROWS]) - table[:, kernel.ROWS]
    within = np.arange(len(row_of)) - first[row_of]
    address = table[row_of, kernel.ADDRESS] + within * table[row_of, kernel.STRIDE]
    boundary = accelerator.dram.burst_boundary_bytes
    bursts = (address + table[row_of, kernel.ROW_BYTES] - 1) // boundary - address // boundary + 1
    total = np.bincount(row_of, weights=bursts, minlength=len(table)).astype(np.int64)
    elements = table[:, kernel.ROWS] * table[:, kernel.ROW_BYTES] // size
    return _STORE_START + _STORE_BURST * total + elements * (_STORE_ELEMENT + -(-size // accelerator.dram.bus_bytes))


def _copies(decoded: Decoded, copy: Copy, rows: Int64) -> Int64:
    """The table's rows of copies that move something."""
    accelerator, fields = decoded.accelerator, copy.copy_fields
    size = copy.dram_bytes(accelerator.memory(copy.memory))

    def column(name: str | None) -> Int64:
        return decoded.column(name)[rows]

    table = np.zeros((len(rows), kernel.TABLE), np.int64)
    table[:, kernel.ADDRESS] = column(fields.dram) * size
    table[:, kernel.ROWS] = column(fields.rows)
    table[:, kernel.ROW_BYTES] = column(fields.columns) * size
    table[:, kernel.STRIDE] = column(fields.row_stride) * size
    if copy.direction == "store":
        table[:, kernel.DURATION] = _store_cycles(accelerator, table, size)
        return table
    microops = copy.memory == accelerator.contraction.microops.memory
    width = column(fields.pad_left) + column(fields.columns) + column(fields.pad_right)
    height = column(fields.pad_top) + column(fields.rows) + column(fields.pad_bottom)
    table[:, kernel.IS_READ] = 1
    table[:, kernel.PRIORITY] = 1 + _PRIORITY.index(_role(accelerator, copy.memory))
    table[:, kernel.LEAD] = _COMMAND + column(fields.pad_top)
    table[:, kernel.TAIL] = _DATA_UOP if microops else _DATA
    table[:, kernel.PADDING] = width * height - column(fields.rows) * column(fields.columns)
    table[:, kernel.TOP_PADDING] = width * column(fields.pad_top)
    bare = (column(fields.pad_left) + column(fields.pad_right) == 0) & (column(fields.pad_bottom) > 0)
    table[:, kernel.BARE_ROWS] = np.where(bare, column(fields.rows), 0)
    return table


_PRIORITY = ("microops", "data", "weights", "dst")  # the memory engine's clients after fetch, first served first


def _role(accelerator: Accelerator, memory: str) -> str:
    contraction = accelerator.contraction
    if memory == contraction.microops.memory:
        return "microops"
    roles = {contraction.data.memory: "data", contraction.weights.memory: "weights", contraction.dst.memory: "dst"}
    return roles[memory]


def instruction_table(decoded: Decoded) -> Int64:
    """The kernel's table (n, 17): costs, reads and tokens of each instruction."""
    accelerator = decoded.accelerator
    queues = token_queues(accelerator)
    table = np.zeros((len(decoded), kernel.TABLE), np.int64)
    for instruction in accelerator.instructions:
        rows = decoded.rows(instruction)
        part = np.zeros((len(rows), kernel.TABLE), np.int64)
        part[:, kernel.DURATION] = _SYNC
        if isinstance(instruction, Contract):
            part[:, kernel.DURATION] = _PIPELINE + passes(decoded, instruction, rows)
        elif isinstance(instruction, Map):
            part[:, kernel.DURATION] = _PIPELINE + map_cycles(decoded, instruction, rows)
        elif isinstance(instruction, Copy):
            fields = instruction.copy_fields
            moves = np.flatnonzero(decoded.column(fields.rows)[rows] * decoded.column(fields.columns)[rows])
            part[moves] = _copies(decoded, instruction, rows[moves])
        part[:, kernel.UNIT] = accelerator.units.index(instruction.unit)
        part[:, kernel.POP_A : kernel.PUSH_B + 1] = -1
        for first, direction in ((kernel.POP_A, instruction.tokens.pop), (kernel.PUSH_A, instruction.tokens.push)):
            for offset, (other, field) in enumerate(direction.items()):
                queue = (other, instruction.unit) if first == kernel.POP_A else (instruction.unit, other)
                part[:, first + offset] = np.where(decoded.column(field)[rows] != 0, queues.index(queue), -1)
        table[rows] = part
    return table


def _parameters(accelerator: Accelerator) -> Int64:
    dram, timing = accelerator.dram, accelerator.timing
    parameters = np.zeros(kernel.PARAMETERS, np.int64)
    parameters[kernel.BUS] = dram.bus_bytes
    parameters[kernel.LATENCY] = dram.read_latency
    parameters[kernel.BURST_BEATS] = dram.burst_beats
    parameters[kernel.BOUNDARY] = dram.burst_boundary_bytes
    parameters[kernel.FETCH_BURST] = timing.fetch_burst_instructions
    parameters[kernel.TOKEN_LIMIT] = timing.token_limit
    parameters[kernel.IN_FLIGHT] = timing.reads_in_flight
    parameters[kernel.FETCH_LEAD] = _FETCH_COMMAND
    parameters[kernel.FETCH_TAIL] = _FETCH_DATA
    parameters[kernel.PADDING_LEAD] = _PADDING
    for unit, name in enumerate(accelerator.units):
        parameters[kernel.QUEUE_DEPTHS + unit] = timing.queue_depths[name]
    return parameters


def time_launch(decoded: Decoded, tokens: dict[str, int]) -> Timing:
    """Cycles of one launch that finds ``tokens`` in the queues.

    Raises:
        SimulationError: a deadlock, with the unit, the instruction and the token it waits for.
    """
    table = instruction_table(decoded)
    counters = token_state(decoded.accelerator, tokens)
    result = np.zeros((len(table), kernel.RESULT), np.int64)
    if kernel.run(table, _parameters(decoded.accelerator), counters, result) < len(table):
        raise _deadlock(decoded, table, counters, result)
    return _timing(decoded.accelerator, table, counters, result)


def _deadlock(decoded: Decoded, table: Int64, counters: Int64, result: Int64) -> SimulationError:
    waiting = []
    for unit in range(len(decoded.accelerator.units)):
        pending = np.flatnonzero((table[:, kernel.UNIT] == unit) & (result[:, kernel.END] < 0))
        if len(pending) and result[pending[0], kernel.DISPATCHED] >= 0:
            waiting.append(int(pending[0]))
    pops = table[:, kernel.POP_A : kernel.POP_B + 1]
    return deadlock(decoded, waiting, pops, token_names(decoded.accelerator), counters)


def _timing(accelerator: Accelerator, table: Int64, counters: Int64, result: Int64) -> Timing:
    queues = token_queues(accelerator)
    start, end = result[:, kernel.START].copy(), result[:, kernel.END].copy()
    waits = {"fetch": np.zeros(len(table), np.int64)}
    waits |= {_queue_name(queue): np.zeros(len(table), np.int64) for queue in queues}
    waits["memory"] = end - result[:, kernel.UNOBSTRUCTED]
    ready = np.zeros(len(table), np.int64)
    busy = {}
    for unit, name in enumerate(accelerator.units):
        rows = np.flatnonzero(table[:, kernel.UNIT] == unit)
        ready[rows[1:]] = end[rows[:-1]]
        busy[name] = int((end[rows] - start[rows]).sum())
    for cause, time in (("fetch", kernel.DISPATCHED), ("a", kernel.TOKEN_A), ("b", kernel.TOKEN_B)):
        lost = np.maximum(result[:, time] - ready, 0)
        ready += lost
        if cause == "fetch":
            waits["fetch"] = lost
            continue
        popped = table[:, kernel.POP_A if cause == "a" else kernel.POP_B]
        for queue, pair in enumerate(queues):
            waits[_queue_name(pair)] += np.where(popped == queue, lost, 0)
    tokens = {_queue_name(queue): int(count) for queue, count in zip(queues, counters, strict=True)}
    return Timing(start, end, waits, int(end.max(initial=0)), busy, tokens)
