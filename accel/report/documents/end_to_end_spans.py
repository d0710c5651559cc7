"""When each part of an end-to-end time is at work: the parts of a step one after the other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel.report.documents.end_to_end_documents import TimePart

_ORDER: Mapping[str, tuple[TimePart, ...]] = {
    "launch": ("movement", "host", "accelerator"),
    "host": ("host", "movement", "accelerator"),
}


@dataclass(frozen=True)
class PartSpan:
    """Cycles ``[begin, end)`` in which a part of the time is at work for a step, by the accelerator's clock."""

    part: TimePart
    step: str
    begin: int
    end: int


def part_spans(steps: Sequence[Mapping[str, Any]]) -> Iterator[PartSpan]:
    """Yields the spans of steps as a report's JSON has them, in their order; none of what takes no time."""
    for step in steps:
        at = step["begin"]
        for part in _ORDER[step["kind"]]:
            if step[part]:
                yield PartSpan(part, step["name"], at, at + step[part])
            at += step[part]
