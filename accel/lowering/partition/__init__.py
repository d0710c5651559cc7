"""Partition: which composites the accelerator runs, how they are tiled, and why the others stay on the host."""
