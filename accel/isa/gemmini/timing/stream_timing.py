"""Gemmini's cycles: when each instruction starts and ends, and what it waited for.

The hardware is run register by register (:mod:`accel.isa.gemmini.timing.machine`); here a stream is given to it, and
what it logged of each primitive instruction is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.family import Activity
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.configuration_registers import sizes
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import as_signed, expand_loops, has_no_loops
from accel.isa.gemmini.timing.machine import log_columns as log
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.build import UNLIMITED, new_machine
from accel.isa.gemmini.timing.machine.machine import FULL, STALLED, new_clock, run_machine
from accel.isa.gemmini.timing.machine.memory.memory_hierarchy import warm_cache
from accel.isa.gemmini.timing.stream_traffic import dram_accesses
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR, Array
from accel.util.arrays import Int64, Signed, Words, narrowed

_UNITS = ("load", "execute", "store")
_CAUSES = ("reservation_station", *_UNITS, "unit")
_START, _END, _STATION, _QUEUES, _UNIT = 0, 1, 2, 3, 6  # what is told of instructions
_WAITS, _SUMS = _STATION, 7
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
        log: (m, COLUMNS) as :mod:`accel.isa.gemmini.timing.machine.log_columns` has them, of the primitive instructions
            by instruction, and in the order in which they entered the station.
        primitives: (_SUMS, m) when each begins, when it has completed, and the cycles of ``_CAUSES``.
    """

    start: Signed
    end: Signed
    waits: dict[str, Signed]
    awaited: dict[str, Int64]
    cycles: int
    busy: dict[str, int]
    log: Int64
    primitives: Int64


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
    pieces, told = np.empty((_SUMS, len(rows)), np.int64), np.zeros((_SUMS, len(words)), np.int64)
    told[_START] = told[_END] = run.accepted
    awaited, busy = np.zeros((len(_UNITS), len(words)), np.int64), np.zeros(len(_UNITS), np.int64)
    _tell(rows, run.log, pieces, told, awaited)
    _add_busy(run.log, busy)
    waits = {name: narrowed(told[_WAITS + cause]) for cause, name in enumerate(_CAUSES)}
    return StreamTiming(
        start=narrowed(told[_START]),
        end=narrowed(told[_END]),
        waits={"processor": np.broadcast_to(np.int8(0), len(words))} | waits,
        awaited=dict(zip(_UNITS, awaited, strict=True)),
        cycles=run.cycles,
        busy=dict(zip(_UNITS, busy.tolist(), strict=True)),
        log=rows,
        primitives=pieces,
    )


@compiled
def _end_of(rows: Int64, row: int) -> int:
    """When a primitive instruction is over: the cycle after it is complete, or begun if it is none that completes."""
    last = rows[row, log.COMPLETE] if rows[row, log.COMPLETE] >= 0 else rows[row, log.BEGUN]
    return int(last + 1)


@compiled
def _tell(rows: Int64, logged: Int64, pieces: Int64, told: Int64, awaited: Int64) -> None:
    """Tell of primitive instructions and of instructions when they start, end, and what they lose to each cause.

    Configurations of loads and stores are over with being begun. A primitive instruction waits for one cause after the
    other, from when it asks for an entry to when it begins.

    Args:
        rows: (m, COLUMNS) the log, by instruction.
        logged: (m, COLUMNS) the log as the machine wrote it.
        pieces: (_SUMS, m) gets what is said of each.
        told: (_SUMS, n) gets the first start, the last end, and the sums; of an instruction without primitive ones
            start and end stay.
        awaited: (3, n) gets how many places back the instruction of each queue stands that it waited longest for,
            another than itself.
    """
    longest = np.zeros(3, np.int64)
    for row in range(len(rows)):
        mine, begun, end = rows[row, log.ORIGIN], rows[row, log.BEGUN], _end_of(rows, row)
        pieces[_START, row], pieces[_END, row] = begun, end
        if row == 0 or rows[row - 1, log.ORIGIN] != mine:
            told[_START, mine], told[_END, mine] = begun, end
            longest[0] = longest[1] = longest[2] = 0
        else:
            told[_START, mine], told[_END, mine] = min(told[_START, mine], begun), max(told[_END, mine], end)
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
                other = logged[rows[row, log.CLEARED_BY + queue], log.ORIGIN]
                if other != mine and lost >= longest[queue]:
                    longest[queue], awaited[queue, mine] = lost, mine - other
        pieces[_UNIT, row] = begun - reached
        for cause in range(_WAITS, _SUMS):
            told[cause, mine] += pieces[cause, row]


