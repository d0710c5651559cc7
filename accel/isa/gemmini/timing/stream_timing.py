"""Gemmini's cycles: when each instruction starts and ends, and what it waited for.

The hardware is run register by register (:mod:`accel.isa.gemmini.timing.machine`); here a stream is given to it, and
what it logged of each primitive instruction is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.family import Activity, places_back
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.configuration_registers import sizes
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import ExpandedStream, as_signed, expand_loops, has_no_loops
from accel.isa.gemmini.timing.machine import log_columns as log
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.build import UNLIMITED, new_machine
from accel.isa.gemmini.timing.machine.machine import FULL, STALLED, new_clock, run_machine
from accel.isa.gemmini.timing.machine.memory_hierarchy import warm_cache
from accel.isa.gemmini.timing.stream_traffic import dram_accesses
from accel.util.arrays import Int64, Signed, Words, narrowed

_UNITS = ("load", "execute", "store")
_AFTER_ENTRY = (*_UNITS, "unit")  # what an instruction in the station waits for, one after the other
_FUNCTS = 1 << 7  # codes of instructions
_ROOM = 256  # rows of the log beside one for each instruction: it grows where loops make more
_ISSUE = 1  # cycles from the station's entry to the controller, where nothing is waited for


@dataclass(frozen=True)
class StreamTiming:
    """Cycles of a stream of n instructions, and of the m primitive ones that its loops are.

    Attributes:
        start: (n,) when the first of its primitive instructions starts; when it is accepted, if it has none.
        end: (n,) when the last of them has completed.
        waits: cause to cycles (n,), summed over its primitive instructions: ``processor``, ``reservation_station`` (no
            entry), ``load``, ``execute`` and ``store`` (rows that these use), ``unit`` (its controller was busy).
        awaited: ``load``, ``execute`` and ``store`` to how many places before each instruction (n,) the one stands that
            it waited longest for; 0 for none. That primitive instructions of a loop wait for each other is left out.
        cycles: when everything is done, writes acknowledged.
        busy: cycles in which ``load``, ``execute`` and ``store`` have begun something that is not complete.
        expanded: the primitive instructions, by instruction, and in the order in which they entered the station.
        log: (m, COLUMNS) as :mod:`accel.isa.gemmini.timing.machine.log_columns` has them.
        primitive_waits: cause to cycles (m,), as ``waits``.
    """

    start: Signed
    end: Signed
    waits: dict[str, Signed]
    awaited: dict[str, Int64]
    cycles: int
    busy: dict[str, int]
    expanded: ExpandedStream
    log: Int64
    primitive_waits: dict[str, Int64]


def _folded(values: Int64, first: Int64, how: np.ufunc, empty: Int64) -> Signed:
    """``values`` (m,) of primitive instructions by instruction (n,); ``empty`` (n,) where there are none."""
    some = first[1:] > first[:-1]
    out = empty.copy()
    if some.any():
        out[some] = how.reduceat(values, first[:-1][some])
    return narrowed(out)


@dataclass(frozen=True)
class MachineRun:
    """What the machine did: ``cycles`` (STALLED: it is stuck), ``log`` (m, COLUMNS), and when it ``accepted`` (n,)."""

    cycles: int
    log: Int64
    accepted: Int64


def run_stream(
    words: Words,
    parameters: GemminiParameters,
    context: LaunchContext,
    *,
    spacing: int = 0,
    open_requests: int = UNLIMITED,
    walk_latency: int = -1,
    before: Sequence[Words] | None = None,
) -> MachineRun:
    """Run a stream (n, 3) on the machine.

    Args:
        words: the stream.
        parameters: of the accelerator.
        context: what earlier instructions have left.
        spacing: least cycles from one instruction that is accepted to the next that is offered; 0: the processor's.
        open_requests: requests that the memory takes before it has answered.
        walk_latency: cycles of a page walk; -1: addresses are not translated.
        before: streams that have just run, which decide what the caches hold; None: ``memory.warm`` does.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    signed = as_signed(words)
    loops = 1 if has_no_loops(signed[:, 0]) else _longest_loop(words, parameters, context)
    registers, commands = context.loops.copy(), np.zeros((4, loops, 3), np.int64)
    machine = new_machine(parameters, context, spacing=spacing, open_requests=open_requests, walk_latency=walk_latency)
    if parameters.memory is not None:
        ran = before if before is not None else [words] if parameters.memory.warm else []
        for stream in ran:
            warm_cache(machine, _accesses(stream, parameters, context))
    accepted = np.full(len(signed), -1, np.int64)
    rows, clock = np.empty((len(signed) + _ROOM, log.COLUMNS), np.int64), new_clock()
    while True:
        cycles = run_machine(machine, signed, registers, sizes(parameters), commands, accepted, rows, clock)
        if cycles != FULL:
            return MachineRun(cycles, rows[: machine[at.LOGGED]], accepted)
        rows = np.concatenate((rows, np.empty_like(rows)))


