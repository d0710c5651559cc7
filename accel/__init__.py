"""Cyclops the library: a model and an accelerator become a program, and the program is simulated and verified.

``accel.driver.run_model.run_model`` is the whole job; ``accel.lowering.pipeline`` lists the compiler's stages.
"""

import os
import sys

# onnxruntime reads it once, while it is loaded; without it, it keeps a device id below HOME and reports its use
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# TVM reads it while it is imported, and then loads what it has for GPUs. That, and its distributed runtime, which its
# wheels lack, end in errors that it catches itself; for the first one it reads the symbols of all its libraries.
# Without both it is imported in two thirds of the time, and takes 40 MB less.
os.environ.setdefault("TVM_DEVICE_BACKEND_AUTOLOAD", "0")
sys.modules.setdefault("tvm.runtime.disco", None)  # type: ignore[arg-type]  # "None" is not found, as Python documents
