"""Cycles of a document: decoded instructions to start, end and what they waited for.

Token queues are those from a unit to a unit that some instruction pops from or pushes to.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from accel.accelerator.document import Accelerator, HazardSync, TokenSync
from accel.errors import SimulationError
from accel.expression.cost_expression import parse_cost
from accel.isa.decode import Decoded
from accel.isa.explicit.clock import timing_decoupled, timing_in_order
from accel.isa.explicit.clock import timing_layout as layout
from accel.isa.explicit.costs import LaunchCosts, doing
from accel.isa.explicit.hazards.accesses import Accesses, ranges_of
from accel.isa.family import PREVIOUS, Family, TimeLaunch, Timing, Variation, places_back
from accel.isa.kernels.compiled_kernels import Signature
from accel.isa.kernels.kernel_types import MATRIX, SCALAR
from accel.isa.variations import OfLaunch, Scaled, scaled_variations, time_of, with_fields
from accel.util.arrays import Int64


def queues(accelerator: Accelerator) -> list[tuple[str, str]]:
    """The queues, from a unit to a unit, that some instruction pops from or pushes to, by the order of the units."""
    found = set()
    for instruction in accelerator.instructions:
        found |= {(other, instruction.unit) for other in instruction.tokens.pop}
        found |= {(instruction.unit, other) for other in instruction.tokens.push}
    order = accelerator.units.index
    return sorted(found, key=lambda queue: (order(queue[0]), order(queue[1])))


def queue_names(accelerator: Accelerator) -> list[str]:
    """Their names, such as ``load_to_compute``, in the order of :func:`queues`."""
    return ["_to_".join(queue) for queue in queues(accelerator)]


def token_counts(accelerator: Accelerator, tokens: dict[str, int]) -> Int64:
    """Counters (queues,) from their names.

    Raises:
        SimulationError: a queue that the accelerator does not have, or a count beyond its counter.
    """
    names, limit = queue_names(accelerator), token_limit(accelerator)
    for name, count in tokens.items():
        if name not in names:
            known = ", ".join(names) or "none"
            raise SimulationError(f"no token queue is called {name}; there are {known}", field="tokens")
        if not 0 <= count <= limit:
            raise SimulationError(f"{count} tokens in {name}; its counter holds 0 to {limit}", field="tokens")
    return np.array([tokens.get(name, 0) for name in names], np.int64)


def token_limit(accelerator: Accelerator) -> int:
    """Where the counters stop; 0 where units do not wait by tokens."""
    sync = accelerator.synchronisation
    return sync.limit if isinstance(sync, TokenSync) else 0


@dataclass(frozen=True)
class Transfers:
    """Tokens by instruction: instruction i takes or sends one at each queue of ``queue[start[i]:start[i + 1]]``."""

    start: Int64
    queue: Int64

    def of(self, index: int) -> list[int]:
        """The queues of one instruction."""
        return [int(queue) for queue in self.queue[self.start[index] : self.start[index + 1]]]


def pops_of(decoded: Decoded) -> Transfers:
    """The tokens that each instruction waits for, and takes as it starts."""
    return _transfers(decoded, pops=True)


def pushes_of(decoded: Decoded) -> Transfers:
    """The tokens that each instruction sends as it ends."""
    return _transfers(decoded, pops=False)


def _transfers(decoded: Decoded, *, pops: bool) -> Transfers:
    numbers = {queue: number for number, queue in enumerate(queues(decoded.accelerator))}
    rows, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for instruction, words in doing(decoded) if numbers else ():
        for other, field in (instruction.tokens.pop if pops else instruction.tokens.push).items():
            queue = (other, instruction.unit) if pops else (instruction.unit, other)
            sent = words.rows[words.column(field) != 0]
            rows.append(sent)
            found.append(np.full(len(sent), numbers[queue], np.int64))
    where, queue_of = np.concatenate(rows), np.concatenate(found)
    order = np.lexsort((queue_of, where))
    start = np.searchsorted(where[order], np.arange(len(decoded) + 1)).astype(np.int64)
    return Transfers(start, np.ascontiguousarray(queue_of[order]))


_NEVER_FREE = 1 << 62
_ORDER_CAUSE = {"in_order": "issue", "hazards": "window", "tokens": "issue"}


@dataclass(frozen=True)
class Accessing:
    """What no variation changes of a launch: the unit (n,) of each instruction, the memory it touches, its tokens.

    ``costs`` gives those of any variation.
    """

    unit: Int64
    accesses: Accesses
    pops: Transfers
    pushes: Transfers
    costs: LaunchCosts


def accessing(decoded: Decoded) -> Accessing:
    """What the instructions of a launch touch, take and send.

    Raises:
        SimulationError: see :func:`accel.isa.explicit.operations.executions_of`.
    """
    costs = decoded.derived(LaunchCosts)
    return Accessing(units_of(decoded), ranges_of(decoded), pops_of(decoded), pushes_of(decoded), costs)


def time_launch(decoded: Decoded, tokens: dict[str, int]) -> Timing:
    """Cycles of one launch that finds ``tokens`` in the queues; ``cycles`` is when the last instruction ended.

    ``waits`` count from when an instruction's unit was free: for its turn in the program (``issue`` in order,
    ``window`` by hazards), for addresses (``hazard``), for the tokens of a queue, and for ports (``port``); and while
    it runs, for a bus that others are on (``memory``), see :mod:`accel.isa.explicit.clock.timing_bus`.

    Raises:
        SimulationError: a deadlock, with the units, the instructions and the tokens they wait for.
    """
    return _time(decoded, tokens, decoded.kept(accessing))


def _time(decoded: Decoded, tokens: dict[str, int], known: Accessing) -> Timing:
    accelerator, count = decoded.accelerator, len(decoded)
    names, kind = queue_names(accelerator), accelerator.synchronisation.kind
    stream = _stream(decoded, known)
    state = _state(accelerator, stream.unit, token_counts(accelerator, tokens))
    times = np.zeros((layout.TIMES, count), np.int64)
    waits = np.zeros((layout.CAUSES + len(names), count), np.int64)
    blockers = np.full((layout.BLOCKERS, count), -1, np.int64)
    if kind == "in_order":
        timing_in_order.run(stream, len(accelerator.units), times, waits, blockers)
    elif timing_decoupled.run_decoupled(stream, state, times, waits, blockers) < count:
        waiting = sorted(int(index) for index in state.units[layout.NEXT] if index < count)
        raise deadlock(decoded, waiting, Transfers(stream.pop_start, stream.pops), state.tokens)
    start, end = times
    busy = np.bincount(stream.unit, weights=end - start, minlength=len(accelerator.units)).astype(np.int64)
    causes = (_ORDER_CAUSE[kind], "hazard", "port", "memory", *names)
    shown = _shown(accelerator, len(names))
    held = {"hazard": (layout.HAZARD, layout.HELD_ADDRESSES), "memory": (layout.BUS, layout.HELD_BUS)}
    return Timing(
        start=start,
        end=end,
        waits={causes[number]: waits[number] for number in shown},
        cycles=int(end.max(initial=0)),
        busy=dict(zip(accelerator.units, busy.tolist(), strict=True)),
        tokens=dict(zip(names, state.tokens.tolist(), strict=True)),
        blockers={
            "issue": PREVIOUS,
            "hazard": units_waited_for(blockers[layout.HELD_ADDRESSES], stream.unit),
            **{name: accelerator.units.index(queue[0]) for name, queue in zip(names, queues(accelerator), strict=True)},
        },
        awaited={
            cause: places_back(np.where(waits[number] > 0, blockers[whose], -1))
            for cause, (number, whose) in held.items()
            if number in shown
        },
    )


def units_waited_for(blockers: Int64, unit: Int64) -> Int64:
    """Returns the units (n,) of the instructions that were waited for, -1 for none; ``unit`` (n,) is each one's own."""
    return np.where(blockers < 0, -1, unit[blockers])


