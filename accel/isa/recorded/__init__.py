"""Recordings of hardware: replayed by a family's model, and compared with its cycles."""
