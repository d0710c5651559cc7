"""Conversions of our own, where TVM's importer makes a TIR function of what Relax has an operator for.

The recovery of integers looks for operators, and a step of integers on the host is made of them. Each converter takes
the block builder, the node's inputs (None where absent) and its attributes, and returns None to leave the node to TVM.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from onnx import TensorProto
from tvm import relax

from accel.frontend.relax_import.elementwise_converters import (
    celu,
    constant_of,
    equal,
    lp_normalization,
    one_hot,
    power,
    swish,
)
from accel.frontend.relax_import.image_converters import average_pool, max_pool, resize
from accel.frontend.relax_import.indexing_converters import cumulative_sum, gather, top_k

Inputs = Sequence[Any]  # Relax expressions
Converter = Callable[[relax.BlockBuilder, Inputs, Mapping[str, Any]], relax.Expr | None]

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_EXACT = 1 << 53  # up to which a double, which is what padding takes, holds every integer
_NUMBERS = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
_CONTRACTIONS = ("relax.matmul", "relax.nn.conv2d")
_PAD_MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}


def clip(builder: relax.BlockBuilder, inputs: Inputs, _attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Clip of float32 by constants, or by any scalars. A bound that is NaN is none, as onnxruntime has it."""
    data, *given = inputs
    bounds = [*given, None, None][:2]
    dtype = str(data.ty.dtype)
    constants = [constant_of(bound) for bound in bounds]
    if dtype == "float32" and all((b is None) == (c is None) for b, c in zip(bounds, constants, strict=True)):
        limits = [-_FLOAT32_MAX, _FLOAT32_MAX]
        for index, value in enumerate(constants):
            if value is not None and not np.isnan(value):
                limits[index] = float(np.clip(value, -_FLOAT32_MAX, _FLOAT32_MAX))
        return relax.op.clip(data, *limits)
    for bound, limit, apply in zip(bounds, (-np.inf, np.inf), (relax.op.maximum, relax.op.minimum), strict=True):
        if bound is None:
            continue
        value = bound
        if dtype.startswith("float"):
            value = relax.op.where(relax.op.isnan(bound), relax.const(limit, dtype), bound)
        data = builder.normalize(apply(data, builder.normalize(value)))
    return data


def pad(builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Pad by constant widths; those below zero cut, which is done first."""
    data, *given = inputs
    widths, value, axes = [constant_of(x) for x in [*given, None, None, None][:3]]
    shape = [int(extent) for extent in data.ty.shape]
    mode = attributes.get("mode", b"constant").decode()
    filling = 0 if value is None else value.item()
    unknown = any(x is not None and constant_of(x) is None for x in given)
    if unknown or widths is None or mode not in _PAD_MODES or (isinstance(filling, int) and abs(filling) > _EXACT):
        return None
    before, after = np.zeros((2, len(shape)), np.int64)
    at = np.arange(len(shape)) if axes is None else axes
    before[at], after[at] = np.split(widths, 2)
    if min(*before, *after, 0) < 0:
        if mode != "constant":
            return None
        begin, end = np.maximum(-before, 0), np.array(shape) + np.minimum(after, 0)
        data = builder.normalize(relax.op.strided_slice(data, list(range(len(shape))), begin.tolist(), end.tolist()))
    pairs = np.maximum(np.stack([before, after], 1), 0)
    return relax.op.nn.pad(data, pairs.ravel().tolist(), _PAD_MODES[mode], float(filling))


def tile(_builder: relax.BlockBuilder, inputs: Inputs, _attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Tile by constant counts."""
    counts = constant_of(inputs[1])
    return None if counts is None else relax.op.tile(inputs[0], counts.tolist())


def cast(builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Cast to int32 of a contraction of integers, which are float32 here: there is nothing to wrap."""
    (data,) = inputs
    call = _call(builder, data)
    if attributes["to"] != TensorProto.INT32 or call is None or call.op.name not in _CONTRACTIONS:
        return None
    operands = [_call(builder, argument) for argument in call.args]
    whole = all(x is not None and x.op.name == "relax.dequantize" and _is_one(x.args[1]) for x in operands)
    return relax.op.astype(data, "int32") if whole else None


def einsum(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Einsum."""
    return relax.op.einsum(relax.Tuple(list(inputs)), attributes["equation"].decode())


def constant(_builder: relax.BlockBuilder, _inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Constant whose value is no tensor but a number, or several."""
    for name, dtype in _NUMBERS.items():
        if name in attributes:
            return relax.const(np.array(attributes[name], dtype))
    return None


def _chained(operator: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """An operator of any number of operands, as one of two after the other."""

    def convert(builder: relax.BlockBuilder, inputs: Inputs, _attributes: Mapping[str, Any]) -> relax.Expr:
        return functools.reduce(lambda value, operand: builder.normalize(operator(value, operand)), inputs)

    return convert


def dropout(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Dropout, which drops nothing once the network is trained.

    Raises:
        ValueError: the node trains, or its mask is used.
    """
    data, _, training = [*inputs, None, None][:3]
    drops = training is not None and bool(np.any(constant_of(training)))
    if attributes["tvm_custom"]["num_outputs"] > 1 or drops:
        raise ValueError("training mode and the mask output are not supported; export the model for inference")
    return data


CONVERTERS: Mapping[str, Converter] = {
    "AveragePool": average_pool,
    "Cast": cast,
    "Celu": celu,
    "Clip": clip,
    "Constant": constant,
    "CumSum": cumulative_sum,
    "Dropout": dropout,
    "Einsum": einsum,
    "Equal": equal,
    "Gather": gather,
    "LpNormalization": lp_normalization,
    "Max": _chained(relax.op.maximum),
    "MaxPool": max_pool,
    "Min": _chained(relax.op.minimum),
    "OneHot": one_hot,
    "Pad": pad,
    "Pow": power,
    "Resize": resize,
    "Sum": _chained(relax.op.add),
    "Swish": swish,
    "Tile": tile,
    "TopK": top_k,
}


def _call(builder: relax.BlockBuilder, expr: relax.Expr) -> tvm.ir.Call | None:
    """The call of an operator that ``expr`` is bound to."""
    value = builder.lookup_binding(expr) if isinstance(expr, relax.Var) else expr
    return value if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op) else None


def _is_one(scale: relax.Expr) -> bool:
    value = constant_of(scale)
    return value is not None and bool((value == 1).all())
