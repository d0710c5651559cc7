"""The composite ``layer_norm``: f(x int8 [M, K]), the norm of each row without gains and offsets, in integers.

Its bindings, in order: astype to int32; multiply by the weight of what the deviation is of, [and] by that of what is
stored. Means are sums as float64, divided by K, cut to int32. The mean of the first is taken off; the mean of the
squares as float64, its root cut to int32, at least 1, as float32 divides 1. The mean of what is stored is taken off; as
float32 times that, round (half to even), clip to int8, astype to int8. All quotients are exact in float64, but for what
is cut.
"""

from collections.abc import Sequence

from tvm import relax

from accel.frontend.integer_recovery.composite_functions import (
    Shape,
    composite_function,
    int32,
    parameter,
    rounded,
)
from accel.region.composite_attributes import CompositeAttributes
from accel.region.epilogue import INT8
from accel.region.row_layer_norm import IntegerLayerNorm


def layer_norm(nodes: Sequence[str], shape: Shape, integers: IntegerLayerNorm) -> relax.Function:
    """Returns the composite ``layer_norm`` of rows of a matrix of ``shape``."""
    data = parameter("x", shape, "int8")

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        value = builder.emit(relax.op.astype(data, "int32"))
        summed = _centred(builder, _weighed(builder, value, integers.summed), shape[1])
        squares = builder.emit(relax.op.multiply(summed, summed))
        variance = builder.emit(relax.op.astype(_mean(builder, squares, shape[1]), "float64"))
        root = builder.emit(relax.op.astype(builder.emit(relax.op.sqrt(variance)), "int32"))
        deviation = builder.emit(relax.op.astype(builder.emit(relax.op.maximum(root, int32(1))), "float32"))
        by = builder.emit(relax.op.divide(relax.const(1.0, "float32"), deviation))
        stored = _centred(builder, _weighed(builder, value, integers.stored), shape[1])
        norm = builder.emit(relax.op.clip(rounded(builder, stored, by), *map(float, INT8)))
        return builder.emit(relax.op.astype(norm, "int8"))

    return composite_function("layer_norm", nodes, [data], compute, CompositeAttributes(norm=integers))


def _weighed(builder: relax.BlockBuilder, value: relax.Var, weight: int) -> relax.Var:
    return value if weight == 1 else builder.emit(relax.op.multiply(value, int32(weight)))


def _centred(builder: relax.BlockBuilder, value: relax.Var, columns: int) -> relax.Var:
    return builder.emit(relax.op.subtract(value, _mean(builder, value, columns)))


def _mean(builder: relax.BlockBuilder, value: relax.Var, columns: int) -> relax.Var:
    """The mean of each row, cut towards 0."""
    total = builder.emit(relax.op.astype(builder.emit(relax.op.sum(value, [1], keepdims=True)), "float64"))
    quotient = builder.emit(relax.op.divide(total, relax.const(float(columns), "float64")))
    return builder.emit(relax.op.astype(quotient, "int32"))
