"""Layout: how tensors lie in tiles, and the constants of a region laid out so."""
