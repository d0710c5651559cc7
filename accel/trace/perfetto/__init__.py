"""The trace in Chrome's Trace Event Format, which Perfetto's viewer opens.

The format: a JSON object whose ``traceEvents`` are slices (``X``), counters (``C``), the two ends of an arrow
(``s``, ``f``), instants (``i``) and names of tracks (``M``); times in microseconds.
"""

from accel.trace.perfetto.modelled_tracks import ModelledSpan
from accel.trace.perfetto.perfetto_document import perfetto_form
from accel.trace.perfetto.trace_window import FEWEST, MOST, TraceWindow

__all__ = ["FEWEST", "MOST", "ModelledSpan", "TraceWindow", "perfetto_form"]
