"""QDQ models as onnxruntime's own quantizer makes them."""

import warnings
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from tests.reference.host import Array


class Samples(CalibrationDataReader):
    def __init__(self, model: onnx.ModelProto) -> None:
        (info,) = model.graph.input
        shape = [size.dim_value for size in info.type.tensor_type.shape.dim]
        draw = np.random.default_rng(0).standard_normal
        self._samples = iter([{info.name: draw(shape).astype(np.float32) + 0.3} for _ in range(4)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._samples, None)


def quantise_by_onnxruntime(
    model: onnx.ModelProto,
    folder: Path,
    activations: QuantType,
    weights: QuantType,
    *,
    per_channel: bool = False,
    symmetric: bool = False,
) -> onnx.ModelProto:
    onnx.save(model, folder / "float.onnx")
    with warnings.catch_warnings(action="ignore"):
        quantize_static(
            folder / "float.onnx",
            folder / "qdq.onnx",
            Samples(model),
            quant_format=QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=activations,
            weight_type=weights,
            extra_options={"ActivationSymmetric": symmetric},
        )
    return onnx.load(folder / "qdq.onnx")
