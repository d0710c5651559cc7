"""Regions: what planner, instruction sets and reports share of one: its shape, epilogue, tilings and steps."""
