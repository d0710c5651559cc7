"""The command line: ``cyclops``."""
