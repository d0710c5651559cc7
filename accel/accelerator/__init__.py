"""Accelerators as documents: their schema, their text, what their instructions mean, and what the compiler reads off them."""