def _longest_loop(words: Words, parameters: GemminiParameters, context: LaunchContext) -> int:
    """Primitive instructions of the longest loop of a stream; all loops are checked."""
    expanded = expand_loops(words, parameters, context.loops.copy(), alternate=True)
    loops = np.isin(as_signed(words)[:, 0], (rocc.LOOP_CONV, rocc.LOOP_WS))
    if not loops.any():
        return 1
    return int(np.bincount(expanded.origin, minlength=len(words))[loops].max()) + 8


def _accesses(words: Words, parameters: GemminiParameters, context: LaunchContext) -> Int64:
    """The accesses of DRAM (b, 5) as :func:`warm_cache` takes them."""
    boxes = dram_accesses(words, parameters, context)
    columns = (boxes.begin, boxes.rows, boxes.row_stride, boxes.row_bytes, boxes.write)
    return np.ascontiguousarray(np.stack([np.asarray(column, np.int64) for column in columns], axis=1))


def _finished(run: MachineRun) -> MachineRun:
    """The run, if it came to its end.

    Raises:
        SimulationError: it did not.
    """
    if run.cycles != STALLED:
        return run
    stuck = run.log[(run.log[:, log.COMPLETE] < 0) & (run.log[:, log.BEGUN] < 0)]
    waiting = np.flatnonzero(run.accepted < 0)
    index = int(stuck[0, log.ORIGIN]) if len(stuck) else int(waiting[0]) if len(waiting) else 0
    raise SimulationError.at_instruction(index, "deadlock", "it never completes, and the hardware waits for it")


def cycles_of(
    words: Words, parameters: GemminiParameters, context: LaunchContext, before: Sequence[Words] | None = None
) -> int:
    """Time a stream (n, 3), with caches as the streams ``before`` left them; nothing is told of its instructions.

    Raises:
        SimulationError: an undefined instruction, a loop that does not fit, or one that never completes.
    """
    return _finished(run_stream(words, parameters, context, before=before)).cycles


def time_stream(words: Words, parameters: GemminiParameters, context: LaunchContext | None = None) -> StreamTiming:
    """Time a stream (n, 3) that starts on an idle accelerator and finds ``context``, or what is there after power-on.

    Raises:
        SimulationError: an undefined instruction, a loop that does not fit, or one that never completes.
    """
    found = LaunchContext.fresh(parameters) if context is None else context
    run = _finished(run_stream(words, parameters, found))
    rows = run.log[np.argsort(run.log[:, log.ORIGIN], kind="stable")]
    origin = run.log[:, log.ORIGIN]  # by the numbers of rows that the log itself has
    first = np.searchsorted(rows[:, log.ORIGIN], np.arange(len(words) + 1)).astype(np.int64)
    start, end = rows[:, log.BEGUN], _ends(rows)
    none = np.zeros(len(words), np.int64)
    by_cause = _waits_of(rows)
    return StreamTiming(
        start=_folded(start, first, np.minimum, run.accepted),
        end=_folded(end, first, np.maximum, run.accepted),
        waits={name: _folded(row, first, np.add, none) for name, row in by_cause.items()},
        awaited={
            name: places_back(_longest_waited_for(rows, by_cause[name], origin, queue, len(words)))
            for queue, name in enumerate(_UNITS)
        },
        cycles=run.cycles,
        busy={name: _union(start, end, rows[:, log.QUEUE] == queue) for queue, name in enumerate(_UNITS)},
        expanded=ExpandedStream(rows[:, [log.FUNCT, log.RS1, log.RS2]], rows[:, log.ORIGIN]),
        log=rows,
        primitive_waits=by_cause,
    )


def _ends(rows: Int64) -> Int64:
    """The cycle after each is complete (m,); configurations of loads and stores are with being begun."""
    return np.where(rows[:, log.COMPLETE] >= 0, rows[:, log.COMPLETE], rows[:, log.BEGUN]) + 1


