"""Kinds of regions: all that the compiler knows of each, in one file or folder a kind; ``registry`` lists them."""
