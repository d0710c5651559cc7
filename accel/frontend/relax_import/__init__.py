"""Import of ONNX into Relax, with converters of our own where TVM's lack an operator or read it otherwise."""
