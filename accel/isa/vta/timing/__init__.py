"""Cycles of VTA: an event loop over fetch, units, token queues and the memory channel; and how far to trust it."""
