"""Utilities that know nothing of models or accelerators: caches, strict JSON, names, deadlines."""
