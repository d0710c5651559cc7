"""The front end, from an ONNX file to integer Relax: read, legalize, fold, quantize, import, recover the integers."""
