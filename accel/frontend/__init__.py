"""From an ONNX file to integer Relax: inspection, quantisation, import, recovery of the integers."""
