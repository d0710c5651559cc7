"""Verification: the tensors that a run is fed, the reference, the comparison of outputs, and their quality."""
