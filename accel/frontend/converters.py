"""Conversions of our own, where TVM's importer makes a TIR function of what Relax has an operator for.

A host step is kept as operators (``accel/host_graph/``); code cannot be. Each converter takes the block builder, the
node's inputs (None where absent) and its attributes, and returns None to leave the node to TVM.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import Resize, onnx_input

Inputs = Sequence[Any]  # Relax expressions
Converter = Callable[[relax.BlockBuilder, Inputs, Mapping[str, Any]], relax.Expr | None]

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_EXACT = 1 << 53  # up to which a double, which is what padding takes, holds every integer
_ROW_MODES = (b"half_pixel", b"pytorch_half_pixel", b"asymmetric")  # which do not divide by the rows less one
_PAD_MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}


def clip(builder: relax.BlockBuilder, inputs: Inputs, _attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Clip of float32 by constants, or by any scalars. A bound that is NaN is none, as onnxruntime has it."""
    data, *given = inputs
    bounds = [*given, None, None][:2]
    dtype = str(data.ty.dtype)
    constants = [_constant(bound) for bound in bounds]
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
    """Pad by constant widths; those below zero cut, which is done first."""
    data, *given = inputs
    widths, value, axes = [_constant(x) for x in [*given, None, None, None][:3]]
    shape = [int(extent) for extent in data.ty.shape]
    mode = attributes.get("mode", b"constant").decode()
    filling = 0 if value is None else value.item()
    unknown = any(x is not None and _constant(x) is None for x in given)
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
    """Tile by constant counts."""
    counts = _constant(inputs[1])
    return None if counts is None else relax.op.tile(inputs[0], counts.tolist())


def einsum(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Einsum."""
    return relax.op.einsum(relax.Tuple(list(inputs)), attributes["equation"].decode())


def resize(builder: relax.BlockBuilder, inputs: Inputs, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Resize of lines, as images one row high: Relax resizes images only."""
    data, *given = inputs
    constants = [_constant(x) for x in given]
    unknown = any(x is not None and constant is None for x, constant in zip(given, constants, strict=True))
    mode = attributes.get("coordinate_transformation_mode", b"half_pixel")
    if len(data.ty.shape) != 3 or unknown or mode not in _ROW_MODES:
        return None
    rows = [(0, 1), (1,), (1,)]  # what a row is in roi, scales and sizes
    with_rows: list[Any] = [builder.normalize(relax.op.expand_dims(data, 2))]
    for array, row in zip(constants, rows, strict=False):
        if array is None or not array.size:
            with_rows.append(None if array is None else relax.const(array))
            continue
        parts = [np.insert(part, 2, value) for part, value in zip(np.split(array, len(row)), row, strict=True)]
        with_rows.append(relax.const(np.concatenate(parts)))
    image = Resize.get_converter(18)(builder, onnx_input(with_rows), attributes, [{}, {}])
    return relax.op.squeeze(builder.normalize(image), [2])


CONVERTERS: Mapping[str, Converter] = {"Clip": clip, "Einsum": einsum, "Pad": pad, "Resize": resize, "Tile": tile}


def _constant(value: relax.Expr | None) -> npt.NDArray[Any] | None:
    if not isinstance(value, tvm.ir.GenericConst):
        return None
    array: npt.NDArray[Any] = value.value.numpy()
    return array
