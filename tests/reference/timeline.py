"""The timeline of records, a cycle at a time; and its binary window, read as docs/timeline.md describes it."""

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


def painted(
    records: list[dict[str, Any]], unit: str, causes: tuple[str, ...], last: int, begins: Sequence[int] = (0,)
) -> list[tuple[str, int]]:
    """For each cycle of a unit its category and the instruction whose it is, or ``("idle", -1)``.

    A unit that is free waits for its next instruction to be sent from when the launch, one of ``begins``, begins.
    """
    cycles: list[tuple[str, int]] = [("idle", -1)] * last
    mine = sorted((record for record in records if record["unit"] == unit), key=lambda record: record["start"])
    free = 0
    for place, record in enumerate(mine):
        waits = {wait["on"]: wait["cycles"] for wait in record["waited_for"]}
        following = mine[place + 1]["start"] if place + 1 < len(mine) else last
        done = min(max(free, record["end"]), following)
        for cycle in range(record["start"], done):
            waiting = cycle - record["start"] < waits.get("memory", 0)
            cycles[cycle] = ("memory" if waiting else "busy", record["index"])
        at = record["start"]
        launch = max((begin for begin in begins if begin <= at), default=begins[0])
        for cause in reversed([cause for cause in causes if cause != "memory"]):
            since = at - waits.get(cause, 0)
            if cause == "fetch":
                since = min(since, launch)
            for cycle in range(at - 1, since - 1, -1):
                if cycle >= free:
                    cycles[cycle] = (cause, record["index"])
            at -= waits.get(cause, 0)
        free = max(free, record["end"])
    return cycles


@dataclass(frozen=True)
class Window:
    """What a window says: its bins' edges, its records, the exact ones first, and the counters by bin."""

    begin: int
    end: int
    edges: list[int]
    exact: list[dict[str, int]]
    merged: list[dict[str, int]]
    counters: list[list[int]]


def decoded(data: bytes) -> Window:
    magic, version, begin, end, bins, exact, merged, counters = struct.unpack_from("<4sIQQIIII", data)
    assert (magic, version) == (b"CYTL", 2)
    at, count = 40, exact + merged
    columns: dict[str, list[int]] = {}
    for name, kind in (
        *((name, "<u4") for name in ("start", "cycles", "instruction", "count")),
        *(("operation", "<u2"), ("track", "u1"), ("category", "u1")),
    ):
        column = np.frombuffer(data, kind, count, at)
        columns[name] = column.tolist()
        at += -(-column.nbytes // 4) * 4
    assert at + 4 * bins * counters == len(data)
    most = np.frombuffer(data, "<u4", offset=at).reshape(counters, bins).tolist()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    edges = [begin + index * (end - begin) // bins for index in range(bins + 1)]
    return Window(begin, end, edges, rows[:exact], rows[exact:], most)


def sums(window: Window) -> Counter[tuple[int, int, int]]:
    """Cycles by track, bin and category."""
    found: Counter[tuple[int, int, int]] = Counter()
    edges = window.edges
    for row in window.merged:
        place = edges.index(window.begin + row["start"])
        found[row["track"], place, row["category"]] += row["cycles"]
    for row in window.exact:
        begin = window.begin + row["start"]
        end = begin + row["cycles"]
        for place in range(len(edges) - 1):
            part = min(end, edges[place + 1]) - max(begin, edges[place])
            if part > 0:
                found[row["track"], place, row["category"]] += part
    return found
