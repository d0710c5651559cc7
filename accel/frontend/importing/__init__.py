"""ONNX to Relax."""
