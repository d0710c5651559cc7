"""Building of a trace from a simulation: columns of the timing engine, and fields decoded when rows are read."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Instruction, Layer, LayerOperation, takes_windows
from accel.program.program_model import HostStep, Program
from accel.trace.program_trace import Trace
from accel.trace.trace_names import HostSpan, LaunchSpan, Queue, RowSemantics, TraceNames, TraceOperation
from accel.trace.trace_rows import Index, Limits, Rows, limits_of, make_index, merged_limits
from accel.util.arrays import Signed

if TYPE_CHECKING:  # reading a trace needs no simulator
    from accel.isa.decode import Decoded
    from accel.simulate.engine import LaunchResult, Simulation

_FIELD = "field/"  # before the names of fields
_RUN = 4096  # rows that are written at once


def make_trace(program: Program, simulation: "Simulation") -> Trace:
    """Returns the trace of ``program`` as it ran."""
    names = _names(program, simulation)
    results = simulation.launches
    parts = tuple(_part(names, program, number, result) for number, result in enumerate(results))
    return Trace(_Launches(names, parts))


class _Columns(Mapping[str, Signed]):
    """Columns of rows that follow each other; those of fields are decoded when one of them is asked for.

    Args:
        known: those of all but the fields.
        decoded: the instructions.
        names: of the trace.
    """

    def __init__(self, known: dict[str, Signed], decoded: "Decoded", names: TraceNames) -> None:
        self._known, self._decoded, self._names = known, decoded, names

    def __getitem__(self, name: str) -> Signed:
        if not name.startswith(_FIELD):
            return self._known[name]
        field = self._decoded.columns.get(name.removeprefix(_FIELD))
        return np.broadcast_to(np.int32(0), len(self._decoded)) if field is None else field

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.columns)

    def __len__(self) -> int:
        return len(self._names.columns)

    def pack(self, records: npt.NDArray[np.void]) -> Collection[str]:
        """Write the fields into the fields of their names of ``records`` (n,), which are zero; return which."""
        packed = {name: place for name, place in (records.dtype.fields or {}).items() if name.startswith(_FIELD)}
        places = {name.removeprefix(_FIELD): (at, kind.itemsize) for name, (kind, at, *_) in packed.items()}
        self._decoded.pack(places, records.view(np.uint8).reshape(len(records), -1))
        return packed


@dataclass(frozen=True)
class _Part:
    """The rows of one launch: their ``columns`` but the fields; ``shift`` (cycles) is added to its times."""

    columns: dict[str, Signed]
    shift: int
    names: TraceNames
    result: "LaunchResult"

    def read(self, begin: int, end: int) -> "_Columns":
        found = {name: column[begin:end] for name, column in self.columns.items()}
        if self.shift:
            found |= {name: found[name] + np.int64(self.shift) for name in ("start", "end")}
        return _Columns(found, self.result.part(begin, end), self.names)

    def limits(self) -> Limits:
        found = dict(limits_of(self.columns))
        found |= {name: (found[name][0] + self.shift, found[name][1] + self.shift) for name in ("start", "end")}
        known = self.result.part(0, len(self)).limits()
        found |= {f"field/{name}": known.get(name, (0, 0)) for name in self.names.fields}
        return found

    def __len__(self) -> int:
        return len(self.columns["kind"])


class _Launches:
    """The rows of several launches, one after the other."""

    def __init__(self, names: TraceNames, parts: tuple[_Part, ...]) -> None:
        self.names = names
        self._parts = parts
        self._begins = list(accumulate(map(len, parts), initial=0))

    def __len__(self) -> int:
        return self._begins[-1]

    def index(self) -> Index:
        """Returns the index, which each call builds: only a file and a window of cycles need it."""
        return make_index(self)

    def read(self, begin: int, end: int) -> Rows:
        """Returns rows ``[begin, end)``."""
        runs = list(self._runs(begin, end, end - begin))
        columns = runs[0].columns if len(runs) == 1 else Rows.joined(self.names, runs).columns
        return Rows.run(self.names, begin, columns)

    def runs(self, begin: int, end: int) -> Iterator[Rows]:
        """Yields rows ``[begin, end)``, each time some of one launch, whose columns stay in a processor's cache."""
        return self._runs(begin, end, _RUN)

    def limits(self) -> Limits:
        """Returns the least and the greatest value of each column."""
        return merged_limits(self.names, (part.limits() for part in self._parts if len(part)))

    def _runs(self, begin: int, end: int, most: int) -> Iterator[Rows]:
        number = max(bisect_right(self._begins, begin) - 1, 0)
        while number < len(self._parts) and self._begins[number] < end:
            first, behind = self._begins[number], min(self._begins[number + 1], end)
            for at in range(max(begin, first), behind, most):
                columns = self._parts[number].read(at - first, min(at + most, behind) - first)
                yield Rows.run(self.names, at, columns)
            number += 1


