"""Figures of a job's report for its page: where each unit's cycles went, what limits the program, layers by rank.

A report is what its model dumps, as the command line has it too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Report = Mapping[str, Any]
Category = Literal["busy", "wait-memory", "wait-token", "wait-fetch", "wait-other", "idle"]
CATEGORIES: dict[Category, str] = {
    "busy": "busy",
    "wait-memory": "waits for memory",
    "wait-token": "waits for another unit",
    "wait-fetch": "waits for an instruction",
    "wait-other": "waits for another cause",
    "idle": "idle",
}
WHOLE = "accelerator"  # in place of a unit's name: all of them as one
_BUSY = "busy: "  # before the instruction that was at work
_HALF = 0.5
_LITTLE = 0.01  # of the cycles: less is not worth a word
_TO = "_to_"  # a token queue is named by the unit that sends and the unit that waits


@dataclass(frozen=True)
class Slice:
    """Cycles of one cause in a unit's bar; ``begin`` and ``share`` are parts of the whole bar."""

    category: Category
    cause: str
    cycles: int
    begin: float
    share: float

    @property
    def instruction(self) -> str | None:
        """The instruction that was at work, where the report says it."""
        return self.cause.removeprefix(_BUSY) if self.cause.startswith(_BUSY) else None


@dataclass(frozen=True)
class UnitCycles:
    """Where the cycles of one unit went; its slices add up to ``cycles``, the program's.

    ``instructions`` is None for the accelerator as a whole.
    """

    name: str
    instructions: int | None
    cycles: int
    slices: list[Slice]

    def share(self, category: Category) -> float:
        """Returns the share of the unit's cycles that are of a category."""
        return sum(each.share for each in self.slices if each.category == category)


_Part = tuple[Category, str, int]


def unit_cycles(report: Report) -> list[UnitCycles]:
    """Returns where the cycles went, of the accelerator as a whole and of each unit; none where timing did not run.

    A report of an earlier version has no account: then the whole is not known, and what a unit's family does not
    explain is said to be so.
    """
    units = report["units"] or {}
    account = report.get("account")
    if account is not None:
        whole = _unit(WHOLE, None, _accounted(account["total"]))
        parts = ((name, _accounted(shares)) for name, shares in account["units"].items())
        return [whole, *(_unit(name, units[name]["instructions"], found) for name, found in parts)]
    return [
        _unit(name, unit["instructions"], _unaccounted(unit, report["cycles"] or 0)) for name, unit in units.items()
    ]


def _unit(name: str, instructions: int | None, parts: Iterable[_Part]) -> UnitCycles:
    order = list(CATEGORIES)
    found = sorted((part for part in parts if part[2] > 0), key=lambda part: (order.index(part[0]), -part[2]))
    total = sum(cycles for _, _, cycles in found)
    slices, begin = [], 0
    for category, cause, cycles in found:
        slices.append(Slice(category, cause, cycles, begin / total, cycles / total))
        begin += cycles
    return UnitCycles(name, instructions, total, slices)


def _accounted(shares: Mapping[str, Mapping[str, int]]) -> Iterator[_Part]:
    """Yields category, cause and cycles of an account."""
    for name, causes in shares.items():
        for cause, cycles in causes.items():
            if name == "busy":
                yield "busy", f"{_BUSY}{cause}", cycles
            elif name == "memory":
                yield "wait-memory", "waits for the bus" if cause == "memory" else f"waits for memory: {cause}", cycles
            elif name == "idle":
                yield "idle", "idle: its last instruction has ended" if cause == "ended" else f"idle: {cause}", cycles
            else:
                yield _category(cause)[0] if name == "other" else _named(name), _category(cause)[1], cycles


def category_of(kind: str) -> Category:
    """Returns the category of a kind of cycles as accounts and timelines call it, such as ``token``."""
    return next(category for category in CATEGORIES if category in {kind, f"wait-{kind}"})


def wait_words(cause: str) -> str:
    """Returns what a unit waits for, by the cause as accounts and timelines call it, such as ``load_to_compute``."""
    return _category(cause)[1]


def _named(category: str) -> Category:
    return "wait-token" if category == "token" else "wait-fetch"


def _unaccounted(unit: Mapping[str, Any], total: int) -> Iterator[_Part]:
    """Yields category, cause and cycles of a unit's sums; waiting for the bus is within its work."""
    stalled: Mapping[str, int] = unit["stalled"]
    yield "busy", "busy", unit["busy"] - stalled.get("memory", 0)
    for cause, cycles in stalled.items():
        yield *_category(cause), cycles
    yield "idle", "idle: its last instruction has ended", unit["idle"]
    known = unit["busy"] + unit["idle"] + sum(cycles for cause, cycles in stalled.items() if cause != "memory")
    yield "wait-other", "waits, and the report does not say for what", total - known


def _category(cause: str) -> tuple[Category, str]:
    if cause == "memory":
        return "wait-memory", "waits for the bus, which serves another"
    if cause == "fetch":
        return "wait-fetch", "waits for its next instruction to be fetched"
    if _TO in cause:
        return "wait-token", f"waits for a token of {cause.partition(_TO)[0]}"
    return "wait-other", _CAUSES.get(cause, f"waits: {cause}")


_CAUSES = {
    "hazard": "waits for an instruction that touches the same addresses",
    "window": "waits for room in the window of instructions",
    "issue": "waits for its turn in the program",
    "port": "waits for a port of a memory",
    "reservation_station": "waits for room in the reservation station",
    "processor": "waits for the processor that sends instructions",
    "unit": "waits until its unit is free",
    **{unit: f"waits for an instruction of {unit}" for unit in ("load", "execute", "store")},
}


def limit_sentence(report: Report, units: Sequence[UnitCycles]) -> str:
    """Returns one sentence that says what limits the program and what would help most.

    Where the report does not know, it says which unit is at work most, and what it waits for.
    """
    limits = report.get("limits")
    if limits is not None and limits["sentence"] is not None:
        sentence: str = limits["sentence"]
        return f"{sentence[:1].upper()}{sentence[1:]}."
    known = [unit for unit in units if unit.cycles and unit.instructions is not None]
    if not known:
        return ""
    first = max(known, key=lambda unit: unit.share("busy") + unit.share("wait-memory"))
    working = first.share("busy") + first.share("wait-memory")
    waits = [each for each in first.slices if each.category not in {"busy", "idle", "wait-memory"}]
    longest = max(waits, key=lambda each: each.cycles, default=None)
    if working >= _HALF:
        sentence = f"The unit {first.name} limits it: it is at work for {working:.0%} of the cycles"
    else:
        sentence = f"No unit is at work for half of the cycles: {first.name}, the busiest, is for {working:.0%}"
    if first.share("wait-memory") >= _LITTLE:
        sentence += f", {first.share('wait-memory'):.0%} waiting for the bus"
    if longest is not None and longest.share >= _LITTLE:
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
