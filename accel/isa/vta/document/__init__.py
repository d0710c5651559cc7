"""Documents of a VTA: derived from the ten keys and a variant, checked, and read back by what instructions do."""
