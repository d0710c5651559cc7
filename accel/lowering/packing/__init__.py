"""Packing: the graph over packed tensors, with a PrimFunc of tensor expressions for each region."""
