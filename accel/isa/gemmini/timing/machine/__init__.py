"""Gemmini cycle by cycle: a small state machine for each part of the hardware, all in one array of numbers."""
