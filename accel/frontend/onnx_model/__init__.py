"""Parts of ONNX models, for every reader and rewriter: nodes, types, shapes, constants, origins."""
