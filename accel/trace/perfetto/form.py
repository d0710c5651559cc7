"""A whole document: its head, its frame, and the instructions in as much detail as fits."""

from collections.abc import Iterator

from accel.errors import CyclopsError
from accel.trace.perfetto.events import Clock, quoted
from accel.trace.perfetto.frame import frame
from accel.trace.perfetto.full import Full, collect, fits
from accel.trace.perfetto.merged import Merged, merge
from accel.trace.perfetto.view import View, Window
from accel.trace.source import Source

_FRAME_SHARE = 10  # of the events, one in so many for launches, and as many for host steps


def perfetto_form(source: Source, window: Window, clock_mhz: float | None) -> Iterator[bytes]:
    """The document, some thousand lines at a time; ``clock_mhz`` None shows a cycle as a microsecond.

    Raises:
        CyclopsError: the trace has no times.
    """
    if not source.names.timed:
        raise CyclopsError("the trace has no times, as only function was simulated", field="format")
    return _document(View(source, window), window, Clock(clock_mhz))


def _document(view: View, window: Window, clock: Clock) -> Iterator[bytes]:
    lines = frame(view, clock, window.events // _FRAME_SHARE)
    room = window.events - len(lines)
    shown = collect(view) if fits(view, room) else merge(view, room)
    head = {"displayTimeUnit": "ns", "otherData": _about(view, shown, clock)}
    yield quoted(head)[:-1] + b',"traceEvents":[\n'
    yield b"".join(lines)
    yield from shown.lines(clock)
    yield b"\n]}\n"


def _about(view: View, shown: Full | Merged, clock: Clock) -> dict[str, str | float | bool]:
    """What a reader of the file must know to read it right."""
    merged = isinstance(shown, Merged)
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
