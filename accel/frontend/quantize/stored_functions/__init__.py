"""Functions that stores compute of integers: where a float model has them, and the scales that they want."""
