"""The composite ``softmax``: f(x int8 [M, K]), softmax of each row in I-BERT's integers.

Its bindings, in order: astype to int32, [multiply by the weight]; the largest of each row is taken off; exp; of what is
less by the offset, if there is one, exp too; the sum of it along each row, as float32, divides 127; exp as float32
times that, round (half to even), clip to int8, astype to int8. exp of d, no more than 0: z = (0 - d) * inverse >> 16,
then ((d + z * ln2 + b) squared + c) >> z, all in int32.
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
from accel.region.row_softmax import INVERSE_BITS, UNIT, IntegerSoftmax


def softmax(nodes: Sequence[str], shape: Shape, integers: IntegerSoftmax) -> relax.Function:
    """Returns the composite ``softmax`` of rows of a matrix of ``shape``."""
    data = parameter("x", shape, "int8")

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        value = builder.emit(relax.op.astype(data, "int32"))
        if integers.weight != 1:
            value = builder.emit(relax.op.multiply(value, int32(integers.weight)))
        largest = builder.emit(relax.op.max(value, axis=[1], keepdims=True))
        below = builder.emit(relax.op.subtract(value, largest))
        stored = summed = _exponential(builder, below, integers)
        if integers.octaves:
            less = builder.emit(relax.op.add(below, int32(integers.offset)))
            summed = _exponential(builder, less, integers)
        total = builder.emit(relax.op.astype(builder.emit(relax.op.sum(summed, [1], keepdims=True)), "float32"))
        by = builder.emit(relax.op.divide(relax.const(float(UNIT), "float32"), total))
        share = builder.emit(relax.op.clip(rounded(builder, stored, by), *map(float, INT8)))
        return builder.emit(relax.op.astype(share, "int8"))

    return composite_function("softmax", nodes, [data], compute, CompositeAttributes(softmax=integers))


def _exponential(builder: relax.BlockBuilder, below: relax.Expr, integers: IntegerSoftmax) -> relax.Var:
    above = builder.emit(relax.op.subtract(int32(0), below))
    product = builder.emit(relax.op.multiply(above, int32(integers.inverse)))
    halvings = builder.emit(relax.op.right_shift(product, int32(INVERSE_BITS)))
    rest = builder.emit(relax.op.add(below, builder.emit(relax.op.multiply(halvings, int32(integers.ln2)))))
    root = builder.emit(relax.op.add(rest, int32(integers.b)))
    parabola = builder.emit(relax.op.add(builder.emit(relax.op.multiply(root, root)), int32(integers.c)))
    return builder.emit(relax.op.right_shift(parabola, halvings))
