"""Epilogues as TIR expressions: steps on an accumulator, pairs of accumulators, and what a store makes of one."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import tirx

from accel.region.epilogue import TENSOR_OPS, ChannelOperand, EpilogueOp, IntegerGelu, Relu, Scaling, Shifting, Steps
from accel.region.shapes import SlidingWindow
from accel.region.tile_steps import PairOp


def apply_steps(value: tirx.Expr, steps: Steps, other: tirx.Expr | None = None) -> tirx.Expr:
    """The steps of an epilogue on an accumulator, one by one; ``other`` is the tensor of those that read one."""
    sums = str(value.ty.dtype)
    for name, immediate in steps:
        if name in ("widen", "narrow"):
            value = value.astype(f"int{immediate}" if name == "widen" else sums)
            continue
        dtype = str(value.ty.dtype)
        if name not in TENSOR_OPS:
            operand = tirx.const(immediate, dtype)
        else:
            assert other is not None
            operand = other if dtype == sums else other.astype(dtype)
        value = apply_step(value, name, operand)
    return value


def apply_step(value: tirx.Expr, name: EpilogueOp, operand: tirx.Expr) -> tirx.Expr:
    """One step of an epilogue on an accumulator; a negative shift to the right goes left."""
    if name == "shift_right":
        negative = int(operand) < 0
        return value << tirx.const(-int(operand), str(value.ty.dtype)) if negative else value >> operand
    if name in ("add", "add_tensor"):
        return value + operand
    if name in ("multiply", "multiply_tensor"):
        return value * operand
    return tirx.max(value, operand) if name == "max" else tirx.min(value, operand)


def apply_pair(value: tirx.Expr, name: PairOp, other: tirx.Expr) -> tirx.Expr:
    """An operation on two accumulators."""
    if name in ("max", "min"):
        return tirx.max(value, other) if name == "max" else tirx.min(value, other)
    return value + other if name == "add" else value * other


def stored_value(
    value: tirx.Expr,
    dtype: str,
    scaling: Scaling | Shifting | None,
    channel: Mapping[ChannelOperand, tirx.Expr] | None = None,
) -> tirx.Expr:
    """What a store makes of an accumulator: scaled or shifted and clipped, or its low bits.

    ``channel`` is what the store reads of its channel, int32, where it reads anything.
    """
    channel = channel or {}
    if scaling is None:
        return value.astype(dtype)

    def relu(at: Relu, found: tirx.Expr) -> tirx.Expr:
        return tirx.max(found, tirx.const(0, str(found.ty.dtype))) if scaling.relu == at else found

    value = relu("sums", value)
    if isinstance(scaling, Scaling):
        value = value if scaling.gelu is None else integer_gelu(value, scaling.gelu)
        product = relu("floats", value.astype("float32")) * tirx.const(scaling.scale, "float32")
        value = tirx.nearbyint(relu("product", product))
    else:
        sums = str(value.ty.dtype)
        if "bias" in channel:
            value = value + (channel["bias"] if sums == "int32" else channel["bias"].astype(sums))
        value = _shift_right(value.astype(f"int{scaling.product}") if scaling.product else value, scaling, channel)
        value = value.astype(sums) if scaling.narrows else value
    clipped = relu("clipped", clip_to(relu("rounded", value), (scaling.low, scaling.high)))
    return relu("narrowed", clipped.astype("int8"))


def integer_gelu(value: tirx.Expr, gelu: IntegerGelu) -> tirx.Expr:
    """I-BERT's GELU of a sum, in units of its own; negative sums have a parabola of their own, as there is no sign."""
    dtype = str(value.ty.dtype)
    qb, qc, zero = (tirx.const(number, dtype) for number in (gelu.qb, gelu.qc, 0))
    above, below = tirx.min(value + qb, zero), tirx.min(qb - value, zero)
    erf = tirx.Select(value < zero, zero - (below * below + qc), above * above + qc)
    return value * (erf + qc)


def clip_to(value: tirx.Expr, bounds: tuple[int, int]) -> tirx.Expr:
    """A value clipped to ``bounds``."""
    low, high = (tirx.const(bound, str(value.ty.dtype)) for bound in bounds)
    return tirx.max(tirx.min(value, high), low)


def _shift_right(value: tirx.Expr, shifting: Shifting, channel: Mapping[ChannelOperand, tirx.Expr]) -> tirx.Expr:
    dtype = str(value.ty.dtype)
    if "factor" in channel:
        factor = channel["factor"]
        value = value * (factor if dtype == "int32" else factor.astype(dtype))
    elif shifting.factor != 1:
        value = value * tirx.const(shifting.factor, dtype)
    if "shift" in channel:
        shift = channel["shift"]
        one, down = tirx.const(1, dtype), shift - tirx.const(1, "int32")
        if dtype != "int32":
            shift, down = shift.astype(dtype), down.astype(dtype)
        return (value + (one << down) if shifting.rounds else value) >> shift
    if shifting.rounds:
        value = value + tirx.const(1 << shifting.shift - 1, dtype)
    return value >> tirx.const(shifting.shift, dtype) if shifting.shift else value


def largest_of(value: Callable[..., Any], window: SlidingWindow, at: Sequence[Any]) -> Any:
    """The largest of what ``value`` makes of the elements of the window of a place: block, row, column and inside."""
    block, y, x, *inner = at
    (down, right), (low, far) = window.strides, window.dilation
    rows, columns = ([y * down + q * low for q in range(window.kernel[0])],
                     [x * right + p * far for p in range(window.kernel[1])])  # fmt: skip
    return functools.reduce(tirx.max, [value(block, row, column, *inner) for row in rows for column in columns])
