"""What an ONNX model is made of, for all that reads or rewrites one: nodes, types, shapes, constants, origins."""
