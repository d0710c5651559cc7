"""Gemmini's cycles: when each instruction starts and ends, and what it waited for.

The processor sends instructions; the loop unrollers write loops out, two loops at once (LoopMatmul.scala); the
reservation station keeps three queues in order and holds back what overlaps (ReservationStation.scala); controllers
take it from there. Rules are cited where they act. What the model leaves out: misses of the TLB and of caches, stores
and mesh that read one bank, and what the processor does between instructions beyond a constant.
"""

from dataclasses import dataclass

import numpy as np

from accel.isa.decode import Decoded
from accel.isa.family import Activity
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import ExpandedStream, as_signed, expand_loops
from accel.isa.gemmini.timing import reservation_station as kernel
from accel.isa.gemmini.timing import timing_columns as at
from accel.util.arrays import Int64, Signed, Words, narrowed

_UNITS = ("load", "execute", "store")
_AFTER_ENTRY = (*_UNITS, "unit")  # what an instruction in the station waits for, one after the other
_FUNCTS = 1 << 7  # codes of instructions


@dataclass(frozen=True)
class StreamTiming:
    """Cycles of a stream of n instructions, and of the m primitive ones that its loops are.

    Attributes:
        start: (n,) when the first of its primitive instructions starts; when it arrives, if it has none.
        end: (n,) when the last of them has completed.
        waits: cause to cycles (n,), summed over its primitive instructions: ``processor``, ``reservation_station`` (no
            entry), ``load``, ``execute`` and ``store`` (rows that these use), ``unit`` (its controller was busy).
        cycles: when everything is done, writes acknowledged.
        busy: cycles at work of ``load``, ``execute`` and ``store``.
        expanded: the primitive instructions.
        primitive_times: (TIMES, m) as :mod:`accel.isa.gemmini.timing.timing_columns` has them.
        primitive_waits: cause to cycles (m,), as ``waits``.
    """

    start: Signed
    end: Signed
    waits: dict[str, Signed]
    cycles: int
    busy: dict[str, int]
    expanded: ExpandedStream
    primitive_times: Int64
    primitive_waits: dict[str, Int64]


def kernel_parameters(parameters: GemminiParameters) -> Int64:
    """What the kernel needs of the configuration.

    The mesh's latency is (dim - 1) rows of input skew, dim of processing elements and (dim - 1) of output skew
    (MeshWithDelays.scala, Mesh.scala); from the last row that is sent to the last result, one skew less.
    """
    out = np.zeros(at.PARAMETERS, np.int64)
    dim = parameters.dim
    out[at.DIM] = dim
    out[at.LOAD_ENTRIES] = parameters.load_entries
    out[at.EXECUTE_ENTRIES] = parameters.execute_entries
    out[at.STORE_ENTRIES] = parameters.store_entries
    out[at.COMMANDS] = parameters.requests_in_flight // dim + 1  # LoadController.scala nCmds
    out[at.IN_FLIGHT] = parameters.requests_in_flight
    out[at.BUS], out[at.MAX_BYTES] = parameters.dma_bus_bytes, parameters.dma_max_bytes
    out[at.LATENCY], out[at.ISSUE] = parameters.memory_latency, parameters.issue_cycles
    out[at.SPAD_DELAY] = parameters.scratchpad_read_delay
    out[at.ACC_LATENCY] = parameters.accumulator_latency
    out[at.ACC_SCALE], out[at.MVIN_SCALE] = parameters.accumulator_scale_latency, parameters.mvin_scale_latency
    out[at.MESH] = 2 * dim * (parameters.tile_latency + 1) + parameters.mesh_output_delay
    out[at.BANKS] = parameters.scratchpad_banks
    out[at.BANK_ROWS] = parameters.scratchpad_rows // parameters.scratchpad_banks
    out[at.ACC_BANK_ROWS] = parameters.accumulator_rows // parameters.accumulator_banks
    out[at.STATION], out[at.STORE_DELAY] = parameters.station_latency, parameters.store_latency
    return out


def _folded(values: Int64, first: Int64, how: np.ufunc, empty: Int64) -> Signed:
    """``values`` (m,) of primitive instructions by instruction (n,); ``empty`` (n,) where there are none."""
    some = first[1:] > first[:-1]
    out = empty.copy()
    if some.any():
        out[some] = how.reduceat(values, first[:-1][some])
    return narrowed(out)


