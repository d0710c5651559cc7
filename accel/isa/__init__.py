"""Instruction sets: the contract of a family, decoding, how kernels are compiled; and a package for each family."""
