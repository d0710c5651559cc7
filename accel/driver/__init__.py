"""The jobs of the library: compile and run a model, run a program, or plan without compiling."""
