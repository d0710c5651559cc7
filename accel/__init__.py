"""Cyclops the library: a model and an accelerator become a program, and the program is simulated and verified.

``accel.run.run_model`` is the whole job; ``accel.lowering.stages`` lists the compiler's stages.
"""
