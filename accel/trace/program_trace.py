"""The trace: each instruction with its unit, fields, times, what it waited for, and where it came from.

It is columns, one array a property, read a run of rows at a time: from the simulation, or from a file of any size.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accel.trace.byte_ranges import Ranges
from accel.trace.line_forms import csv_form, row_semantics, text_form
from accel.trace.perfetto.perfetto_document import perfetto_form
from accel.trace.perfetto.trace_window import Window
from accel.trace.trace_file import open_file, save
from accel.trace.trace_names import TraceNames
from accel.trace.trace_rows import Rows, RowSource

_FILE = "trace.npz"


class Trace:
    """n instructions in program order."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    @property
    def names(self) -> TraceNames:
        """What the numbers stand for."""
        return self._source.names

    def rows(self, begin: int, end: int) -> Rows:
        """Rows ``[begin, end)``; fewer at the end, none beyond it."""
        end = max(min(end, len(self)), 0)
        return self._source.read(min(max(begin, 0), end), end)

    def page(self, offset: int, limit: int) -> list[dict[str, Any]]:
        """Records ``[offset, offset + limit)``; shorter at the end, empty beyond it."""
        rows = self.rows(offset, offset + limit)
        texts, which = row_semantics(rows)
        return list(rows.records([texts[number] for number in which.tolist()]))

    def csv(self) -> Iterator[bytes]:
        """One line an instruction: its columns, each field (empty where it has none), each wait, its origin."""
        return csv_form(self._source)

    def text(self) -> Iterator[bytes]:
        """One line an instruction: index, launch, unit, operation, times, fields, waits, expression, origin."""
        return text_form(self._source)

    def perfetto(self, window: Window | None = None, *, clock_mhz: float | None = None) -> Iterator[bytes]:
        """A document in Chrome's Trace Event Format, which Perfetto's viewer opens.

        Args:
            window: which cycles, and how many events at most; else all cycles, and the default.
            clock_mhz: shows times by this clock; else a cycle is shown as a microsecond.

        Raises:
            CyclopsError: the trace has no times, as only function ran.
        """
        return perfetto_form(self._source, window or Window(), clock_mhz)

    def save(self, directory: Path) -> None:
        """Write ``trace.npz`` into ``directory``."""
        save(self._source, directory / _FILE)

    @staticmethod
    def load(directory: Path) -> "Trace":
        """Open what :meth:`save` wrote into ``directory``; rows are read when they are asked for.

        Raises:
            OSError: there is none.
            CyclopsError: it is damaged.
        """
        return Trace(open_file(Ranges.of_file(directory / _FILE)))

    @staticmethod
    def open(ranges: Ranges) -> "Trace":
        """The same from a file anywhere that is read by ranges of bytes."""
        return Trace(open_file(ranges))
