"""The timeline of a whole program as a picture without a script: what each unit spent its cycles on, part by part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.trace.timeline import Timeline
from accel.util.arrays import Int64

_BINS = 400
WIDTH, _LANE, _GAP, _TOP = 1000, 36, 22, 30


@dataclass(frozen=True)
class Area:
    """The parts of a lane that are of one category, as an SVG path."""

    colour: str
    path: str


@dataclass(frozen=True)
class Lane:
    """A unit; ``top`` is where its lane begins, ``areas`` are stacked from its bottom."""

    unit: str
    top: int
    areas: Sequence[Area]


@dataclass(frozen=True)
class Strip:
    """A launch in the strip above the lanes."""

    name: str
    number: int
    cycles: int
    x: float
    width: float


@dataclass(frozen=True)
class TimelineFigure:
    """All that the picture shows; coordinates are of a view box ``WIDTH`` wide."""

    width: int
    height: int
    lane: int
    cycles: int
    launches: Sequence[Strip]
    lanes: Sequence[Lane]


def timeline_figure(timeline: Timeline) -> TimelineFigure | None:
    """Returns the picture of a timeline; None of one without cycles."""
    if not timeline.cycles:
        return None
    edges, profile = timeline.profile(_BINS)
    kinds = {each["name"]: str(each["kind"]) for each in timeline.document()["categories"]}
    lanes = []
    for number, (unit, parts) in enumerate(zip(timeline.names.units, profile, strict=True)):
        top = _TOP + number * (_LANE + _GAP) + _GAP
        lanes.append(Lane(unit, top, _areas(edges, parts, kinds, top)))
    scale = WIDTH / timeline.cycles
    launches = [
        Strip(each.name, number, each.end - each.begin, each.begin * scale, (each.end - each.begin) * scale)
        for number, each in enumerate(timeline.names.launches, 1)
    ]
    height = _TOP + len(lanes) * (_LANE + _GAP) + _GAP
    return TimelineFigure(WIDTH, height, _LANE, timeline.cycles, launches, lanes)


def _areas(edges: Int64, parts: dict[str, Int64], kinds: dict[str, str], top: int) -> list[Area]:
    """One path for each colour: categories of a kind are drawn alike."""
    sums: dict[str, Any] = {}
    for name, cycles in parts.items():
        colour = "busy" if kinds[name] == "busy" else f"wait-{kinds[name]}"
        sums[colour] = sums.get(colour, 0) + cycles
    length = np.diff(edges)
    x, width = edges[:-1] * (WIDTH / edges[-1]), length * (WIDTH / edges[-1])
    areas, below = [], np.zeros(len(length))
    for colour, cycles in sums.items():
        high = np.minimum(cycles / length, 1 - below) * _LANE
        bottom = top + _LANE * (1 - below)
        rows = np.stack([x, bottom - high, width, high], axis=1)[high > 0]
        below = below + high / _LANE
        path = "".join(
            f"M{left:.2f} {up:.2f}h{wide:.2f}v{tall:.2f}h-{wide:.2f}z" for left, up, wide, tall in rows.tolist()
        )
        if path:
            areas.append(Area(colour, path))
    return areas
