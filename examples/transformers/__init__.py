"""Transformers and their kin at the sizes of the literature, with random weights: see ``examples/networks.py``."""
