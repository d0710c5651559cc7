"""The quality of outputs: their distance from the model as uploaded, and from the float network."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from accel.errors import InvalidModel
from accel.frontend.legalize.qdq_form import in_qdq_form
from accel.frontend.quantize.quantize_model import is_quantised
from accel.frontend.quantize.unrounded_model import unrounded_model
from accel.frontend.read.model_info import ModelInfo
from accel.report.documents.report_documents import Quality
from accel.util.arrays import Array
from accel.verify.input_tensors import Tensors
from accel.verify.output_comparison import cosine, outputs_by_onnxruntime, sqnr_db


@dataclass(frozen=True)
class Qualities:
    """The figures of each output. ``missing`` states why there are none, or none against the float network."""

    figures: list[Quality]
    missing: str = ""


def quality_of(
    uploaded: onnx.ModelProto, original: onnx.ModelProto, info: ModelInfo, feeds: Tensors, outputs: Tensors
) -> Qualities:
    """Returns the quality of each output, in the order of ``outputs``.

    The figures describe outputs that are verified by other means: what cannot be computed is absent, with the reason,
    and fails nothing.

    Args:
        uploaded: the model as uploaded, which onnxruntime runs unchanged.
        original: the same as it was read; of a quantised one the float network is made.
        info: the model's inputs, which are fed in its own types.
        feeds: the model's inputs.
        outputs: the program's outputs for them.
    """
    names = list(outputs)
    try:
        fed = {tensor.name: feeds[tensor.name].astype(np.dtype(tensor.dtype), copy=False) for tensor in info.inputs}
        expected = outputs_by_onnxruntime(uploaded, fed, names)
    except InvalidModel as error:
        return Qualities([], f"the quality of the outputs is not known: {error.detail}")
    if not is_quantised(original):
        return Qualities(compare(outputs, expected, expected))
    try:
        plain = unrounded_model(in_qdq_form(original))
        unquantised = None if plain is None else outputs_by_onnxruntime(plain, feeds, names)
    except InvalidModel as error:
        missing = f"the quality against the float network is not known: {error.detail}"
        return Qualities(compare(outputs, expected, None), missing)
    return Qualities(compare(outputs, expected, unquantised))


def float_network(original: onnx.ModelProto) -> onnx.ModelProto | None:
    """Returns the float network of a model: itself, or the one that a quantised model stands for, if there is one."""
    if not is_quantised(original):
        return original
    try:
        return unrounded_model(in_qdq_form(original))
    except InvalidModel:
        return None


def compare(outputs: Tensors, expected: Sequence[Array], unquantised: Sequence[Array] | None) -> list[Quality]:
    """Returns the distance of each output from the expected one, and from the float network's."""
    found = [
        Quality(output=name, sqnr_db=sqnr_db(got, array), cosine=cosine(got, array))
        for (name, got), array in zip(outputs.items(), expected, strict=True)
    ]
    if unquantised is None:
        return found
    return [
        quality.model_copy(update={"float_sqnr_db": sqnr_db(got, array), "float_cosine": cosine(got, array)})
        for quality, got, array in zip(found, outputs.values(), unquantised, strict=True)
    ]
