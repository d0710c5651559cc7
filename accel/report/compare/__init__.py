"""Comparison of runs by their reports: two side by side, many by their figures, and changes to compare with."""
