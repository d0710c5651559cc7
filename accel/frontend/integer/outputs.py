"""The operands of composites and their results are int8, whatever the model has: uint8 is int8 and 128."""

from tvm import relax

from accel.frontend.integer.chains import Chain
from accel.frontend.integer.dataflow import Quantised
from accel.frontend.integer.epilogues import Output
from accel.frontend.integer.rewrite import Rewrite
from accel.frontend.integer.weights import UINT8_OFFSET, zero_point_as_int8

_FROM_UINT8 = "its data are uint8, and become int8 for the accelerator"
_TO_UINT8 = "its result is int8, and becomes uint8 for what follows"


def to_int8(rewrite: Rewrite, x: Quantised, root: relax.Var) -> relax.Expr:
    """The integers of ``x``, an operand of the operator that ``root`` is bound to."""
    if x.dtype == "int8":
        return x.value
    value = rewrite.emit(relax.op.astype(x.value, "int16"), root, "x_wide", _FROM_UINT8)
    value = rewrite.emit(relax.op.subtract(value, relax.const(UINT8_OFFSET, "int16")), root, "x_centred", _FROM_UINT8)
    return rewrite.emit(relax.op.astype(value, "int8"), root, "x_int8", _FROM_UINT8)


def int8_output(chain: Chain) -> Output:
    """What the composite of a chain with a quantize at its end gives."""
    assert chain.output is not None
    offset = UINT8_OFFSET if chain.output.dtype == "uint8" else 0
    low, high = (limit - offset for limit in chain.limits)
    return Output(float(chain.output.scale), zero_point_as_int8(chain.output), (low, high))


def from_int8(rewrite: Rewrite, result: relax.Expr, chain: Chain) -> relax.Expr:
    """The composite's ``result`` in the type that the rest of the graph wants."""
    assert chain.output is not None
    if chain.output.dtype == "int8":
        return result
    value = rewrite.emit(result, chain.tail, "int8")
    value = rewrite.emit(relax.op.astype(value, "int16"), chain.tail, "wide", _TO_UINT8)
    value = rewrite.emit(relax.op.add(value, relax.const(UINT8_OFFSET, "int16")), chain.tail, "shifted", _TO_UINT8)
    return relax.op.astype(value, "uint8")
