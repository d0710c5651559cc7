"""Covers: statements of operators as statements of one instruction each, once for each kind of operator."""
