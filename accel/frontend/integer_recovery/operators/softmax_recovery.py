"""Recovery of softmax as I-BERT's integers, for accelerators whose stores compute it of rows of accumulators."""

from collections.abc import Callable
from functools import partial

from tvm import relax

from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor, shape_of
from accel.frontend.integer_recovery.element_layout import as_rows
from accel.frontend.integer_recovery.operators.quantised_rows import (
    NOT_INT8,
    NOT_LAST,
    quantised_around,
    replace_rows,
    type_obstacle,
)
from accel.frontend.integer_recovery.row_composites import softmax
from accel.frontend.integer_recovery.softmax_integers import octaves_of, softmax_of_integers
from accel.region.row_softmax import IntegerSoftmax

SoftmaxObstacle = Callable[[int, int, int], str]
"""Why no store computes softmax of so many rows and columns, a power of two times as large; empty where one does."""


def recover_softmax(rewrite: DataflowRewrite, binding: relax.Binding, obstacle: SoftmaxObstacle) -> bool:
    """Replaces a softmax along the last axis and its quantize by ``softmax``; False for any other binding.

    Of a softmax that stays, ``rewrite.refusals`` says why.
    """
    call = rewrite.graph.call(binding.var, "relax.nn.softmax")
    if call is None:
        return False
    node = rewrite.origin[binding.var.name].name
    shape, around = shape_of(binding.var), quantised_around(rewrite, binding.var, call.args[0])
    rows, columns = as_rows(shape)
    if around is None or 0 in shape:
        # rows that no store computes are not quantised here, so that their length is why
        rewrite.refusals[node] = obstacle(rows, columns, 0) or NOT_INT8
        return False
    if int(call.attrs.axis) % len(shape) != len(shape) - 1:
        rewrite.refusals[node] = NOT_LAST
        return False
    end, data, output = around
    found = _integers(data, output, columns)
    if isinstance(found, str):
        rewrite.refusals[node] = f"the integers of softmax that stores compute {found}"
        return False
    if why := obstacle(rows, columns, found.octaves):
        rewrite.refusals[node] = why
        return False
    replace_rows(rewrite, binding.var, end, data, partial(softmax, integers=found))
    return True


def _integers(data: QuantisedTensor, output: QuantisedTensor, columns: int) -> IntegerSoftmax | str:
    if why := type_obstacle(data, output):
        return why
    octaves = octaves_of(float(output.scale), int(output.zero_point))
    return octaves if isinstance(octaves, str) else softmax_of_integers(float(data.scale), columns, octaves)
