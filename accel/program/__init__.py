"""The Program, which the compiler writes and the simulator runs: its model, its document, its words."""
