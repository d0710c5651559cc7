"""What follows a float operator in a QDQ graph: bias, relu and clip, quantize.

These are the bindings that one integer operation takes the place of.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery.dataflow_block import Dataflow, QuantisedTensor, shape_of
from accel.util.arrays import Array


@dataclass(frozen=True)
class Chain:
    """A run of bindings, each the only user of the one before.

    ``members`` are the variables after the root, in order; the last one is what the rest of the graph sees.
    ``low`` and ``high`` are the clip's bounds as real numbers; ``output`` is the quantize at the end, None if
    the chain ends in float, or, where ``integer`` says so, is a cast to int32 alone. ``gain``, one number or one a
    channel, multiplies sums that were cast to int32 and back. The first ``summed`` members end with the bias.
    """

    root: relax.Var
    members: tuple[relax.Var, ...] = ()
    bias: Array | None = None
    low: float = -np.inf
    high: float = np.inf
    output: QuantisedTensor | None = None
    limits: tuple[int, int] = field(default=(0, 0))
    integer: bool = False
    gain: Array | None = None
    summed: int = 0

    @property
    def tail(self) -> relax.Var:
        """The last variable."""
        return self.members[-1] if self.members else self.root


def follow_chain(
    graph: Dataflow,
    root: relax.Var,
    bias_size: int | None,
    axis: int = -1,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Chain:
    """Returns the chain after ``root``, which has clipped to ``bounds`` itself.

    A constant added to it is its bias if it has ``bias_size`` elements along the channels, which are ``axis``, or
    one; with ``bias_size`` None there is no bias. Relu and clip belong to the chain only if a quantize follows them.
    """
    chain = Chain(root, low=bounds[0], high=bounds[1])
    if bias_size is not None:
        cast = _cast(graph, root, "int32")
        if cast is not None:
            scaled = _with_gain(graph, replace(chain, members=(cast,)), bias_size, axis)
            ended = _ended(graph, _with_bias(graph, scaled, bias_size, axis)) if scaled is not None else chain
            return ended if ended.output is not None else replace(chain, members=(cast,), integer=True)
        chain = _with_bias(graph, chain, bias_size, axis)
    return _ended(graph, chain)


def _ended(graph: Dataflow, chain: Chain) -> Chain:
    """The chain with the relu and clip and the quantize that follow; as it is, if no quantize does."""
    clipped = chain
    while (step := _clipped(graph, clipped)) is not None:
        clipped = step
    quantised = _quantised(graph, clipped)
    if quantised is None:
        return chain
    while (step := _clipped_after(graph, quantised)) is not None:
        quantised = step
    return quantised


def _cast(graph: Dataflow, var: relax.Var, dtype: str) -> relax.Var | None:
    """The cast of ``var`` to ``dtype``, if nothing else uses it."""
    user = graph.only_user(var)
    cast = user is not None and graph.call(user.var, "relax.astype") is not None
    return user.var if user is not None and cast and str(user.var.ty.dtype.dtype) == dtype else None


def _with_gain(graph: Dataflow, chain: Chain, size: int, axis: int) -> Chain | None:
    """The chain with the cast to float32 and the positive scale that follow, as behind MatMulInteger, if they do."""
    cast = _cast(graph, chain.tail, "float32")
    user = graph.only_user(cast) if cast is not None else None
    call = graph.call(user.var, "relax.multiply") if user is not None else None
    if cast is None or user is None or call is None:
        return None
    for operand in call.args:
        value, shape = graph.constant(operand), shape_of(chain.root)
        if value is None or not (np.isfinite(value).all() and (value > 0).all()):
            continue
        if _along_channels(value, size, shape, axis) and shape_of(user.var) == shape:
            return replace(chain, members=(*chain.members, cast, user.var), gain=value.reshape(-1))
    return None


def _with_bias(graph: Dataflow, chain: Chain, size: int, axis: int) -> Chain:
    user = graph.only_user(chain.tail)
    call = graph.call(user.var, "relax.add") if user is not None else None
    if user is None or call is None:
        return chain
    for operand in call.args:
        value, shape = graph.constant(operand), shape_of(chain.root)
        if value is not None and _along_channels(value, size, shape, axis) and shape_of(user.var) == shape:
            members = (*chain.members, user.var)
            return replace(chain, members=members, bias=value, summed=len(members))
    return chain


def _along_channels(value: Array, size: int, shape: list[int], axis: int) -> bool:
    """Whether ``value`` adds one number to each of ``size`` channels of a result of ``shape``, or one to all."""
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    return value.size == 1 or (value.size == size and aligned[axis] == size)


def bounds_of(call: tvm.ir.Call | None) -> tuple[float, float] | None:
    """Returns the bounds that a relu or clip sets; None for any other call."""
    if call is None:
        return None
    if call.op.name == "relax.nn.relu":
        return 0.0, np.inf
    if call.op.name == "relax.clip":
        return float(call.args[1].value), float(call.args[2].value)
    return None


def _clipped(graph: Dataflow, chain: Chain) -> Chain | None:
    """The chain with the relu or clip that follows, if one does."""
    user = graph.only_user(chain.tail)
    bounds = bounds_of(graph.call(user.var)) if user is not None else None
    if user is None or bounds is None:
        return None
    low, high = (float(np.clip(bound, *bounds)) for bound in (chain.low, chain.high))
    return replace(chain, members=(*chain.members, user.var), low=low, high=high)


def _quantised(graph: Dataflow, chain: Chain) -> Chain | None:
    """The chain with the per-tensor quantize to int8 or uint8 that follows, if one does."""
    user = graph.only_user(chain.tail)
    call = graph.call(user.var, "relax.quantize") if user is not None else None
    output = graph.parameters(call, user.var) if user is not None and call is not None else None
    if user is None or output is None or not output.per_tensor or output.dtype not in ("int8", "uint8"):
        return None
    quantum = np.iinfo(output.dtype)
    low, high = (
        int(np.clip(np.rint(bound / output.scale) + output.zero_point, quantum.min, quantum.max))
        for bound in (chain.low, chain.high)
    )
    return replace(chain, members=(*chain.members, user.var), output=output, limits=(low, high))


def _clipped_after(graph: Dataflow, chain: Chain) -> Chain | None:
    """The chain with a relu or clip between dequantize and quantize of the chain's own scale: an integer clip."""
    dequantize = graph.only_user(chain.tail)
    if dequantize is None or graph.call(dequantize.var, "relax.dequantize") is None:
        return None
    clipped = _clipped(graph, Chain(dequantize.var))
    again = _quantised(graph, clipped) if clipped is not None else None
    inner = graph.dequantised(dequantize.var)
    if again is None or again.output is None or inner is None or chain.output is None:
        return None
    parameters = {
        (float(q.scale), int(q.zero_point), q.dtype) for q in (again.output, chain.output, inner) if q.per_tensor
    }
    if len(parameters) != 1 or not inner.per_tensor:
        return None
    low, high = (int(np.clip(limit, *again.limits)) for limit in chain.limits)
    members = (*chain.members, dequantize.var, *again.members)
    return replace(chain, members=members, output=again.output, limits=(low, high))
