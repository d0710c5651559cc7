"""Streams of a Gemmini: registers that outlast instructions, loops written out, bounds of primitive instructions."""
