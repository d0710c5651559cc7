"""Comparison of a program's outputs with the reference: the integer graph before the stage ``partition``."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from accel.errors import InvalidModel, VerificationError
from accel.frontend.integer_recovery.recover_integers import ImportedModel
from accel.frontend.onnx_model.ort_session import session
from accel.util.arrays import Array, Float64
from accel.util.deadline import Deadline
from accel.verify.reference_graph import run_reference

SQNR_CEILING_DB = 200.0  # what equal outputs report; float32 resolves less


def reference_outputs(imported: ImportedModel, inputs: Sequence[Array]) -> list[Array]:
    """Returns the outputs of the integer graph, run on the host by operator; ``inputs`` in the order of ``main``."""
    return run_reference(imported, inputs, Deadline(math.inf)).outputs


def check_equal(outputs: Mapping[str, Array], reference: Mapping[str, Array]) -> None:
    """Refuses outputs that differ from the reference in any bit.

    Raises:
        VerificationError: an output differs; the message has the first such element, with both values.
    """
    for name, expected in reference.items():
        got = outputs[name]
        same = got.shape == expected.shape and got.dtype == expected.dtype
        if same and np.array_equal(_bits(got), _bits(expected)):
            continue
        if not same:
            raise VerificationError(
                f"{name} is {got.dtype}{list(got.shape)}; expected {expected.dtype}{list(expected.shape)}", field=name
            )
        wrong = np.argwhere(_bits(got).reshape(got.shape) != _bits(expected).reshape(got.shape))
        at = tuple(int(i) for i in wrong[0])
        raise VerificationError(
            f"{len(wrong)} of {got.size} elements of {name} differ; the first is {list(at)}: "
            f"got {got[at]}, expected {expected[at]}",
            field=name,
        )


def _bits(array: Array) -> Array:
    """The array as integers, so that equal means equal bits (a NaN equals itself)."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def sqnr_db(got: Array, expected: Array) -> float:
    """Returns signal to quantisation noise, decibels: ``10 log10(sum(x^2) / sum((x - y)^2))``, within the ceiling.

    Infinities and NaNs that both have are left out; any other is noise without bound.
    """
    pair = _finite(got, expected)
    if pair is None:
        return -SQNR_CEILING_DB
    signal = float(np.sum(pair[1] ** 2))
    noise = float(np.sum((pair[1] - pair[0]) ** 2))
    if noise == 0.0:
        return SQNR_CEILING_DB
    return float(np.clip(10.0 * np.log10(max(signal, 1e-300) / noise), -SQNR_CEILING_DB, SQNR_CEILING_DB))


def cosine(got: Array, expected: Array) -> float:
    """Returns cosine of the angle between two tensors taken as vectors; 1 for two zero vectors, 0 for one.

    Infinities and NaNs that both have are left out; with any other it is 0.
    """
    pair = _finite(got, expected)
    if pair is None:
        return 0.0
    a, b = pair
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    if norms == 0.0:
        return float(not a.any() and not b.any())
    return float(np.clip(np.dot(a, b) / norms, -1.0, 1.0))


def _finite(a: Array, b: Array) -> tuple[Float64, Float64] | None:
    """Both as float64 vectors where they are finite; None if one is not finite where the other differs."""
    first, second = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    finite = np.isfinite(first) & np.isfinite(second)
    if finite.all():
        return first, second
    if not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return None
    return first[finite], second[finite]


def outputs_by_onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
    """Returns the outputs ``names`` of the model as uploaded, by onnxruntime.

    Raises:
        InvalidModel: onnxruntime cannot run the model on these inputs.
    """
    try:
        results: list[Array] = session(model).run(list(names), dict(inputs))
    except Exception as error:  # its errors have no base class of their own
        raise InvalidModel(f"onnxruntime cannot run the model: {_first_line(error)}", field="model") from error
    return results


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
