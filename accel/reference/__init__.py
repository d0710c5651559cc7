"""The integer graph, run on the host: what the program's outputs are compared with."""
