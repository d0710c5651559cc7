"""The trace: each instruction with its unit, fields, times, waits and origin.

It is columns, an array for each property, read a run of rows at a time from a simulation or from a file of any size.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accel.trace.byte_ranges import Ranges
from accel.trace.line_forms import csv_form, row_semantics, text_form
from accel.trace.perfetto.modelled_tracks import ModelledSpan
from accel.trace.perfetto.perfetto_document import perfetto_form
from accel.trace.perfetto.trace_window import TraceWindow
from accel.trace.timeline.timeline import Timeline
from accel.trace.trace_file import open_file, save
from accel.trace.trace_names import TraceNames
from accel.trace.trace_rows import OriginUse, Rows, RowSource, first_match, origin_uses

_FILE = "trace.npz"


class Trace:
    """n instructions in program order."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    @property
    def names(self) -> TraceNames:
        """The names that the numbers of the trace stand for."""
        return self._source.names

    def rows(self, begin: int, end: int) -> Rows:
        """Returns rows ``[begin, end)``; fewer at the end, none beyond it."""
        end = max(min(end, len(self)), 0)
        return self._source.read(min(max(begin, 0), end), end)

    def page(self, offset: int, limit: int) -> list[dict[str, Any]]:
        """Returns records ``[offset, offset + limit)``; shorter at the end, empty beyond it."""
        rows = self.rows(offset, offset + limit)
        texts, which = row_semantics(rows)
        return list(rows.records([texts[number] for number in which.tolist()]))

    def csv(self) -> Iterator[bytes]:
        """Yields one line an instruction: its columns, each field (empty where it has none), each wait, its origin."""
        return csv_form(self._source)

    def text(self) -> Iterator[bytes]:
        """Yields one line an instruction: index, launch, unit, operation, times, fields, waits, expression, origin."""
        return text_form(self._source)

    def perfetto(
        self,
        window: TraceWindow | None = None,
        *,
        clock_mhz: float | None = None,
        modelled: Sequence[ModelledSpan] = (),
    ) -> Iterator[bytes]:
        """Yields a document in Chrome's Trace Event Format, which Perfetto's viewer opens.

        Args:
            window: the cycles to show, and the most events; by default all cycles and the default number of events.
            clock_mhz: the clock by which times are shown; None shows a cycle as a microsecond.
            modelled: times beside the trace, in tracks of their own where the window is all of it.

        Raises:
            CyclopsError: the trace has no times, as only function ran.
        """
        return perfetto_form(self._source, window or TraceWindow(), clock_mhz, modelled)

    def timeline(self) -> Timeline:
        """Returns the timeline; each call reads all rows.

        Raises:
            CyclopsError: the trace has no times, as only function ran.
        """
        return Timeline.of(self._source)

    def search(self, text: str, begin: int = 0, end: int | None = None) -> int | None:
        """Returns the first instruction of rows ``[begin, end)`` whose operation or layer has ``text`` in its name.

        Names are those of the operation, the launch, the function, and the nodes of the model that it comes from;
        upper and lower case are one.
        """
        return first_match(self._source, text, begin, len(self) if end is None else min(end, len(self)))

    def origins(self) -> list[OriginUse]:
        """Returns who uses each origin; each call reads all rows."""
        return origin_uses(self._source)

    def save(self, directory: Path) -> None:
        """Writes ``trace.npz`` into ``directory``."""
        save(self._source, directory / _FILE)

    @staticmethod
    def load(directory: Path) -> "Trace":
        """Opens the trace that :meth:`save` wrote into ``directory``; rows are read on demand.

        Raises:
            OSError: there is no trace.
            CyclopsError: it is damaged.
        """
        return Trace(open_file(Ranges.of_file(directory / _FILE)))

    @staticmethod
    def open(ranges: Ranges) -> "Trace":
        """Opens a trace whose file is read by ranges of bytes, as from a store; rows are read on demand."""
        return Trace(open_file(ranges))
