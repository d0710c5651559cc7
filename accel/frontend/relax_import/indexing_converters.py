"""Converters of operators on positions: gathering, cumulative sums, and the largest of many."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax

from accel.frontend.relax_import.elementwise_converters import constant_of

_LONGEST = 2048  # elements along the axis: there are as many comparisons as their square


def gather(builder: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Gather along an axis; indices below zero count from the end.

    Raises:
        ValueError: a constant index lies beyond the data.
    """
    data, indices = inputs
    known = constant_of(indices)
    if not isinstance(data.ty, relax.TensorType) or (constant_of(data) is not None and known is not None):
        return None
    axis = int(attributes.get("axis", 0)) % len(data.ty.shape)
    size, dtype = int(data.ty.shape[axis]), str(indices.ty.dtype)
    if known is not None:
        outside = known[(known < -size) | (known >= size)]
        if outside.size:
            raise ValueError(f"index {outside[0]} lies outside the axis, which has {size} elements")
        at: relax.Expr = relax.const(np.where(known < 0, known + size, known), dtype)
    else:
        below = relax.op.less(indices, relax.const(0, dtype))
        turned = relax.op.add(indices, relax.const(size, dtype))
        at = builder.normalize(relax.op.where(below, turned, indices))
    return relax.op.take(data, at, axis, "clip")


def top_k(builder: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts TopK of a constant number of elements, in order; of equal ones, the first comes first."""
    data, count = inputs[0], constant_of(inputs[1])
    rank = len(data.ty.shape)
    axis = int(attributes.get("axis", -1)) % rank
    size = int(data.ty.shape[axis])
    if count is None or size > _LONGEST:
        return None
    turned = [*(other for other in range(rank) if other != axis), axis]
    say = builder.normalize
    values = say(relax.op.permute_dims(data, turned))
    ours, theirs = say(relax.op.expand_dims(values, -1)), say(relax.op.expand_dims(values, -2))
    compare = relax.op.greater if attributes.get("largest", 1) else relax.op.less
    earlier = relax.const(np.tri(size, k=-1, dtype=np.bool_))
    level = say(relax.op.logical_and(say(relax.op.equal(theirs, ours)), earlier))
    before = say(relax.op.logical_or(say(compare(theirs, ours)), level))
    place = say(relax.op.sum(say(relax.op.astype(before, "int32")), axis=-1))
    wanted = relax.const(np.arange(count.item(), dtype=np.int32)[:, None])
    taken = say(relax.op.equal(say(relax.op.expand_dims(place, -2)), wanted))
    zero = relax.const(np.zeros((), data.ty.dtype.dtype))
    chosen = say(relax.op.sum(say(relax.op.where(taken, theirs, zero)), axis=-1))
    index = say(relax.op.astype(say(relax.op.argmax(say(relax.op.astype(taken, "int32")), axis=-1)), "int64"))
    back = np.argsort(turned).tolist()
    results = [builder.emit(relax.op.permute_dims(result, back)) for result in (chosen, index)]
    return relax.Tuple(results)


def cumulative_sum(
    _builder: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> relax.Expr | None:
    """Converts CumSum along a constant axis, as a product with a triangle of ones."""
    data, along = inputs[0], constant_of(inputs[1])
    rank = len(data.ty.shape)
    if along is None or not str(data.ty.dtype).startswith("float"):
        return None
    axis = int(along.item()) % rank
    size = int(data.ty.shape[axis])
    if size > _LONGEST:
        return None
    ones = np.triu(np.ones((size, size), str(data.ty.dtype)), 1 if attributes.get("exclusive", 0) else 0)
    triangle = ones.T if attributes.get("reverse", 0) else ones
    turned = [*(other for other in range(rank) if other != axis), axis]
    summed = relax.op.matmul(relax.op.permute_dims(data, turned), relax.const(triangle))
    return relax.op.permute_dims(summed, np.argsort(turned).tolist())
