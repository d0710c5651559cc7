"""How good the outputs are: against the model as uploaded, and against the float network."""

from collections.abc import Sequence

import onnx

from accel.errors import InvalidModel
from accel.frontend.operator_form.form import in_qdq_form
from accel.frontend.quantization.quantize import is_quantised
from accel.frontend.quantization.unrounded import unrounded
from accel.inputs import Array, Tensors
from accel.report_documents import Quality
from accel.verify import cosine, outputs_by_onnxruntime, sqnr_db


def quality_of(original: onnx.ModelProto, feeds: Tensors, outputs: Tensors) -> list[Quality]:
    """That of each output, in the order of ``outputs``.

    Args:
        original: the model as uploaded.
        feeds: the model's inputs.
        outputs: what the program made of them.

    Raises:
        InvalidModel: onnxruntime cannot run the model on these inputs.
    """
    names = list(outputs)
    expected = outputs_by_onnxruntime(original, feeds, names)
    if not is_quantised(original):
        return compare(outputs, expected, expected)
    return compare(outputs, expected, _unquantised(original, feeds, names))


def _unquantised(quantised: onnx.ModelProto, feeds: Tensors, names: Sequence[str]) -> list[Array] | None:
    """The outputs of the float network; None if there is none, or onnxruntime does not run it."""
    plain = unrounded(in_qdq_form(quantised))
    try:
        return None if plain is None else outputs_by_onnxruntime(plain, feeds, names)
    except InvalidModel:
        return None


def compare(outputs: Tensors, expected: Sequence[Array], unquantised: Sequence[Array] | None) -> list[Quality]:
    """How far each output is from what is expected, and from what the float network gives."""
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