@compiled
def _add_busy(logged: Int64, busy: Int64) -> None:
    """Add to ``busy`` (3,) the cycles in which instructions of each queue have begun and are not over.

    The log has them nearly as they begin: only configurations go before what was handed over earlier.
    """
    begins, ends = np.empty(len(logged), np.int64), np.empty(len(logged), np.int64)
    for queue in range(3):
        count = 0
        for row in range(len(logged)):
            if logged[row, log.QUEUE] == queue:
                begin, place = logged[row, log.BEGUN], count
                while place > 0 and begins[place - 1] > begin:
                    begins[place], ends[place] = begins[place - 1], ends[place - 1]
                    place -= 1
                begins[place], ends[place] = begin, _end_of(logged, row)
                count += 1
        reach = 0
        for place in range(count):
            busy[queue] += max(ends[place] - max(begins[place], reach), 0)
            reach = max(reach, ends[place])


def telling_signatures() -> tuple[Signature, ...]:
    """Returns what tells of instructions and of units what the machine has logged."""
    return (
        Signature(_tell, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX),
        Signature(_add_busy, MATRIX, VECTOR),
        Signature(_place, MATRIX, Array("int16", 1), MATRIX, VECTOR, VECTOR, MATRIX),
    )


def activity_of(decoded: Decoded, timed: StreamTiming) -> Activity:
    """Returns what the controllers of a launch did, by primitive instruction.

    One is at work from when its controller begins with it until it has completed: a load until its data are there, a
    product until its rows are sent, and a preload until the result that it names is written. Before, it waits for the
    processor or the unroller that sends it (``processor``), for an entry of the reservation station, on its way from
    there (``issue``), and for other controllers.
    """
    rows, pieces = timed.log, timed.primitives
    units = np.array([decoded.accelerator.units.index(name) for name in _UNITS], np.int64)
    placed = np.empty((2, len(rows)), np.int64)
    _place(rows, decoded.kind, *_sorts(decoded), units, placed)
    waits = {name: pieces[_WAITS + cause] for cause, name in enumerate(_CAUSES)}
    return Activity(
        unit=placed[0],
        kind=placed[1],
        start=pieces[_START],
        end=pieces[_END],
        held=np.broadcast_to(np.int8(0), len(rows)),
        waits={
            "processor": rows[:, log.ASKED],
            "reservation_station": waits.pop("reservation_station"),
            "issue": np.broadcast_to(np.int8(_ISSUE), len(rows)),
            **waits,
        },
        blockers={name: int(unit) for name, unit in zip(_UNITS, units, strict=True)},
    )


@compiled
def _place(rows: Int64, kind: npt.NDArray[np.int16], table: Int64, loops: Int64, units: Int64, placed: Int64) -> None:
    """Set ``placed`` (2, m) to the unit of each primitive instruction, and to the document's instruction that it is.

    Of a loop's it is the one of its code and queue in ``table`` (3, FUNCTS), if there is one; ``loops`` (kinds,) is 1
    for loops.
    """
    for row in range(len(rows)):
        queue, origin = rows[row, log.QUEUE], kind[rows[row, log.ORIGIN]]
        made = table[queue, rows[row, log.FUNCT]]
        placed[0, row], placed[1, row] = units[queue], made if loops[origin] and made >= 0 else origin


def _sorts(decoded: Decoded) -> tuple[Int64, Int64]:
    """The document's instruction (3, FUNCTS) of each queue and code, -1 for none; and which are loops (kinds,)."""
    table = np.full((len(_UNITS), _FUNCTS), -1, np.int64)
    loops = np.zeros(len(decoded.accelerator.instructions), np.int64)
    for number, instruction in enumerate(decoded.accelerator.instructions):
        code = next((field.value for field in instruction.fields if field.name == "funct"), None)
        if code is not None and instruction.unit in _UNITS:
            place = _UNITS.index(instruction.unit), code
            table[place] = number if table[place] < 0 else table[place]
            loops[number] = code in {rocc.LOOP_WS, rocc.LOOP_CONV}
    return table, loops
