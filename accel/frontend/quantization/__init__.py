"""Post-training quantisation of float models."""
