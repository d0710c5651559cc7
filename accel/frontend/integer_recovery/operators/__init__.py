"""Recovery of operators: what each does between dequantize and quantize becomes one integer composite."""
