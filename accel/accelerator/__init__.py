"""Accelerators as documents: schema, text, the meaning of instructions, and what the compiler derives of it."""
