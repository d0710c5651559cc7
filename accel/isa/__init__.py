"""Instruction sets: what is common to all, and a package a family."""
