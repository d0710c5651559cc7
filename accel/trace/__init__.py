"""The trace of a run: built from a simulation, stored, and written in several forms."""

from accel.trace.perfetto.trace_window import FEWEST, MOST, TraceWindow
from accel.trace.program_trace import Trace
from accel.trace.trace_builder import make_trace

__all__ = ["FEWEST", "MOST", "Trace", "TraceWindow", "make_trace"]
