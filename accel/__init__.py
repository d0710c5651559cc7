"""Cyclops the library: a model and an accelerator become a program, and the program is simulated and verified.

``accel.driver.run_model.run_model`` is the whole job; ``accel.lowering.pipeline`` lists the compiler's stages.
"""

import os

# onnxruntime reads it once, while it is loaded; without it, it keeps a device id below HOME and reports its use
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
