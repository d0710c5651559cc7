"""Tracks of modelled times, in a process of their own: they go by another clock than the trace's, which is exact."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.trace.perfetto.slice_texts import PID, Clock

Event = dict[str, Any]
_PROCESS = PID + 1
_THREADS = 1 << 16  # their numbers begin here: viewers may know threads by these alone


@dataclass(frozen=True)
class ModelledSpan:
    """Cycles ``[begin, end)`` on one of the tracks; those of a track follow each other."""

    track: str
    name: str
    begin: int
    end: int


def modelled_events(spans: Sequence[ModelledSpan], clock: Clock, most: int) -> Iterator[Event]:
    """Yields the tracks, in the order in which they are first met, and at most about ``most`` spans.

    Where there are more, neighbours of a track are merged.
    """
    tracks: dict[str, list[ModelledSpan]] = {}
    for span in spans:
        tracks.setdefault(span.track, []).append(span)
    if not tracks:
        return
    yield _metadata("process_name", _THREADS, {"name": "end to end (modelled)"})
    size = -(-len(spans) // max(most, 1))
    for tid, (track, own) in enumerate(tracks.items(), _THREADS + 1):
        yield _metadata("thread_name", tid, {"name": track})
        yield _metadata("thread_sort_index", tid, {"sort_index": tid})
        for first in range(0, len(own), size):
            yield _slice(own[first : first + size], tid, clock)


def _metadata(name: str, tid: int, args: Event) -> Event:
    return {"ph": "M", "pid": _PROCESS, "tid": tid, "name": name, "args": args}


def _slice(group: Sequence[ModelledSpan], tid: int, clock: Clock) -> Event:
    begin, end = clock.ticks(np.array([group[0].begin, group[-1].end], np.int64)).tolist()
    name = group[0].name if len(group) == 1 else f"{len(group)} steps"
    times = {"ts": clock.number(begin), "dur": clock.number(end - begin)}
    args = {} if len(group) == 1 else {"first": group[0].name, "last": group[-1].name}
    return {"ph": "X", "pid": _PROCESS, "cat": "modelled", "tid": tid, **times, "name": name, "args": args}