def _waits_of(rows: Int64) -> dict[str, Int64]:
    """Cycles (m,) of each cause, one after the other from when an instruction asks for an entry to when it begins."""
    asked, entered, begun = rows[:, log.ASKED], rows[:, log.ENTERED], rows[:, log.BEGUN]
    waits = {"processor": np.zeros(len(rows), np.int64), "reservation_station": entered - asked}
    reached = entered + _ISSUE
    for queue, name in enumerate(_UNITS):
        other = rows[:, log.QUEUE] != queue
        until = np.where(other, np.maximum(reached, rows[:, log.CLEARED + queue] + 1), reached)
        waits[name] = until - reached
        reached = until
    waits["unit"] = begun - reached
    return waits


def _longest_waited_for(rows: Int64, waits: Int64, origin: Int64, queue: int, count: int) -> Int64:
    """For each of ``count`` instructions the one of a queue that it waited longest for, another than itself; -1: none.

    ``waits`` (m,) are the cycles that the primitive instructions lost to that queue, ``origin`` (m,) is of which
    instruction each row of the machine's log is.
    """
    at = np.flatnonzero(waits > 0)
    mine, other = rows[at, log.ORIGIN], origin[rows[at, log.CLEARED_BY + queue]]
    apart = mine != other
    at, mine, other = at[apart], mine[apart], other[apart]
    order = np.lexsort((waits[at], mine))
    found = np.full(count, -1, np.int64)
    found[mine[order]] = other[order]  # the last of an instruction is its longest
    return found


def _union(start: Int64, end: Int64, chosen: np.ndarray) -> int:
    """Cycles that intervals from ``start`` to ``end`` (m,) cover, of those ``chosen`` (m,)."""
    order = np.argsort(start[chosen], kind="stable")
    begins, ends = start[chosen][order], end[chosen][order]
    if not len(begins):
        return 0
    before = np.concatenate(([0], np.maximum.accumulate(ends)[:-1]))
    return int(np.maximum(ends - np.maximum(begins, before), 0).sum())


def activity_of(decoded: Decoded, timed: StreamTiming) -> Activity:
    """Returns what the controllers of a launch did, by primitive instruction.

    One is at work from when its controller begins with it until it has completed: a load until its data are there, a
    product until its rows are sent, and a preload until the result that it names is written. Before, it waits for the
    processor or the unroller that sends it (``processor``), for an entry of the reservation station, on its way from
    there (``issue``), and for other controllers.
    """
    rows, waits = timed.log, dict(timed.primitive_waits)
    start, entered, queue = rows[:, log.BEGUN], rows[:, log.ENTERED], rows[:, log.QUEUE]
    after = sum((waits[name] for name in _AFTER_ENTRY), np.zeros(len(rows), np.int64))
    waits["processor"] = entered - waits["reservation_station"]
    waits["issue"] = start - after - entered
    units = np.array([decoded.accelerator.units.index(name) for name in _UNITS], np.int64)
    return Activity(
        unit=units[queue],
        kind=_sorts(decoded, queue, rows[:, log.FUNCT], decoded.kind[rows[:, log.ORIGIN]]),
        start=start,
        end=_ends(rows),
        held=np.zeros(len(rows), np.int8),
        waits={name: waits[name] for name in ("processor", "reservation_station", "issue", *_AFTER_ENTRY)},
        blockers={name: int(unit) for name, unit in zip(_UNITS, units, strict=True)},
    )


def _sorts(decoded: Decoded, queue: Int64, functs: Int64, origin: Signed) -> Int64:
    """The document's instruction (m,) that each primitive one is; of a loop's, the one of its code and unit."""
    table = np.full((len(_UNITS), _FUNCTS), -1, np.int64)
    loops = np.zeros(len(decoded.accelerator.instructions), np.bool_)
    for number, instruction in enumerate(decoded.accelerator.instructions):
        code = next((field.value for field in instruction.fields if field.name == "funct"), None)
        if code is not None and instruction.unit in _UNITS:
            place = _UNITS.index(instruction.unit), code
            table[place] = number if table[place] < 0 else table[place]
            loops[number] = code in {rocc.LOOP_WS, rocc.LOOP_CONV}
    made = table[queue, functs]
    return np.where(loops[origin] & (made >= 0), made, origin)
