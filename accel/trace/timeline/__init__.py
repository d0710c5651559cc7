"""The timeline of a trace: what each unit does and waits for in every cycle, as windows for a picture of any width."""

from accel.trace.timeline.timeline import MOST_BINS, MOST_CYCLES, MOST_WAITING, Timeline

__all__ = ["MOST_BINS", "MOST_CYCLES", "MOST_WAITING", "Timeline"]
