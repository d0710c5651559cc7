"""Gemmini's way to memory, cycle by cycle: its DMAs, the port with its buffers, and the caches behind."""
