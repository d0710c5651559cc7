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
from accel.isa.gemmini.timing.machine.memory.memory_hierarchy import warm_cache
from accel.isa.gemmini.timing.stream_traffic import dram_accesses
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR
from accel.util.arrays import Int64, Signed, Words, narrowed

_UNITS = ("load", "execute", "store")
_CAUSES = ("processor", "reservation_station", *_UNITS, "unit")
_START, _END, _PROCESSOR, _STATION, _QUEUES, _UNIT = 0, 1, 2, 3, 4, 7  # what is told of instructions
_WAITS, _SUMS = _PROCESSOR, 8
_AFTER_ENTRY = (*_UNITS, "unit")  # what an instruction in the station waits for, one after the other
_FUNCTS = 1 << 7  # codes of instructions
_ROOM = 256  # rows of the log beside one for each instruction: it grows where loops make more
_SHARED = 2  # rows of a log that nobody reads: the last one stays free
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
        primitive_start: (m,) when each begins.
        primitive_end: (m,) when each has completed.
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
    primitive_start: Int64
    primitive_end: Int64
    primitive_waits: dict[str, Int64]


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
    logs: bool = True,
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
        logs: whether the log is wanted; else it is one row, which all instructions share.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    signed = as_signed(words)
    loops = 1 if has_no_loops(signed) else _longest_loop(words, parameters, context)
    registers, commands = context.loops.copy(), np.zeros((4, loops, 3), np.int64)
    machine = new_machine(parameters, context, spacing=spacing, open_requests=open_requests, walk_latency=walk_latency)
    if parameters.memory is not None:
        ran = before if before is not None else [words] if parameters.memory.warm else []
        for stream in ran:
            warm_cache(machine, _accesses(stream, parameters, context))
    accepted = np.full(len(signed), -1, np.int64)
    rows, clock = np.empty((len(signed) + _ROOM if logs else _SHARED, log.COLUMNS), np.int64), new_clock()
    machine[at.LOG_MASK] = -1 if logs else 0
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
    run = run_stream(words, parameters, context, before=before, logs=False)
    if run.cycles == STALLED:  # the log knows where
        run = run_stream(words, parameters, context, before=before)
    return _finished(run).cycles


def time_stream(words: Words, parameters: GemminiParameters, context: LaunchContext | None = None) -> StreamTiming:
    """Time a stream (n, 3) that starts on an idle accelerator and finds ``context``, or what is there after power-on.

    Raises:
        SimulationError: an undefined instruction, a loop that does not fit, or one that never completes.
    """
    found = LaunchContext.fresh(parameters) if context is None else context
    run = _finished(run_stream(words, parameters, found))
    of = run.log[:, log.ORIGIN]
    sorted_already = bool((of[1:] >= of[:-1]).all())  # as it is but for loops that others overtake
    rows = run.log if sorted_already else run.log[np.argsort(of, kind="stable")]
    pieces = np.empty((_SUMS, len(rows)), np.int64)
    told = np.zeros((_SUMS, len(words)), np.int64)
    told[_START] = told[_END] = run.accepted
    awaited, longest = np.full((len(_UNITS), len(words)), -1, np.int64), np.zeros((len(_UNITS), len(words)), np.int64)
    _tell(rows, np.ascontiguousarray(of), pieces, told, awaited, longest)
    start, end, queues = pieces[_START], pieces[_END], rows[:, log.QUEUE]
    return StreamTiming(
        start=narrowed(told[_START]),
        end=narrowed(told[_END]),
        waits={name: narrowed(told[_WAITS + cause]) for cause, name in enumerate(_CAUSES)},
        awaited={name: places_back(awaited[queue]) for queue, name in enumerate(_UNITS)},
        cycles=run.cycles,
        busy={name: _union(start, end, queues == queue) for queue, name in enumerate(_UNITS)},
        expanded=ExpandedStream(rows[:, [log.FUNCT, log.RS1, log.RS2]], rows[:, log.ORIGIN]),
        log=rows,
        primitive_start=start,
        primitive_end=end,
        primitive_waits={name: pieces[_WAITS + cause] for cause, name in enumerate(_CAUSES)},
    )


@compiled
def _tell(rows: Int64, origin: Int64, pieces: Int64, told: Int64, awaited: Int64, longest: Int64) -> None:
    """Tell of primitive instructions and of instructions when they start, end, and what they lose to each cause.

    A primitive instruction is over the cycle after it is complete; configurations of loads and stores are with being
    begun. It waits for one cause after the other, from when it asks for an entry to when it begins.

    Args:
        rows: (m, COLUMNS) the log, by instruction.
        origin: (m,) which instruction each row of the machine's log is of.
        pieces: (_SUMS, m) gets what is said of each.
        told: (_SUMS, n) gets the first start, the last end, and the sums; of an instruction without primitive ones
            start and end stay.
        awaited: (3, n) gets the instruction of each queue that it waited longest for, another than itself.
        longest: (3, n) zeros.
    """
    for row in range(len(rows)):
        mine, begun = rows[row, log.ORIGIN], rows[row, log.BEGUN]
        end = begun + 1
        if rows[row, log.COMPLETE] >= 0:
            end = rows[row, log.COMPLETE] + 1
        pieces[_START, row], pieces[_END, row] = begun, end
        if row == 0 or rows[row - 1, log.ORIGIN] != mine:
            told[_START, mine], told[_END, mine] = begun, end
        else:
            told[_START, mine], told[_END, mine] = min(told[_START, mine], begun), max(told[_END, mine], end)
        pieces[_PROCESSOR, row] = 0
        pieces[_STATION, row] = rows[row, log.ENTERED] - rows[row, log.ASKED]
        reached = rows[row, log.ENTERED] + _ISSUE
        for queue in range(3):
            until = reached
            if rows[row, log.QUEUE] != queue:
                until = max(reached, rows[row, log.CLEARED + queue] + 1)
            lost = until - reached
            pieces[_QUEUES + queue, row] = lost
            reached = until
            if lost > 0:
                other = origin[rows[row, log.CLEARED_BY + queue]]
                if other != mine and lost >= longest[queue, mine]:
                    longest[queue, mine], awaited[queue, mine] = lost, other
        pieces[_UNIT, row] = begun - reached
        for cause in range(_WAITS, _SUMS):
            told[cause, mine] += pieces[cause, row]


def telling_signature() -> Signature:
    """Returns what tells of instructions what the machine has logged."""
    return Signature(_tell, MATRIX, VECTOR, MATRIX, MATRIX, MATRIX, MATRIX)


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
    start, entered, queue = timed.primitive_start, rows[:, log.ENTERED].copy(), rows[:, log.QUEUE].copy()
    after = sum((waits[name] for name in _AFTER_ENTRY), np.zeros(len(rows), np.int64))
    waits["processor"] = entered - waits["reservation_station"]
    waits["issue"] = start - after - entered
    units = np.array([decoded.accelerator.units.index(name) for name in _UNITS], np.int64)
    return Activity(
        unit=units[queue],
        kind=_sorts(decoded, queue, rows[:, log.FUNCT], decoded.kind[rows[:, log.ORIGIN]]),
        start=start,
        end=timed.primitive_end,
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
