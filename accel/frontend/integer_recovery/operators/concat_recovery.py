"""Recovery of concatenation: integers of one scale lie side by side; others are requantised first."""

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor
from accel.frontend.integer_recovery.element_layout import layout_of_elements
from accel.frontend.integer_recovery.int8_operands import int8_output
from accel.frontend.integer_recovery.operators.addition_recovery import INT8_MAGNITUDE
from accel.frontend.integer_recovery.operators.elementwise_recovery import rounding_offsets
from accel.frontend.integer_recovery.operators.movement_recovery import same_numbers
from accel.frontend.integer_recovery.qdq_chains import Chain, follow_chain
from accel.frontend.integer_recovery.requantization import FINER, Accumulator, Narrowing, Requantize, epilogue_of


def recover_concat(rewrite: DataflowRewrite, binding: relax.Binding, requantize: Requantize) -> bool:
    """Replaces a concatenation and its chain by one of integers, behind an ``elementwise`` for each that changes.

    False, and nothing done, if an operand is not quantised, or cannot be brought to the result's scale exactly.
    """
    graph = rewrite.graph
    call = graph.call(binding.var, "relax.concat")
    found = [graph.dequantised(operand) for operand in call.args[0]] if call is not None else []
    operands = [x for x in found if x is not None]
    if call is None or not operands or len(operands) != len(found):
        return False
    chain = follow_chain(graph, binding.var, bias_size=None)
    if chain.output is None:
        return False
    narrowings = [None if _fits(x, chain) else _weighed(x, chain, requantize) for x in operands]
    if any(isinstance(narrowing, str) for narrowing in narrowings):
        return False
    rewrite.replace(chain.members)
    parts = [
        x.value if narrowing is None else _changed(rewrite, chain, x, *narrowing)
        for x, narrowing in zip(operands, narrowings, strict=True)
        if not isinstance(narrowing, str)
    ]
    rewrite.origin[chain.tail.name] = rewrite.origin[chain.root.name]
    rewrite.bind(chain.tail, relax.op.concat(parts, axis=int(call.attrs.axis)))
    return True


def _fits(x: QuantisedTensor, chain: Chain) -> bool:
    """Whether an operand has the result's scale, and nothing clips it."""
    assert chain.output is not None
    limits = np.iinfo(x.dtype)
    return same_numbers(x, chain.output) and chain.limits == (limits.min, limits.max)


def _weighed(x: QuantisedTensor, chain: Chain, requantize: Requantize) -> tuple[Narrowing, int] | str:
    """What brings an operand to the result's scale and bounds, and the weight that it has before; or why nothing."""
    found = _narrowing(x, chain, requantize)
    weight = FINER if isinstance(found, Narrowing) and found.too_coarse(1) else 1
    if weight > 1:
        found = _narrowing(x, chain, requantize, weight)
    return found if isinstance(found, str) else (found, weight)


def _narrowing(x: QuantisedTensor, chain: Chain, requantize: Requantize, weight: int = 1) -> Narrowing | str:
    """What brings an operand, times ``weight``, to the result's scale and bounds, or why nothing does."""
    assert chain.output is not None
    int8 = x.dtype == chain.output.dtype == "int8"
    if not int8 or not x.per_tensor:
        return "elementwise work is on int8"
    magnitude = weight * (INT8_MAGNITUDE + abs(int(x.zero_point)))
    acc = Accumulator(np.asarray(float(x.scale) / weight), np.asarray(magnitude))
    return epilogue_of(acc, int8_output(chain), requantize)


def _changed(rewrite: DataflowRewrite, chain: Chain, x: QuantisedTensor, found: Narrowing, weight: int) -> relax.Var:
    node = rewrite.origin[chain.root.name]
    shape, addend = [int(size) for size in x.value.ty.shape], int(found.addend) - weight * int(x.zero_point)
    laid_out = rewrite.rounding.shape("elementwise", layout_of_elements(rewrite.graph, x.value), found.rounding)
    offsets = rounding_offsets(rewrite, chain, laid_out, found)
    function = composite_functions.elementwise(
        [node.name], laid_out, (weight,), "sum", addend, found.epilogue, rounds=bool(offsets)
    )
    value = x.value
    if laid_out != shape:
        value = rewrite.emit(relax.op.reshape(value, laid_out), chain.root, "rows")
    part = rewrite.emit(tvm.ir.Call(rewrite.composite(function, node), [value, *offsets]), chain.root, "part")
    return part if laid_out == shape else rewrite.emit(relax.op.reshape(part, shape), chain.root, "joined")