def _part(names: TraceNames, program: Program, number: int, result: "LaunchResult") -> _Part:
    timing, begin, count = result.timing, result.launch.begin, len(result.kind)

    def constant(value: int) -> Signed:
        return np.broadcast_to(np.int32(value), count)

    columns: dict[str, Signed] = {
        "launch": constant(number),
        "kind": result.kind,
        "start": timing.start if timing else constant(-1),
        "end": timing.end if timing else constant(-1),
        "origin": program.origin[begin : begin + count],
    }
    waits = timing.waits if timing else {}
    columns |= {f"wait/{cause}": waits[cause] if cause in waits else constant(0) for cause in names.causes}
    awaited = timing.awaited if timing else {}
    columns |= {
        f"awaited/{cause}": awaited[cause] if cause in awaited else constant(0) for cause in names.causes_awaited
    }
    return _Part(columns, result.started if timing else 0, names, result)


def _names(program: Program, simulation: "Simulation") -> TraceNames:
    accelerator, results = program.accelerator, simulation.launches
    timings = [result.timing for result in results if result.timing]
    told = [each for each in accelerator.instructions if isinstance(each, Copy | Compute | Layer)]
    endings = {each.name: accelerator.parts(each)[-1].name for each in told}
    operations = tuple(
        TraceOperation(
            name=i.name,
            unit=i.unit,
            fields=tuple(f.name for f in i.fields if f.value is None),
            does=tuple(_row_semantics(i, [each for each in told if endings[each.name] == i.name])),
        )
        for i in accelerator.instructions
    )
    return TraceNames(
        accelerator=accelerator.title,
        clock_mhz=accelerator.clock_mhz,
        timed=len(timings) == len(results),
        units=accelerator.units,
        operations=operations,
        queues=_queues(accelerator, program.initial_tokens),
        fields=tuple(dict.fromkeys(name for operation in operations for name in operation.fields)),
        causes=tuple(dict.fromkeys(cause for timing in timings for cause in timing.waits)),
        causes_awaited=tuple(dict.fromkeys(cause for timing in timings for cause in timing.awaited)),
        launches=tuple(_span(result) for result in results),
        hosts=_hosts(program, results),
        origins=program.origins,
    )


def _row_semantics(instruction: Instruction, told: Sequence[Copy | Compute | Layer]) -> Iterator[RowSemantics]:
    """The expressions of those that an instruction tells of: itself, and sequences that end with it."""
    varying = {field.name for field in instruction.fields if field.value is None}
    for one in told:
        prefix = f"{instruction.name}." if one.sequence else ""
        for text, when in _texts(one):
            own = {name.removeprefix(prefix): value for name, value in when.items() if name.startswith(prefix)}
            yield RowSemantics(text=text, when={name: v for name, v in own.items() if name in varying})


def _texts(instruction: Copy | Compute | Layer) -> Iterator[tuple[str, dict[str, int]]]:
    """What an instruction can do, and the fields that choose it."""
    if isinstance(instruction, Copy) and instruction.rows is not None:
        rows = instruction.rows
        for each in rows.passes:
            numbers = (each.last, each.last | each.before) if each.before else (each.last,)
            yield from ((f"{each.name} of rows", when) for when in numbers)
        yield f"{rows.function} of rows", rows.stores
    windows = " of the largest of each window" if takes_windows(instruction) else ""
    for operation in instruction.operations:
        does = "; ".join(operation.statements) if isinstance(operation, LayerOperation) else operation.does
        yield does + windows, operation.when


def _span(result: "LaunchResult") -> LaunchSpan:
    begin = result.first_cycle
    end = begin + (result.timing.cycles if result.timing else 0)
    return LaunchSpan(name=result.launch.name, begin=begin, end=end, joined=result.launch.joined)


def _hosts(program: Program, results: tuple["LaunchResult", ...]) -> tuple[HostSpan, ...]:
    """The clock stands still during a host step: it runs where the launch before it ended."""
    found, ran = [], 0
    for step in program.steps:
        if isinstance(step, HostStep):
            cycle = _span(results[ran - 1]).end if ran else 0
            found.append(HostSpan(name=step.name, cycle=cycle))
        else:
            ran += 1
    return tuple(found)


def _queues(accelerator: Accelerator, initial: dict[str, int]) -> tuple[Queue, ...]:
    pairs: dict[tuple[str, str], None] = {}
    for instruction in accelerator.instructions:
        pairs |= {(instruction.unit, other): None for other in instruction.tokens.push}
        pairs |= {(other, instruction.unit): None for other in instruction.tokens.pop}
    return tuple(
        Queue(
            name=f"{producer}_to_{consumer}",
            producer=producer,
            consumer=consumer,
            push=tuple(i.tokens.push.get(consumer) if i.unit == producer else None for i in accelerator.instructions),
            pop=tuple(i.tokens.pop.get(producer) if i.unit == consumer else None for i in accelerator.instructions),
            initial=initial.get(f"{producer}_to_{consumer}", 0),
        )
        for producer, consumer in pairs
    )
