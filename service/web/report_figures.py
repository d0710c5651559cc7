"""Figures of a job's report for its page: where each unit's cycles went, what limits the program, layers by rank.

A report is what its model dumps, as the command line has it too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Report = Mapping[str, Any]
Category = Literal["busy", "wait-memory", "wait-token", "wait-fetch", "wait-other", "idle"]
CATEGORIES: dict[Category, str] = {
    "busy": "busy",
    "wait-memory": "waits for the bus",
    "wait-token": "waits for another unit",
    "wait-fetch": "waits for an instruction",
    "wait-other": "waits for another cause",
    "idle": "idle",
}
_HALF = 0.5
_TO = "_to_"  # a token queue is named by the unit that sends and the unit that waits


@dataclass(frozen=True)
class Slice:
    """Cycles of one cause in a unit's bar; ``begin`` and ``share`` are parts of the whole bar."""

    category: Category
    cause: str
    cycles: int
    begin: float
    share: float


@dataclass(frozen=True)
class UnitCycles:
    """Where the cycles of one unit went; its slices add up to ``cycles``, the program's."""

    name: str
    instructions: int
    cycles: int
    slices: list[Slice]

    def share(self, category: Category) -> float:
        """Returns the share of the unit's cycles that are of a category."""
        return sum(each.share for each in self.slices if each.category == category)


def unit_cycles(report: Report) -> list[UnitCycles]:
    """Returns where the cycles of each unit went; none where timing did not run."""
    return [_unit(name, unit) for name, unit in (report["units"] or {}).items()]


def _unit(name: str, unit: Mapping[str, Any]) -> UnitCycles:
    parts = [part for part in _parts(unit) if part[2]]
    total = sum(cycles for _, _, cycles in parts)
    slices, begin = [], 0
    for category, cause, cycles in parts:
        slices.append(Slice(category, cause, cycles, begin / total, cycles / total))
        begin += cycles
    return UnitCycles(name, unit["instructions"], total, slices)


def _parts(unit: Mapping[str, Any]) -> Iterator[tuple[Category, str, int]]:
    """Yields category, cause and cycles in the order of the categories; waiting for the bus is within a unit's work."""
    stalled: Mapping[str, int] = unit["stalled"]
    yield "busy", "busy", unit["busy"] - stalled.get("memory", 0)
    found = [(*_category(cause), cycles) for cause, cycles in stalled.items()]
    yield from sorted(found, key=lambda part: (list(CATEGORIES).index(part[0]), -part[2]))
    yield "idle", "idle: its last instruction has ended", unit["idle"]


def _category(cause: str) -> tuple[Category, str]:
    if cause == "memory":
        return "wait-memory", "waits for the bus, which serves another"
    if cause == "fetch":
        return "wait-fetch", "waits for its next instruction to be fetched"
    if _TO in cause:
        return "wait-token", f"waits for a token of {cause.partition(_TO)[0]}"
    if cause == "hazard":
        return "wait-other", "waits for an instruction that touches the same addresses"
    return "wait-other", f"waits: {cause}"


def limit_sentence(units: Sequence[UnitCycles]) -> str:
    """Returns one sentence that says which unit limits the program, and what the others wait for."""
    if not any(unit.cycles for unit in units):
        return ""
    first = max(units, key=lambda unit: unit.share("busy") + unit.share("wait-memory"))
    working = first.share("busy") + first.share("wait-memory")
    waits = [each for each in first.slices if each.category not in {"busy", "idle", "wait-memory"}]
    longest = max(waits, key=lambda each: each.cycles, default=None)
    if working >= _HALF:
        sentence = f"The unit {first.name} limits it: it is at work for {working:.0%} of the cycles"
    else:
        sentence = f"No unit is at work for half of the cycles: {first.name}, the busiest, is for {working:.0%}"
    if first.share("wait-memory") >= 0.01:
        sentence += f", {first.share('wait-memory'):.0%} waiting for the bus"
    if longest is not None and longest.share >= 0.01:
        sentence += f", and for {longest.share:.0%} it {longest.cause}"
    return f"{sentence}."


@dataclass(frozen=True)
class RankedLayer:
    """A launch in the table of layers.

    Attributes:
        number: its place in the program, from 1.
        layer: its row of the report.
        share: of the program's cycles.
        distance: its cycles over its lower bound; None without one.
    """

    number: int
    layer: Mapping[str, Any]
    share: float
    distance: float | None


def ranked_layers(layers: Sequence[Mapping[str, Any]]) -> list[RankedLayer]:
    """Returns the launches, those with most cycles first."""
    total = sum(layer["cycles"] for layer in layers)
    ranked = [
        RankedLayer(
            number,
            layer,
            layer["cycles"] / total if total else 0.0,
            layer["cycles"] / layer["lower_bound"] if layer["lower_bound"] and layer["cycles"] else None,
        )
        for number, layer in enumerate(layers, 1)
    ]
    return sorted(ranked, key=lambda each: (-each.layer["cycles"], each.number))


def peak_macs(layers: Sequence[Mapping[str, Any]]) -> float | None:
    """Returns the accelerator's multiply-accumulates a cycle at best, by which utilisations are; None where none is."""
    found = [layer["macs"] / (layer["cycles"] * layer["utilisation"]) for layer in layers if layer["utilisation"]]
    return round(max(found), 3) if found else None


@dataclass(frozen=True)
class HostGroup:
    """Operators that the host runs for one reason."""

    op: str
    reason: str
    nodes: list[str]


def host_groups(host_ops: Sequence[Mapping[str, str]]) -> list[HostGroup]:
    """Returns the host's operators by type and reason, in the order in which each is first met."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in host_ops:
        found.setdefault((each["op"], each["reason"]), []).append(each["node"])
    return [HostGroup(op, reason, nodes) for (op, reason), nodes in found.items()]
