"""The end-to-end time of a program as a picture: a lane for the accelerator, for the host, and for movement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel.report.documents.end_to_end_spans import part_spans

WIDTH, _LANE, _GAP = 1000, 24, 22
_FINE = 10  # parts of a unit of the view box: what is nearer is drawn as one
_LANES = (("accelerator", "accel"), ("host", "host"), ("movement", "wait-memory"))

Span = tuple[int, int]


@dataclass(frozen=True)
class TimeLane:
    """A part of the time; ``top`` is where its lane begins, ``path`` all of its spans."""

    name: str
    colour: str
    top: int
    path: str


@dataclass(frozen=True)
class EndToEndFigure:
    """All that the picture shows; coordinates are of a view box ``WIDTH`` wide."""

    width: int
    height: int
    lane: int
    lanes: Sequence[TimeLane]


def end_to_end_figure(found: Mapping[str, Any]) -> EndToEndFigure | None:
    """Returns the picture of a report's ``end_to_end``; None where the host is not modelled, or nothing takes time."""
    if not found["modelled"] or not found["cycles"]:
        return None
    spans: dict[str, list[Span]] = {name: [] for name, _ in _LANES}
    for span in part_spans(found["steps"]):
        spans[span.part].append((span.begin, span.end))
    lanes = []
    for number, (name, colour) in enumerate(_LANES):
        top = number * (_LANE + _GAP) + _GAP
        lanes.append(TimeLane(name, colour, top, _path(spans[name], found["cycles"], top)))
    return EndToEndFigure(WIDTH, len(lanes) * (_LANE + _GAP) + 6, _LANE, lanes)


def _path(spans: Sequence[Span], cycles: int, top: int) -> str:
    return "".join(
        f"M{begin / _FINE:.1f} {top}h{(end - begin) / _FINE:.1f}v{_LANE}H{begin / _FINE:.1f}z"
        for begin, end in _merged(spans, cycles)
    )


def _merged(spans: Sequence[Span], cycles: int) -> Iterator[Span]:
    """The spans in fine parts of the picture, each at least one wide, and those that touch as one."""
    last: Span | None = None
    for begin, end in spans:
        left = begin * WIDTH * _FINE // cycles
        right = max(end * WIDTH * _FINE // cycles, left + 1)
        if last is not None and left <= last[1]:
            last = last[0], max(right, last[1])
            continue
        if last is not None:
            yield last
        last = left, right
    if last is not None:
        yield last
