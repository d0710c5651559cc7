"""Recovery of what only moves elements: between dequantize and quantize of one scale it works on the integers."""

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery.dataflow_block import MAX_POOLINGS, DataflowRewrite, QuantisedTensor
from accel.frontend.integer_recovery.qdq_chains import follow_chain
from accel.frontend.integer_recovery.requantization import Requantize

_MOVES = (
    *MAX_POOLINGS,
    "relax.expand_dims",
    "relax.flatten",
    "relax.permute_dims",
    "relax.reshape",
    "relax.squeeze",
    "relax.strided_slice",
)


def recover_movement(rewrite: DataflowRewrite, binding: relax.Binding, _requantize: Requantize) -> bool:
    """Replaces ``binding`` and its chain by the same operator on integers, clipped if the chain clips.

    False, and nothing done, if the integers before and after it stand for different numbers.
    """
    call = rewrite.graph.call(binding.var)
    if call is None or call.op.name not in _MOVES:
        return False
    x = rewrite.graph.dequantised(call.args[0])
    if x is None or not isinstance(x.value, relax.Var):
        return False
    chain = follow_chain(rewrite.graph, binding.var, bias_size=None)
    if chain.output is None or not same_numbers(x, chain.output):
        return False
    moved: relax.Expr = tvm.ir.Call(call.op, [x.value, *call.args[1:]], call.attrs)
    low, high = chain.limits
    if (low, high) != (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max):
        moved = rewrite.emit(moved, binding.var, "moved")
        moved = relax.op.maximum(moved, relax.const(low, x.dtype))
        moved = relax.op.minimum(rewrite.emit(moved, binding.var, "low"), relax.const(high, x.dtype))
    rewrite.replace(chain.members)
    rewrite.origin[chain.tail.name] = rewrite.origin[binding.var.name]
    rewrite.bind(chain.tail, moved)
    return True


def same_numbers(before: QuantisedTensor, after: QuantisedTensor) -> bool:
    """Returns whether the integers of both stand for the same numbers."""
    return (
        before.per_tensor
        and before.dtype == after.dtype
        and bool(before.scale == after.scale and before.zero_point == after.zero_point)
    )
