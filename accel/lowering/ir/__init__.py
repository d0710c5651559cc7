"""Intermediate representation: attributes on functions, calls of instructions, loop nests, walks over TIR."""
