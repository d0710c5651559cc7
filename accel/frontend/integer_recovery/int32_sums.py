"""What becomes of the int32 sums of a contraction: rounded without bias, clipped apart, the host's, or float32."""

from collections.abc import Callable
from dataclasses import replace

import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, shape_of
from accel.frontend.integer_recovery.qdq_chains import Chain
from accel.frontend.integer_recovery.requantization import Narrowing
from accel.region.epilogue import INT8
from accel.util.arrays import Array

_IN_FLOAT = "its result is wanted in float32, which its int32 sums become"


def balanced(rewrite: DataflowRewrite, chain: Chain, found: Narrowing, channels: int, *, biased: bool) -> Narrowing:
    """Returns the narrowing with what its rounding needs for its errors to cancel over the channels.

    ``biased``: each channel adds a number anyway.
    """
    node = rewrite.origin[chain.root.name].name
    free = biased and isinstance(found.epilogue, composite_functions.ShiftEpilogue)
    offsets = rewrite.rounding.offsets("layer", found.rounding, channels, node, free=free)
    return replace(found, addend=found.addend + offsets) if offsets.any() else found


def stored_composite(
    rewrite: DataflowRewrite, narrowing: Narrowing | None, composite: Callable[[Narrowing | None], relax.Function]
) -> tuple[relax.Function, tuple[int, int] | None]:
    """Returns a composite that ends in a narrowing, and the bounds that are left to :func:`clipped`, if any are.

    ``composite`` makes it of a narrowing; of one to all of int8 where the accelerator clips the results apart.
    """
    function = composite(narrowing)
    if narrowing is None or not rewrite.clips_apart(function):
        return function, None
    epilogue, (low, high) = narrowing.epilogue, INT8
    whole = replace(narrowing, epilogue=replace(epilogue, low=low, high=high))
    return composite(whole), (epilogue.low, epilogue.high)


def clipped(rewrite: DataflowRewrite, chain: Chain, narrow: relax.Expr, bounds: tuple[int, int]) -> relax.Expr:
    """Returns int8 results of a contraction, clipped by a composite of its own, of the chain's relu or clip."""
    value = rewrite.emit(narrow, chain.root, "unclipped")
    nodes = rewrite.nodes(chain.members[chain.summed :]) or rewrite.nodes([chain.root])
    epilogue = composite_functions.ShiftEpilogue(0, *bounds)
    function = composite_functions.elementwise(nodes, shape_of(value), (1,), "sum", 0, epilogue)
    return tvm.ir.Call(rewrite.composite(function, rewrite.origin[chain.root.name]), [value])


def requantised_by_host(
    rewrite: DataflowRewrite, chain: Chain, acc: relax.Expr, scale: Array, cause: str, like: relax.Var
) -> relax.Expr:
    """Returns the composite ``requantize`` of the sums.

    Args:
        rewrite: takes the composite.
        chain: of the contraction; a quantize is at its end.
        acc: the sums.
        scale: what one of them is worth in steps of the result; float32, of a shape that broadcasts.
        cause: why it is the host's.
        like: of the node that the composite is named after.
    """
    output = chain.output
    assert output is not None
    nodes = [name for var in chain.members for name in rewrite.origin[var.name].covers]
    quantum = composite_functions.ResultIntegers(output.dtype, int(output.zero_point))
    function = composite_functions.requantize(nodes, shape_of(acc), scale.shape, quantum, chain.limits, cause)
    return tvm.ir.Call(rewrite.composite(function, rewrite.origin[like.name]), [acc, relax.const(scale)])


def as_real_numbers(rewrite: DataflowRewrite, chain: Chain, acc: relax.Expr, scale: Array) -> relax.Expr:
    """Returns the sums as the float32 that the rest of the graph wants; ``scale`` is what one of them is worth."""
    value = rewrite.emit(relax.op.astype(acc, "float32"), chain.root, "acc_float", _IN_FLOAT)
    return relax.op.multiply(value, relax.const(scale))
