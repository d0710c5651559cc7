"""VTA's cycles: decoded instructions to start, end and stalls.

What single instructions cost is in :mod:`accel.isa.vta.timing_table`, what depends on the other units in
:mod:`accel.isa.vta.timing_kernel`; ``docs/timing.md`` has all rules, with their sources.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator, Contract, Copy, Map
from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.vta import timing_kernel as kernel
from accel.isa.vta import timing_layout as layout
from accel.isa.vta.deadlock import deadlock
from accel.isa.vta.timing_table import instruction_table, parameters, token_queues

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Timing:
    """Cycles of one launch of n instructions.

    ``start`` and ``end`` are (n,); ``waits`` maps a cause to the cycles (n,) that an instruction lost to it:
    ``fetch`` (not fetched yet, or its unit's queue was full), a token queue such as ``load_to_compute``, or
    ``memory`` (the read channel served others). ``cycles`` is when FINISH ended, or without one the last instruction;
    what other units still do then is in ``end`` and ``busy`` and not in it. ``busy`` maps a unit to its cycles at work.
    """

    start: Int64
    end: Int64
    waits: dict[str, Int64]
    cycles: int
    busy: dict[str, int]
    tokens: dict[str, int]


def token_names(accelerator: Accelerator) -> list[str]:
    """The queues' names, such as ``store_to_compute``, in the order of :func:`token_queues`."""
    return ["_to_".join(queue) for queue in token_queues(accelerator)]


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


def time_launch(decoded: Decoded, tokens: dict[str, int]) -> Timing:
    """Cycles of one launch that finds ``tokens`` in the queues.

    Raises:
        SimulationError: a deadlock, with the unit, the instruction and the token it waits for.
    """
    accelerator, count = decoded.accelerator, len(decoded)
    names, counters = token_names(accelerator), token_state(accelerator, tokens)
    table = instruction_table(decoded)
    times = np.empty((layout.TIMES, count), np.int64)
    waits = np.zeros((2 + len(names), count), np.int64)
    units = np.zeros((layout.UNITS, len(accelerator.units)), np.int64)
    entries = 1 << min(count, max(accelerator.timing.queue_depths.values())).bit_length()
    queues = np.empty((len(accelerator.units), entries), np.int64)
    if kernel.run(table, parameters(accelerator), queues, counters, times, waits, units) < count:
        waiting = [int(index) for index in units[layout.STUCK] if index >= 0]
        raise deadlock(decoded, waiting, table[:, layout.POP_A : layout.POP_B + 1], names, counters)
    start, end = times
    return Timing(
        start=start,
        end=end,
        waits=dict(zip(("fetch", *names, "memory"), waits, strict=True)),
        cycles=_finish(decoded, end),
        busy=dict(zip(accelerator.units, units[layout.BUSY].tolist(), strict=True)),
        tokens=dict(zip(names, counters.tolist(), strict=True)),
    )


def _finish(decoded: Decoded, end: Int64) -> int:
    """When the launch is over: EventCounters stops at FINISH, whatever the other units still do."""
    finishes = decoded.rows(decoded.accelerator.finish)
    return int(end[finishes[0]]) if len(finishes) else int(end.max(initial=0))
