"""Partition: which composites the accelerator runs, which of their tilings, and why the host has the others."""
