"""Telemetry: logs, traces and counters of all processes."""
