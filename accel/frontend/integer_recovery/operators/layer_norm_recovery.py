"""Recovery of layer norm in integers, for accelerators whose stores compute it of rows of accumulators.

Gains and offsets of channels are no part of it: a float model is quantised so that what reads a norm has them.
"""

from collections.abc import Callable
from functools import partial

import tvm
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
from accel.frontend.integer_recovery.row_composites import layer_norm
from accel.region.row_layer_norm import IntegerLayerNorm, epsilon_counts, layer_norm_of_integers

_GAINS = (
    "stores compute it without gains and offsets of channels, and this one has some, which products behind it would "
    "have where the model is quantised here"
)

LayerNormObstacle = Callable[[int, int], str]
"""Why no store computes layer norm of so many rows and columns; empty where one does."""


def recover_layer_norm(rewrite: DataflowRewrite, binding: relax.Binding, obstacle: LayerNormObstacle) -> bool:
    """Replaces a layer norm along the last axis and its quantize by ``layer_norm``; False for any other binding.

    Of a norm that stays, ``rewrite.refusals`` says why.
    """
    call = rewrite.graph.call(binding.var, "relax.nn.layer_norm")
    if call is None:
        return False
    node = rewrite.origin[binding.var.name].name
    shape, around = shape_of(binding.var), quantised_around(rewrite, binding.var, call.args[0])
    if [int(axis) % len(shape) for axis in call.attrs.axes] != [len(shape) - 1]:
        found = NOT_LAST
    elif why := obstacle(*as_rows(shape)):
        found = why
    elif around is None:
        found = NOT_INT8
    elif not _is_plain(rewrite, call):
        found = _GAINS
    else:
        end, data, output = around
        integers = _integers(data, output, shape[-1], float(call.attrs.epsilon))
        if isinstance(integers, IntegerLayerNorm):
            replace_rows(rewrite, binding.var, end, data, partial(layer_norm, integers=integers))
            return True
        found = f"the integers of layer norm that stores compute {integers}"
    rewrite.refusals[node] = found
    return False


def _is_plain(rewrite: DataflowRewrite, call: tvm.ir.Call) -> bool:
    """Whether a norm has no gains but ones, and no offsets but zeros."""
    gains, offsets = (rewrite.graph.constant(each) for each in call.args[1:3])
    return gains is not None and offsets is not None and bool((gains == 1).all()) and not offsets.any()


def _integers(data: QuantisedTensor, output: QuantisedTensor, columns: int, epsilon: float) -> IntegerLayerNorm | str:
    if why := type_obstacle(data, output):
        return why
    if output.zero_point:
        return f"leave 0 for 0, and the zero point of its result is {int(output.zero_point)}"
    if epsilon_counts(epsilon, float(data.scale)):
        return (
            f"add nothing to variances, and an epsilon of {epsilon:.3g} is much for data worth {float(data.scale):.3g}"
        )
    found = layer_norm_of_integers(float(output.scale), columns)
    if found is None:
        return f"are worth a quotient of weights, and a step of its result is {float(output.scale):.6g}"
    return found
