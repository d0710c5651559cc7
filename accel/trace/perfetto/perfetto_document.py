"""A whole document: its head, its tracks, launches and host steps, and the instructions in as much detail as fits."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from accel.errors import CyclopsError
from accel.trace.perfetto.full_slices import AllSlices, collect_slices, fits
from accel.trace.perfetto.merged_slices import MergedSlices, merge_slices
from accel.trace.perfetto.modelled_tracks import ModelledSpan, modelled_events
from accel.trace.perfetto.slice_texts import HOST, LAUNCHES, PID, UNITS, Clock, quoted
from accel.trace.perfetto.trace_window import TraceWindow, View
from accel.trace.trace_names import TraceNames
from accel.trace.trace_rows import RowSource

Event = dict[str, Any]


def frame(view: View, clock: Clock, most: int) -> list[bytes]:
    """Returns the first lines of a document: tracks, then at most ``most`` launches and as many host steps.

    Where there are more, neighbours are merged.
    """
    names = view.source.names
    events = [*_tracks(names), *_launches(view, clock, most), *_hosts(view, clock, most)]
    return [(b",\n" if number else b"") + quoted(event) for number, event in enumerate(events)]


def _tracks(names: TraceNames) -> Iterator[Event]:
    yield _metadata("process_name", 0, {"name": names.accelerator})
    tracks = {LAUNCHES: "launches"} | ({HOST: "host"} if names.hosts else {})
    tracks |= {UNITS + number: name for number, name in enumerate(names.units)}
    for tid, name in tracks.items():
        yield _metadata("thread_name", tid, {"name": name})
        yield _metadata("thread_sort_index", tid, {"sort_index": tid})


def _metadata(name: str, tid: int, args: Event) -> Event:
    return {"ph": "M", "pid": PID, "tid": tid, "name": name, "args": args}


def _launches(view: View, clock: Clock, most: int) -> Iterator[Event]:
    """Launches, cut to the window: a viewer shows all cycles that any event covers."""
    shown = [launch for launch in view.source.names.launches if launch.end > view.begin and launch.begin < view.end]
    for group in _groups(shown, most):
        shows = np.clip([group[0].begin, group[-1].end], view.begin, view.end)
        begin, end = clock.ticks(shows).tolist()
        name, args = _title(group, "launches")
        times = {"ts": clock.number(begin), "dur": clock.number(end - begin)}
        yield {"ph": "X", "pid": PID, "cat": "launch", "tid": LAUNCHES, **times, "name": name, "args": args}


def _hosts(view: View, clock: Clock, most: int) -> Iterator[Event]:
    shown = [host for host in view.source.names.hosts if view.begin <= host.cycle <= view.end]
    for group in _groups(shown, most):
        (at,) = clock.ticks(np.array([group[0].cycle])).tolist()
        name, args = _title(group, "host steps")
        where = {"pid": PID, "tid": HOST, "s": "t", "ts": clock.number(at)}
        yield {"ph": "i", "cat": "host", **where, "name": name, "args": args}


def _groups(items: list[Any], most: int) -> Iterator[list[Any]]:
    size = -(-len(items) // most) or 1
    return (items[begin : begin + size] for begin in range(0, len(items), size))


def _title(group: list[Any], what: str) -> tuple[str, Event]:
    if len(group) == 1:
        return group[0].name, {}
    return f"{len(group)} {what}", {"first": group[0].name, "last": group[-1].name}


_FRAME_SHARE = 10  # of the events, one in so many for launches, and as many for host steps


def perfetto_form(
    source: RowSource, window: TraceWindow, clock_mhz: float | None, modelled: Sequence[ModelledSpan] = ()
) -> Iterator[bytes]:
    """Yields the document, some thousand lines at a time; without ``clock_mhz`` a cycle is shown as a microsecond.

    ``modelled`` spans are shown in a process of their own where the window is the whole trace: their cycles are others.

    Raises:
        CyclopsError: the trace has no times.
    """
    if not source.names.timed:
        raise CyclopsError("the trace has no times, as only function was simulated", field="format")
    whole = window.begin == 0 and window.end is None
    return _document(View(source, window), window, Clock(clock_mhz), modelled if whole else ())


def _document(view: View, window: TraceWindow, clock: Clock, modelled: Sequence[ModelledSpan]) -> Iterator[bytes]:
    most = window.events // _FRAME_SHARE
    lines = frame(view, clock, most)
    lines += [b",\n" + quoted(event) for event in modelled_events(modelled, clock, most)]
    room = window.events - len(lines)
    shown = collect_slices(view) if fits(view, room) else merge_slices(view, room)
    head = {"displayTimeUnit": "ns", "otherData": _about(view, shown, clock)}
    yield quoted(head)[:-1] + b',"traceEvents":[\n'
    yield b"".join(lines)
    yield from shown.lines(clock)
    yield b"\n]}\n"


def _about(view: View, shown: AllSlices | MergedSlices, clock: Clock) -> dict[str, str | float | bool]:
    """The facts that a reader of the file needs: window, detail, unit of time."""
    merged = isinstance(shown, MergedSlices)
    about: dict[str, str | float | bool] = {
        "accelerator": view.source.names.accelerator,
        "clock_mhz": view.source.names.clock_mhz,
        "time": "1 us is 1 cycle" if clock.mhz is None else f"cycles at {clock.mhz:g} MHz",
        "begin": view.begin,
        "end": min(view.end, view.last),
        "instructions": shown.instructions,
        "slices": len(shown),
        "merged": merged,
    }
    if merged:
        about["note"] = "neighbouring instructions are merged; ask for fewer cycles, or more events, to see each"
    return about
