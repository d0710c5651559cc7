"""Tiles of vector programs: how they are cut, what they take in cycles, and what no cut goes below."""
