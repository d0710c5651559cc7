"""Uploads: receiving, examining, storing and sending models, programs, tensors and accelerators."""
