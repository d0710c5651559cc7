"""VTA's cycles: decoded instructions to start, end and stalls; and which unit waits for which token in a deadlock."""

import functools
from collections.abc import Sequence

import numpy as np

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import AnyInstruction, Compute, Copy
from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.family import Family, TimeLaunch, Timing, Variation
from accel.isa.variations import OfLaunch, Scaled, scaled_variations, time_of
from accel.isa.vta.document.instruction_view import Alu
from accel.isa.vta.document.vta_parameters import parameters_of
from accel.isa.vta.timing import clock_columns as layout
from accel.isa.vta.timing import event_loop as kernel
from accel.isa.vta.timing.timing_table import instruction_costs, kernel_parameters, token_queues
from accel.util.arrays import Int64


def deadlock(
    decoded: Decoded, waiting: Sequence[int], pops: Int64, queues: Sequence[str], tokens: Int64
) -> SimulationError:
    """The error of a launch that cannot go on.

    Args:
        decoded: the launch.
        waiting: each stuck unit's next instruction.
        pops: the queues (n, 2) that each instruction waits for, or -1.
        queues: their names.
        tokens: what is in them (queues,).
    """
    told = []
    for index in waiting:
        instruction = decoded.accelerator.instructions[decoded.kind[index]]
        missing = [queues[queue] for queue in pops[index] if queue >= 0 and tokens[queue] == 0]
        if missing:
            told.append(
                f"{instruction.unit} waits at instruction {decoded.first + index} ({instruction.name}) for a token of "
                f"{' and '.join(missing)}"
            )
    at = decoded.first + min(waiting)
    return SimulationError("deadlock: " + "; ".join(told), field=f"instruction:{at}", kind="deadlock", instruction=at)


def token_sync(accelerator: Accelerator) -> TokenSync:
    """How the units of a VTA wait for each other."""
    sync = accelerator.synchronisation
    assert isinstance(sync, TokenSync)  # check_vta has seen to it
    return sync


def token_names(accelerator: Accelerator) -> list[str]:
    """The queues' names, such as ``store_to_compute``, in the order of :func:`token_queues`."""
    return ["_to_".join(queue) for queue in token_queues(accelerator)]


def token_state(accelerator: Accelerator, tokens: dict[str, int]) -> Int64:
    """Counters (queues,) from their names, such as ``store_to_compute``.

    Raises:
        SimulationError: a queue that the accelerator does not have, or a count beyond its counter.
    """
    names = token_names(accelerator)
    limit = token_sync(accelerator).limit
    for name, count in tokens.items():
        if name not in names:
            raise SimulationError(f"no token queue is called {name}; there are {', '.join(names)}", field="tokens")
        if not 0 <= count <= limit:
            raise SimulationError(f"{count} tokens in {name}; its counter holds 0 to {limit}", field="tokens")
    return np.array([tokens.get(name, 0) for name in names], np.int64)


def passes(decoded: Decoded, instruction: Compute, rows: Int64) -> Int64:
    """Micro-ops executed: the product of the loop extents and the number of micro-ops."""
    table = instruction.microops
    assert table is not None
    count = decoded.column(table.end)[rows] - decoded.column(table.begin)[rows]
    for loop in instruction.loops:
        count = count * decoded.column(loop.extent)[rows]
    return np.asarray(np.maximum(count, 0))


def alu_cycles(decoded: Decoded, alu: Alu, rows: Int64) -> Int64:
    """Cycles of the ALU's passes: what the document says of one pass, with an immediate and with two operands."""
    parameters = parameters_of(decoded.accelerator)
    immediate = decoded.column(alu.use_immediate)[rows] != 0
    each = np.where(immediate, parameters.immediate_pass_cycles, parameters.two_operand_pass_cycles)
    return np.asarray(each * passes(decoded, alu.instruction, rows))


def time_launch(decoded: Decoded, tokens: dict[str, int]) -> Timing:
    """Cycles of one launch that finds ``tokens`` in the queues.

    Instructions lose cycles to ``fetch`` (not fetched yet, or its unit's queue was full), to a token queue such as
    ``load_to_compute``, and to ``memory`` (the read channel served others). What other units still do when FINISH
    ended is in ``end`` and ``busy``, and not in ``cycles``.

    Raises:
        SimulationError: a deadlock, with the unit, the instruction and the token it waits for.
    """
    return _time(decoded, tokens, instruction_costs(decoded.accelerator).table(decoded))


def _time(decoded: Decoded, tokens: dict[str, int], table: Int64) -> Timing:
    accelerator, count = decoded.accelerator, len(decoded)
    names, counters = token_names(accelerator), token_state(accelerator, tokens)
    times = np.empty((layout.TIMES, count), np.int64)
    waits = np.zeros((2 + len(names), count), np.int64)
    units = np.zeros((layout.UNITS, len(accelerator.units)), np.int64)
    entries = 1 << min(count, max(parameters_of(accelerator).queue_depths.values())).bit_length()
    queues = np.empty((len(accelerator.units), entries), np.int64)
    if kernel.run_clock(table, kernel_parameters(accelerator), queues, counters, times, waits, units) < count:
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
        blockers={
            name: accelerator.units.index(sender)
            for name, (sender, _) in zip(names, token_queues(accelerator), strict=True)
        },
    )


_RESOURCES = (
    Scaled("the bus", "{} bytes a beat", ["/dram/bus_bytes"]),
    Scaled("the read latency", "a read latency of {} cycles", ["/dram/read_latency"], half=True),
    Scaled("the reads in flight", "{} reads in flight", ["/parameters/reads_in_flight"]),
    Scaled("the fetch", "{} instructions a fetch", ["/parameters/fetch_burst_instructions"], ["fetch"]),
    Scaled("the instruction queues", "queues twice as deep", ["/parameters/queue_depths"], ["fetch"]),
)


def variations_of(accelerator: Accelerator, family: Family) -> list[Variation]:
    """Bus, latency, reads in flight, fetch, queues; and half the cycles for each instruction but loads and FINISH."""
    costs = instruction_costs(accelerator)
    tables = OfLaunch(costs.table)

    def timed(changed: Accelerator) -> TimeLaunch:
        if family.time is not time_launch:  # a plug-in's own
            return time_of(family, changed)
        others = instruction_costs(changed)
        table = tables if others.alike(costs) else others.table
        return lambda decoded, tokens: _time(decoded.on(changed), tokens, table(decoded))

    found = list(scaled_variations(accelerator, family, _RESOURCES, timed))
    for each in accelerator.instructions:
        if isinstance(each, Compute) or (isinstance(each, Copy) and each.direction == "store"):
            time = functools.partial(_time_faster, tables=tables, faster=each)
            change, eases = f"half the cycles for {each.name}", frozenset({each.name})
            found.append(Variation(each.name, change, {}, time, eases))
    return found


def _time_faster(
    decoded: Decoded, tokens: dict[str, int], *, tables: OfLaunch[Int64], faster: AnyInstruction
) -> Timing:
    """As :func:`time_launch`, but ``faster`` takes half its own cycles, rounded up."""
    table, rows = tables(decoded).copy(), decoded.rows(faster)
    table[rows, layout.DURATION] = (table[rows, layout.DURATION] + 1) // 2
    return _time(decoded, tokens, table)


def _finish(decoded: Decoded, end: Int64) -> int:
    """When the launch is over: EventCounters stops at FINISH, whatever the other units still do."""
    finish = decoded.accelerator.finish
    if finish is not None and len(finishes := decoded.rows(finish)):
        return int(end[finishes[0]])
    return int(end.max(initial=0))
