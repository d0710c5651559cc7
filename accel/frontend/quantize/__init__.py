"""Post-training quantisation: calibration, choice of scales, insertion of QuantizeLinear and DequantizeLinear."""
