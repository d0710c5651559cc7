"""Joining of launches: what no host step parts runs as one, ordered by the accelerator's own synchronisation."""