def _shown(accelerator: Accelerator, queues: int) -> list[int]:
    """The rows of the waits that can be other than zero, in the order in which they end."""
    first = [] if accelerator.synchronisation.kind == "tokens" else [layout.ORDER, layout.HAZARD]
    last = [layout.PORT, layout.BUS] if accelerator.shares_bus else [layout.PORT]
    return [*first, *range(layout.CAUSES, layout.CAUSES + queues), *last]


def units_of(decoded: Decoded) -> Int64:
    """The unit (n,) of each instruction, by its number."""
    units = decoded.accelerator.units
    of = np.array([units.index(instruction.unit) for instruction in decoded.accelerator.instructions], np.int64)
    return of[decoded.kind]


def _stream(decoded: Decoded, known: Accessing) -> layout.Stream:
    """The launch as the kernels take it. A copy takes the cycles that it is on a shared bus at least."""
    accelerator = decoded.accelerator
    counts = [memory.ports for memory in accelerator.memories]
    beats = known.costs.bus_cycles(accelerator)
    ports = np.full((len(counts), max(counts, default=1)), _NEVER_FREE, np.int64)
    for memory, count in enumerate(counts):
        ports[memory, :count] = 0
    return layout.Stream(
        unit=known.unit,
        cycles=np.maximum(known.costs.cycles(accelerator), beats),
        accesses=known.accesses.table,
        start=known.accesses.start,
        pops=known.pops.queue,
        pop_start=known.pops.start,
        pushes=known.pushes.queue,
        push_start=known.pushes.start,
        ports=ports,
        beats=beats,
        bus=np.zeros((layout.STRETCH, len(accelerator.units) if accelerator.shares_bus else 0), np.int64),
    )


