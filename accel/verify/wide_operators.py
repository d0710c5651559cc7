"""Operators of ONNX in double precision: its own evaluator, with what that lacks or would round to single precision."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from accel.util.arrays import Array, Float64


def run_wide(model: onnx.ModelProto, wanted: str, inputs: Mapping[str, Array]) -> Array:
    """Returns an output of a model, whose floats are in double precision throughout.

    Raises:
        Exception: the evaluator cannot run a node; its errors have no base class of their own.
    """
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for number, tensor in enumerate(wide.graph.initializer):
        wide.graph.initializer[number].CopyFrom(_widened_tensor(tensor))
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                attribute.t.CopyFrom(_widened_tensor(attribute.t))
    fed = {name: _widened(array) for name, array in inputs.items()}
    with np.errstate(all="ignore"):
        (found,) = ReferenceEvaluator(wide, new_ops=_OWN).run([wanted], fed)
    return np.asarray(found)


def _widened_tensor(tensor: onnx.TensorProto) -> onnx.TensorProto:
    array = numpy_helper.to_array(tensor)
    return numpy_helper.from_array(_widened(array), tensor.name) if array.dtype == np.float32 else tensor


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def _along(parameter: Array, shape: tuple[int, ...], axis: int) -> Array:
    """A number a channel, so that it broadcasts over a tensor."""
    if parameter.size == 1:
        return np.asarray(parameter.reshape(()))
    return np.asarray(parameter.reshape([-1 if at == axis % len(shape) else 1 for at in range(len(shape))]))


class DequantizeLinear(OpRun):
    """``(x - zero_point) * scale``, a scale a tensor or a channel."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, zero: Array | None = None, axis: int = 1, **_: Any) -> tuple[Float64]:
        """The numbers that integers stand for."""
        point = 0.0 if zero is None else _along(zero.astype(np.float64), x.shape, axis)
        return (np.asarray((x.astype(np.float64) - point) * _along(scale.astype(np.float64), x.shape, axis)),)


class QuantizeLinear(OpRun):
    """``x / scale + zero_point``, rounded to the nearest, halves to even, and held within the type."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, zero: Array | None = None, axis: int = 1, **_: Any) -> tuple[Array]:
        """The integers that stand for numbers."""
        dtype = np.dtype(np.uint8) if zero is None else zero.dtype
        point = 0.0 if zero is None else _along(zero.astype(np.float64), x.shape, axis)
        whole = np.rint(x / _along(scale.astype(np.float64), x.shape, axis)) + point
        bounds = np.iinfo(dtype)
        return (np.clip(whole, bounds.min, bounds.max).astype(dtype),)


def error_function(values: Float64) -> Float64:
    """Returns the error function of each value, which is computed once for equal ones: there are few of integers."""
    distinct, places = np.unique(values, return_inverse=True)
    return np.array([math.erf(each) for each in distinct.tolist()], np.float64)[places].reshape(values.shape)


class Erf(OpRun):
    """The error function; the evaluator's own calls Python for each element."""

    op_domain = ""

    def _run(self, x: Array, **_: Any) -> tuple[Float64]:
        """The error function of each element."""
        return (error_function(x.astype(np.float64)),)


class GlobalMaxPool(OpRun):
    """The maximum of each channel; the evaluator's own takes that of images alone, over two axes."""

    op_domain = ""

    def _run(self, x: Array, **_: Any) -> tuple[Array]:
        """The maxima, with an extent of 1 in the place of each other axis."""
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class Cast(OpRun):
    """A cast; what would be a float is one of double precision."""

    op_domain = ""

    def _run(self, x: Array, to: int = onnx.TensorProto.FLOAT, **_: Any) -> tuple[Array]:
        """The tensor in its new type."""
        dtype = onnx.helper.tensor_dtype_to_np_dtype(to)
        return (x.astype(np.float64 if np.issubdtype(dtype, np.floating) else dtype),)


_OWN = [Cast, DequantizeLinear, Erf, GlobalMaxPool, QuantizeLinear]
