"""Composites of rows of a matrix in integers, as stores compute them: f(x int8 [M, K]).

``softmax``, in I-BERT's integers. Its bindings, in order: astype to int32, [multiply by the weight]; the largest of
each row is taken off; exp; of what is less by the offset, if there is one, exp too; the sum of it along each row, as
float32, divides 127; exp as float32 times that, round (half to even), clip to int8, astype to int8. exp of d, no more
than 0: z = (0 - d) * inverse >> 16, then ((d + z * ln2 + b) squared + c) >> z, all in int32.

``layer_norm``, the norm of each row without gains and offsets. Its bindings, in order: astype to int32; multiply by the
weight of what the deviation is of, [and] by that of what is stored. Means are sums as float64, divided by K, cut to
int32. The mean of the first is taken off; the mean of the squares as float64, its root cut to int32, at least 1, as
float32 divides 1. The mean of what is stored is taken off; as float32 times that, round (half to even), clip to int8,
astype to int8. All quotients are exact in float64, but for what is cut.
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
from accel.region.row_softmax import INVERSE_BITS, UNIT, IntegerSoftmax


def softmax(nodes: Sequence[str], shape: Shape, integers: IntegerSoftmax) -> relax.Function:
    """Returns the composite ``softmax`` of rows of a matrix of ``shape``."""
    data = parameter("x", shape, "int8")

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        value = _weighed(builder, builder.emit(relax.op.astype(data, "int32")), integers.weight)
        largest = builder.emit(relax.op.max(value, axis=[1], keepdims=True))
        below = builder.emit(relax.op.subtract(value, largest))
        stored = summed = _exponential(builder, below, integers)
        if integers.octaves:
            less = builder.emit(relax.op.add(below, int32(integers.offset)))
            summed = _exponential(builder, less, integers)
        total = builder.emit(relax.op.astype(builder.emit(relax.op.sum(summed, [1], keepdims=True)), "float32"))
        by = builder.emit(relax.op.divide(relax.const(float(UNIT), "float32"), total))
        return _to_int8(builder, stored, by)

    return composite_function("softmax", nodes, [data], compute, CompositeAttributes(softmax=integers))


def _exponential(builder: relax.BlockBuilder, below: relax.Expr, integers: IntegerSoftmax) -> relax.Var:
    above = builder.emit(relax.op.subtract(int32(0), below))
    product = builder.emit(relax.op.multiply(above, int32(integers.inverse)))
    halvings = builder.emit(relax.op.right_shift(product, int32(INVERSE_BITS)))
    rest = builder.emit(relax.op.add(below, builder.emit(relax.op.multiply(halvings, int32(integers.ln2)))))
    root = builder.emit(relax.op.add(rest, int32(integers.b)))
    parabola = builder.emit(relax.op.add(builder.emit(relax.op.multiply(root, root)), int32(integers.c)))
    return builder.emit(relax.op.right_shift(parabola, halvings))


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
        return _to_int8(builder, stored, by)

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


def _to_int8(builder: relax.BlockBuilder, value: relax.Var, by: relax.Var) -> relax.Var:
    """Integers times float32, rounded half to even, as int8."""
    return builder.emit(
        relax.op.astype(builder.emit(relax.op.clip(rounded(builder, value, by), *map(float, INT8))), "int8")
    )
