"""Packing: tiled layouts of activations and constants, and each region as tensor expressions over them."""
