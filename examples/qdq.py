"""The quantised form of an example, by the quantiser that the service uses."""

import onnx

from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.frontend.quantize.scale_grid import Scales, Scheme

__all__ = ["Scales", "to_qdq"]


def to_qdq(model: onnx.ModelProto, seed: int = 0, scales: Scales = "power of two") -> onnx.ModelProto:
    """``model`` in QDQ form: int8, symmetric, one scale a tensor; itself if it is quantised already.

    Args:
        model: float32.
        seed: of the random calibration samples.
        scales: powers of two, or "free".
    """
    return ensure_quantised(model, seed=seed, scheme=Scheme(scales))