def _state(accelerator: Accelerator, unit: Int64, tokens: Int64) -> layout.State:
    """All units before their first instruction."""
    sync, count = accelerator.synchronisation, len(unit)
    places = min(sync.window, max(count, 1)) if isinstance(sync, HazardSync) else 0
    window = np.zeros((layout.PLACE, places), np.int64)
    window[layout.SPARE] = np.arange(places)
    spans = np.zeros((len(accelerator.memories) + 1, layout.SPAN, places), np.int64)
    spans[:, [layout.TOUCH_LOW, layout.WRITE_LOW]] = layout.NOWHERE
    units = np.zeros((layout.UNIT, len(accelerator.units)), np.int64)
    units[layout.RUNNING] = -1
    following = np.full(count, count, np.int64)
    for number in range(len(accelerator.units)):
        rows = np.flatnonzero(unit == number)
        following[rows[:-1]] = rows[1:]
        units[layout.NEXT, number] = rows[0] if len(rows) else count
    return layout.State(
        units=units,
        window=window,
        spans=spans,
        waiting=np.zeros((-(-places // layout.BITS), places), np.int64),
        place=np.full(count if places else 0, -1, np.int64),
        tokens=tokens,
        since=np.zeros(len(tokens), np.int64),
        following=following,
        limit=token_limit(accelerator),
    )


def deadlock(decoded: Decoded, waiting: list[int], pops: Transfers, tokens: Int64) -> SimulationError:
    """The error of a launch that cannot go on: ``waiting`` are the next instructions of the units, ascending."""
    names, told = queue_names(decoded.accelerator), []
    for index in waiting:
        instruction = decoded.accelerator.instructions[decoded.kind[index]]
        missing = [names[queue] for queue in pops.of(index) if tokens[queue] == 0]
        if missing:
            told.append(
                f"{instruction.unit} waits at instruction {decoded.first + index} ({instruction.name}) for a token of "
                f"{' and '.join(missing)}"
            )
    at = decoded.first + waiting[0]
    return SimulationError("deadlock: " + "; ".join(told), field=f"instruction:{at}", kind="deadlock", instruction=at)


def variations_of(accelerator: Accelerator, family: Family) -> list[Variation]:
    """Bus and latency if its costs name them, the window if it has one, ports; and half the costs, unit by unit.

    A bus that units share counts as named.
    """
    costs = [parse_cost(each.cycles).names for each in accelerator.instructions if each.cycles]
    tried = []
    if accelerator.shares_bus or any("bus_bytes" in names for names in costs):
        tried.append(Scaled("the bus", "{} bytes a beat", ["/dram/bus_bytes"]))
    if any("read_latency" in names for names in costs):
        tried.append(Scaled("the read latency", "a read latency of {} cycles", ["/dram/read_latency"], half=True))
    if accelerator.synchronisation.kind == "hazards":
        tried.append(Scaled("the window", "a window of {} instructions", ["/synchronisation/window"], ["window"]))
    ports = [f"/memories/{number}/ports" for number in range(len(accelerator.memories))]
    tried.append(Scaled("the ports of the memories", "twice as many ports", ports, ["port"]))
    known = OfLaunch(lambda decoded: decoded.kept(accessing))

    def timed(changed: Accelerator) -> TimeLaunch:
        if family.time is not time_launch:  # a plug-in's own
            return time_of(family, changed)
        return lambda decoded, tokens: _time(decoded.on(changed), tokens, known(decoded))

    return [
        *scaled_variations(accelerator, family, tried, timed),
        *_faster_units(accelerator, family, timed),
    ]


def _faster_units(
    accelerator: Accelerator, family: Family, timed: Callable[[Accelerator], TimeLaunch]
) -> Iterator[Variation]:
    change = "half the cycles for each of its instructions"
    for unit in accelerator.units:
        fields = {
            f"/instructions/{number}/cycles": (each.cycles, f"({each.cycles}) / 2")
            for number, each in enumerate(accelerator.instructions)
            if each.unit == unit and each.cycles
        }
        changed = with_fields(accelerator, family, {field: after for field, (_, after) in fields.items()})
        if fields and changed is not None:
            names = frozenset(each.name for each in accelerator.instructions if each.unit == unit)
            yield Variation(f"the {unit} unit", change, fields, timed(changed), names)


def timing_signatures() -> tuple[Signature, ...]:
    """Returns what timing runs."""
    return (
        Signature(timing_decoupled.run_decoupled, layout.STREAM, layout.STATE, MATRIX, MATRIX, MATRIX),
        Signature(timing_in_order.run, layout.STREAM, SCALAR, MATRIX, MATRIX, MATRIX),
    )
