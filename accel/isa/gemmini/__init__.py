"""Gemmini: its instruction set, what the instructions do and what they cost."""
