"""Generators of example models; they need onnx, onnxruntime and numpy only, and ``qdq`` our quantiser."""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # as in ``accel``: these stand alone
