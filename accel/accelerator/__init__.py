"""Accelerators as documents: the schema, the presets, and how a document is found."""
