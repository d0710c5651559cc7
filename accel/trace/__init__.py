"""The trace of a program as it ran: made, stored, and given out in several forms."""

from accel.trace.make import make_trace
from accel.trace.perfetto import FEWEST, MOST, Window
from accel.trace.trace import Trace

__all__ = ["FEWEST", "MOST", "Trace", "Window", "make_trace"]
