"""VTA: its configuration, function, cycles and races."""
