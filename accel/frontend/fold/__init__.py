"""Folding of a float model before it is quantised: several nodes become the one layer that they are."""
