"""Verification: the inputs of a run, the reference, the comparison of outputs, and their quality."""
