"""Legalization of ONNX: one opset, explicit padding, and QDQ form in place of quantised operators."""
