"""Generators of example models; they need onnx and numpy only."""
