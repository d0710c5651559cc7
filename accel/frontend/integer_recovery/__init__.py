"""Recovery of integer arithmetic from QDQ form: dequantize, float operator, quantize become one composite function."""
