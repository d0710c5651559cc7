"""Accelerators as documents: schema, text, the semantics of instructions, and what is derived from them."""
