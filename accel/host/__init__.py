"""Host steps: ONNX graphs that are safe to read, made of Relax inside the compiler, and their execution."""
