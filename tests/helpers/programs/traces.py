"""Traces made of random numbers, and what their forms must be, said plainly, a row at a time."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.program.program_model import InstructionOrigin
from accel.trace.program_trace import Trace
from accel.trace.trace_names import HostSpan, LaunchSpan, Queue, RowSemantics, TraceNames, TraceOperation
from accel.trace.trace_rows import Index, Limits, Rows, limits_of, make_index, merged_limits

UNITS = ("load", "compute")
TOKENS = {"take": "pop", "give": "push"}
CAUSES = ("fetch", "load_to_compute", "compute_to_load", "hazard", "memory")


@dataclass(frozen=True)
class Held:
    """Rows in memory."""

    names: TraceNames
    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def read(self, begin: int, end: int) -> Rows:
        return Rows.run(self.names, begin, {name: column[begin:end] for name, column in self.columns.items()})

    def runs(self, begin: int, end: int) -> Iterator[Rows]:
        yield self.read(begin, end)

    def limits(self) -> Limits:
        return limits_of(self.columns) if len(self) else merged_limits(self.names, [])

    def index(self) -> Index:
        return make_index(self)


def names(launches: list[tuple[str, int, int]], *, initial: int = 0, causes: tuple[str, ...] = CAUSES) -> TraceNames:
    operations = (
        TraceOperation(name="load_inp", unit="load", fields=("take", "give", "base")),
        TraceOperation(
            name="gemm",
            unit="compute",
            fields=("take", "give", "imm", "count"),
            does=(
                RowSemantics(text="c[i] = 0", when={"take": 1}),
                RowSemantics(text="c[i] += \u00e9[i]", when={"give": 1}),
            ),
        ),
        TraceOperation(name='say "x"', unit="compute", fields=("give", "take")),
    )
    pairs = (("load", "compute", initial), ("compute", "load", 0))
    return TraceNames(
        accelerator="an <odd> one, \u00e9\u4e2d",
        clock_mhz=100,
        timed=True,
        units=UNITS,
        operations=operations,
        queues=tuple(
            Queue(
                name=f"{a}_to_{b}",
                producer=a,
                consumer=b,
                push=tuple("give" if o.unit == a else None for o in operations),
                pop=tuple("take" if o.unit == b else None for o in operations),
                initial=many,
            )
            for a, b, many in pairs
        ),
        fields=("take", "give", "base", "imm", "count"),
        causes=causes,
        causes_awaited=tuple(cause for cause in causes if cause == "hazard"),
        launches=tuple(LaunchSpan(name=name, begin=begin, end=end) for name, begin, end in launches),
        hosts=(HostSpan(name="widen", cycle=0),),
        origins=(
            InstructionOrigin(("a,b", 'c"d'), "=f", 3, "pragma", "inject"),
            InstructionOrigin(("\u4e2d\u6587", "n\n"), "f", 12345, "", "+x"),
        ),
    )


def random_trace(seed: int, count: int, *, initial: int = 0) -> Held:
    """Units run their instructions one after the other, each after what it waited for; tokens are what they are."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, count)
    unit = np.minimum(kind, 1)
    waits = {cause: rng.integers(0, 30, count) * (rng.random(count) < 0.3) for cause in CAUSES}
    length = rng.choice([0, 1, 2, 7, 300], count)
    waits["memory"] = np.minimum(waits["memory"], length)
    gap = sum(waits[cause] for cause in CAUSES if cause != "memory") + rng.integers(0, 3, count) * (
        rng.random(count) < 0.1
    )
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number in range(len(UNITS)):
        mine = unit == number
        end[mine] = np.cumsum((gap + length)[mine])
        start[mine] = end[mine] - length[mine]
    launch = np.sort(rng.integers(0, 3, count))
    last = int(end.max(initial=0))
    spans = [("conv,1", 0, last // 3), ("=dense", last // 3, last // 2), ("\u00fc", last // 2, last)]
    columns = {"launch": launch, "kind": kind, "start": start, "end": end, "origin": rng.integers(-1, 2, count)}
    limits = {"take": (0, 2), "give": (0, 2), "base": (0, 10**9), "imm": (-(2**31), 2**31), "count": (0, 12_000)}
    has = np.array([[name in o.fields for name in limits] for o in names([]).operations])
    for place, (name, (low, high)) in enumerate(limits.items()):
        columns[f"field/{name}"] = rng.integers(low, high, count) * has[kind, place]
    columns |= {f"wait/{cause}": cycles for cause, cycles in waits.items()}
    awaited = np.maximum(np.arange(count) - rng.integers(1, 60, count), 0)
    awaited = np.where(rng.random(count) < 0.1, np.minimum(np.arange(count) + 3, count - 1), awaited)
    columns["awaited/hazard"] = np.where(waits["hazard"] > 0, np.arange(count) - awaited, 0)
    return Held(names(spans, initial=initial), columns)


def records(held: Held) -> list[dict[str, Any]]:
    return Trace(held).page(0, len(held))


def plain_csv(held: Held) -> bytes:
    file = io.StringIO(newline="")
    fields, causes = held.names.fields, held.names.causes
    origin = ["nodes", "function", "site", "pragma", "stage"]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        [
            "index",
            "launch",
            "unit",
            "op",
            "start",
            "end",
            *fields,
            *(f"wait_{c}" for c in causes),
            "awaited_hazard",
            *origin,
        ]
    )
    for r in records(held):
        waits = {w["on"]: w["cycles"] for w in r["waited_for"]}
        o = r["origin"]
        cells = [safe(" ".join(o["nodes"])), *(safe(str(o[name])) for name in origin[1:])] if o else [""] * 5
        heads = [r["index"], safe(r["launch"]), r["unit"], r["op"], r["start"], r["end"]]
        values = [r["fields"].get(name, "") for name in fields]
        (awaited,) = [w.get("instruction") for w in r["waited_for"] if w["on"] == "hazard"] or [None]
        writer.writerow([*heads, *values, *(waits.get(cause, 0) for cause in causes), awaited, *cells])
    return file.getvalue().encode()


def safe(text: str) -> str:
    return "'" + text if text.startswith(("=", "+", "-", "@")) else text


def plain_text(held: Held) -> bytes:
    lines = []
    for r in records(held):
        words = [r["index"], r["launch"], r["unit"], r["op"], r["start"], r["end"]]
        words += [f"{name}={value}" for name, value in r["fields"].items()]
        for wait in r["waited_for"]:
            words.append(f"wait:{wait['on']}={wait['cycles']}")
            words += [f"awaited:{wait['on']}={wait['instruction']}"] if "instruction" in wait else []
        line = " ".join(map(str, words))
        line += f"  : {r['does']}" if r["does"] else ""
        if o := r["origin"]:
            line += f"  ; {o['function']}#{o['site']} {o['pragma']} {o['stage']} {' '.join(o['nodes'])}"
        lines.append(line.rstrip() + "\n")
    return "".join(lines).encode()


def pipeline_trace(seed: int, count: int) -> Held:
    """As random, but as a machine could have run it: a pop waits for its push, and a wait for memory is a part."""
    rng = np.random.default_rng(seed)
    held = random_trace(seed, count)
    columns = {name: column.copy() for name, column in held.columns.items()}
    free, tokens = [0, 0], {0: [], 1: []}  # tokens for a unit: when they were pushed
    for row in range(count):
        unit = min(int(columns["kind"][row]), 1)
        fetched = free[unit] + int(columns["wait/fetch"][row])
        take = bool(columns["field/take"][row] and tokens[unit])
        start = max(fetched, tokens[unit].pop(0)) if take else fetched
        end = start + int(rng.integers(8, 40))
        for cause, own in (("load_to_compute", 1), ("compute_to_load", 0)):
            columns[f"wait/{cause}"][row] = (start - fetched) * (unit == own)
        columns["wait/memory"][row], columns["wait/hazard"][row] = rng.integers(0, 5) * (unit == 0), 0
        columns["field/take"][row], columns["start"][row], columns["end"][row] = take, start, end
        free[unit] = end
        if columns["field/give"][row]:
            tokens[1 - unit].append(end)
    awaited = np.arange(count) - columns["awaited/hazard"]
    columns["awaited/hazard"][columns["start"][awaited] >= columns["start"]] = 0  # nothing waits for what comes later
    (name, *_), last = [launch.name for launch in held.names.launches], max(free)
    columns["launch"][:] = 0
    return Held(names([(name, 0, last)]), columns)
