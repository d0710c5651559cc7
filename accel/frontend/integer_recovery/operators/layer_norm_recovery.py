"""Recovery of layer norm in integers, for accelerators whose stores compute it of rows of accumulators.

Gains and offsets of channels are no part of it: a float model is quantised so that what reads a norm has them.
"""

import math
from collections.abc import Callable

import tvm
from tvm import relax

from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor, shape_of
from accel.frontend.integer_recovery.int8_operands import to_int8
from accel.frontend.integer_recovery.layer_norm_composite import layer_norm
from accel.region.row_layer_norm import IntegerLayerNorm, epsilon_counts, layer_norm_of_integers

_BYTES = ("int8", "uint8")
_OF_INT8 = "stores compute it of int8, and its data or its result are floats here"
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
    shape, user = shape_of(binding.var), rewrite.graph.only_user(binding.var)
    quantize = rewrite.graph.call(user.var, "relax.quantize") if user is not None else None
    data = rewrite.graph.dequantised(call.args[0])
    output = rewrite.graph.parameters(quantize, user.var) if user is not None and quantize is not None else None
    found: IntegerLayerNorm | str
    if [int(axis) % len(shape) for axis in call.attrs.axes] != [len(shape) - 1]:
        found = "stores compute it of rows, along the last axis"
    elif why := obstacle(math.prod(shape[:-1]), shape[-1]):
        found = why
    elif data is None or output is None:
        found = _OF_INT8
    elif not _is_plain(rewrite, call):
        found = _GAINS
    else:
        found = _integers(data, output, shape[-1], float(call.attrs.epsilon))
        found = f"the integers of layer norm that stores compute {found}" if isinstance(found, str) else found
    if isinstance(found, str) or user is None or data is None:
        rewrite.refusals[node] = found if isinstance(found, str) else _OF_INT8
        return False
    _replace(rewrite, binding.var, user.var, data, found)
    return True


def _is_plain(rewrite: DataflowRewrite, call: tvm.ir.Call) -> bool:
    """Whether a norm has no gains but ones, and no offsets but zeros."""
    gains, offsets = (rewrite.graph.constant(each) for each in call.args[1:3])
    return gains is not None and offsets is not None and bool((gains == 1).all()) and not offsets.any()


def _integers(data: QuantisedTensor, output: QuantisedTensor, columns: int, epsilon: float) -> IntegerLayerNorm | str:
    if not (data.per_tensor and output.per_tensor):
        return "are of one scale, and these have several"
    if output.dtype != "int8" or data.dtype not in _BYTES:
        return f"are int8, and these are {output.dtype if output.dtype != 'int8' else data.dtype}"
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


def _replace(
    rewrite: DataflowRewrite, root: relax.Var, end: relax.Var, data: QuantisedTensor, found: IntegerLayerNorm
) -> None:
    """Bind the quantize to the composite of the matrix of all rows."""
    shape = shape_of(root)
    matrix = [math.prod(shape[:-1]), shape[-1]]
    value = to_int8(rewrite, data, root)
    if matrix != shape:
        value = rewrite.emit(relax.op.reshape(value, matrix), root, "rows")
    function = layer_norm(rewrite.nodes([root]), matrix, found)
    origin = rewrite.origin[root.name]
    rewrite.replace([root, end])
    result: relax.Expr = tvm.ir.Call(rewrite.composite(function, origin), [value])
    rewrite.origin[end.name] = origin
    if matrix != shape:
        result = relax.op.reshape(rewrite.emit(result, root, "norm"), shape)
    rewrite.bind(end, result)
