"""Converters of arithmetic that TVM's importer lacks or reads for one type only; and the values of constants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax


def constant_of(value: relax.Expr | None) -> npt.NDArray[Any] | None:
    """Returns the array of ``value`` if it is a constant."""
    if not isinstance(value, tvm.ir.GenericConst):
        return None
    array: npt.NDArray[Any] = value.value.numpy()
    return array


Inputs = Sequence[Any]
_EUCLIDEAN = 2


def celu(builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Returns ``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    (data,) = inputs
    alpha, zero, one = (relax.const(value, "float32") for value in (attributes.get("alpha", 1.0), 0.0, 1.0))
    grown = relax.op.subtract(relax.op.exp(relax.op.divide(data, alpha)), one)
    below = relax.op.minimum(relax.op.multiply(grown, alpha), zero)
    return builder.normalize(relax.op.add(relax.op.maximum(data, zero), below))


def lp_normalization(builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts LpNormalization: division by the norm along an axis; zeros stay zeros."""
    (data,) = inputs
    axis = int(attributes.get("axis", -1))
    zero = relax.const(0.0, "float32")
    if int(attributes.get("p", _EUCLIDEAN)) == _EUCLIDEAN:
        norm = relax.op.sqrt(relax.op.sum(relax.op.multiply(data, data), axis, keepdims=True))
    else:
        norm = relax.op.sum(relax.op.abs(data), axis, keepdims=True)
    norm = builder.normalize(norm)
    divisor = relax.op.where(relax.op.equal(norm, zero), relax.const(1.0, "float32"), norm)
    return builder.normalize(relax.op.divide(data, divisor))


def swish(builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Returns ``x * sigmoid(alpha * x)``."""
    (data,) = inputs
    alpha = relax.const(attributes.get("alpha", 1.0), "float32")
    gate = builder.normalize(relax.op.sigmoid(builder.normalize(relax.op.multiply(data, alpha))))
    return builder.normalize(relax.op.multiply(data, gate))


def power(_builder: relax.BlockBuilder, inputs: Inputs, _attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Pow whose exponent is of another type than its base; a square is a product."""
    base, exponent = inputs
    value = constant_of(exponent)
    if value is not None and value.size == 1 and value.ndim <= len(base.ty.shape) and value.item() == _EUCLIDEAN:
        return relax.op.multiply(base, base)
    dtype = str(base.ty.dtype)
    return None if str(exponent.ty.dtype) == dtype else relax.op.power(base, relax.op.astype(exponent, dtype))


def equal(_builder: relax.BlockBuilder, inputs: Inputs, _attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Equal of booleans, which TVM compares as floats."""
    if str(inputs[0].ty.dtype) != "bool":
        return None
    return relax.op.logical_not(relax.op.logical_xor(*inputs))


def one_hot(builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts OneHot of a constant depth; indices below zero count from the end, those out of range are of none."""
    indices, depth, values = inputs
    size = constant_of(depth)
    if size is None or str(indices.ty.dtype) not in ("int32", "int64"):
        return None
    count, dtype = int(size.item()), str(indices.ty.dtype)
    rank = len(indices.ty.shape) + 1
    axis = int(attributes.get("axis", -1)) % rank
    shape = [1] * rank
    shape[axis] = count
    column = builder.normalize(relax.op.expand_dims(indices, axis))
    places = np.arange(count, dtype=dtype).reshape(shape)
    hits = [relax.op.equal(column, relax.const(places - back, dtype)) for back in (0, count)]
    off, on = (relax.op.take(values, relax.const(np.int64(index)), 0, "clip") for index in (0, 1))
    return builder.normalize(relax.op.where(relax.op.logical_or(*hits), on, off))