@dataclass(frozen=True)
class Unrolled:
    """A stream of n instructions, the m primitive ones that its loops are, and which of these is the first of each.

    Attributes:
        functs: codes of the instructions (n,).
        first: places of the first ones (n + 1,).
        expanded: the primitive instructions.
    """

    functs: Int64
    first: Int64
    expanded: ExpandedStream


def unroll(words: Words, parameters: GemminiParameters, context: LaunchContext) -> Unrolled:
    """Write out the loops of a stream (n, 3), as the RTL does.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    expanded = expand_loops(words, parameters, context.loops.copy(), alternate=True)
    first = np.searchsorted(expanded.origin, np.arange(len(words) + 1)).astype(np.int64)
    return Unrolled(np.ascontiguousarray(as_signed(words)[:, 0]), first, expanded)


@dataclass(frozen=True)
class _Clocked:
    """What the clock says: by primitive instruction ``times`` (TIMES, m), ``waits`` (CAUSES, m); ``arrivals`` (n,)."""

    cycles: int
    times: Int64
    waits: Int64
    arrivals: Int64
    busy: Int64


def _run_clock(stream: Unrolled, parameters: GemminiParameters, context: LaunchContext) -> _Clocked:
    count, total = len(stream.functs), len(stream.expanded.words)
    times, waits = np.zeros((at.TIMES, total), np.int64), np.zeros((at.CAUSES, total), np.int64)
    arrivals, busy = np.zeros(count, np.int64), np.zeros(3, np.int64)
    cycles = kernel.run_clock(
        stream.expanded.words,
        stream.first,
        stream.functs,
        kernel_parameters(parameters),
        context.state.copy(),
        context.bits.copy(),
        times,
        arrivals,
        waits,
        busy,
    )
    return _Clocked(cycles, times, waits, arrivals, busy)


def cycles_of(_words: Words, parameters: GemminiParameters, context: LaunchContext, stream: Unrolled) -> int:
    """Time a stream that is unrolled already; nothing is told of its instructions."""
    return _run_clock(stream, parameters, context).cycles


def time_stream(words: Words, parameters: GemminiParameters, context: LaunchContext | None = None) -> StreamTiming:
    """Time a stream (n, 3) that starts on an idle accelerator and finds ``context``, or what is there after power-on.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    found = LaunchContext.fresh(parameters) if context is None else context
    stream = unroll(words, parameters, found)
    clocked = _run_clock(stream, parameters, found)
    first, times, arrivals = stream.first, clocked.times, clocked.arrivals
    none = np.zeros(len(words), np.int64)
    by_cause = dict(zip(at.NAMES, clocked.waits, strict=True))
    return StreamTiming(
        start=_folded(times[at.START], first, np.minimum, arrivals),
        end=_folded(times[at.END], first, np.maximum, arrivals),
        waits={name: _folded(row, first, np.add, none) for name, row in by_cause.items()},
        cycles=clocked.cycles,
        busy=dict(zip(_UNITS, clocked.busy.tolist(), strict=True)),
        expanded=stream.expanded,
        primitive_times=times,
        primitive_waits=by_cause,
    )


def activity_of(decoded: Decoded, timed: StreamTiming) -> Activity:
    """Returns what the controllers of a launch did, by primitive instruction.

    One is at work from when its controller takes it until it has completed: a load until its data are there, a product
    until its result is written. Before, it waits for the processor or the unroller that sends it (``processor``), for
    an entry of the reservation station, on its way from there (``issue``), and for other controllers.
    """
    times, queues = timed.primitive_times, timed.primitive_times[at.QUEUE]
    rows = np.flatnonzero(queues != at.NO_QUEUE)
    start, entered, queue = times[at.START, rows], times[at.ENTERED, rows], queues[rows]
    waits = {name: cycles[rows] for name, cycles in timed.primitive_waits.items()}
    after = sum((waits[name] for name in _AFTER_ENTRY), np.zeros(len(rows), np.int64))
    waits["processor"] = entered - waits["reservation_station"]
    waits["issue"] = start - after - entered
    units = np.array([decoded.accelerator.units.index(name) for name in _UNITS], np.int64)
    sent = timed.expanded.words[rows, 0]
    return Activity(
        unit=units[queue],
        kind=_sorts(decoded, queue, sent, decoded.kind[timed.expanded.origin[rows]]),
        start=start,
        end=times[at.WORKED, rows],
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
