"""Analysis: what composites compute, where their data come from, and what the accelerator can do of it."""
