"""Generators of example models; they need onnx, onnxruntime and numpy only, and ``qdq`` our quantiser."""
