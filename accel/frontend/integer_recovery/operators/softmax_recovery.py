"""Recovery of softmax as I-BERT's integers, for accelerators whose stores compute it of rows of accumulators."""

import math
from collections.abc import Callable

import tvm
from tvm import relax

from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor, shape_of
from accel.frontend.integer_recovery.int8_operands import to_int8
from accel.frontend.integer_recovery.softmax_composite import softmax
from accel.frontend.integer_recovery.softmax_integers import octaves_of, softmax_of_integers
from accel.region.row_softmax import IntegerSoftmax

_BYTES = ("int8", "uint8")
_OF_INT8 = "stores compute it of int8, and its data or its result are floats here"

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
    shape, user = shape_of(binding.var), rewrite.graph.only_user(binding.var)
    quantize = rewrite.graph.call(user.var, "relax.quantize") if user is not None else None
    data = rewrite.graph.dequantised(call.args[0])
    output = rewrite.graph.parameters(quantize, user.var) if user is not None and quantize is not None else None
    if user is None or data is None or output is None or 0 in shape:
        # rows that no store computes are not quantised here, so that their length is why
        rewrite.refusals[node] = obstacle(math.prod(shape[:-1]), shape[-1], 0) or _OF_INT8
        return False
    if int(call.attrs.axis) % len(shape) != len(shape) - 1:
        rewrite.refusals[node] = "stores compute it of rows, along the last axis"
        return False
    found = _integers(data, output, shape[-1])
    if isinstance(found, str):
        rewrite.refusals[node] = f"the integers of softmax that stores compute {found}"
        return False
    if why := obstacle(math.prod(shape[:-1]), shape[-1], found.octaves):
        rewrite.refusals[node] = why
        return False
    _replace(rewrite, binding.var, user.var, data, found)
    return True


def _integers(data: QuantisedTensor, output: QuantisedTensor, columns: int) -> IntegerSoftmax | str:
    if not (data.per_tensor and output.per_tensor):
        return "are of one scale, and these have several"
    if output.dtype != "int8" or data.dtype not in _BYTES:
        return f"are int8, and these are {output.dtype if output.dtype != 'int8' else data.dtype}"
    octaves = octaves_of(float(output.scale), int(output.zero_point))
    return octaves if isinstance(octaves, str) else softmax_of_integers(float(data.scale), columns, octaves)


def _replace(
    rewrite: DataflowRewrite, root: relax.Var, end: relax.Var, data: QuantisedTensor, found: IntegerSoftmax
) -> None:
    """Bind the quantize to the composite of the matrix of all rows."""
    shape = shape_of(root)
    matrix = [math.prod(shape[:-1]), shape[-1]]
    value = to_int8(rewrite, data, root)
    if matrix != shape:
        value = rewrite.emit(relax.op.reshape(value, matrix), root, "rows")
    function = softmax(rewrite.nodes([root]), matrix, found)
    origin = rewrite.origin[root.name]
    rewrite.replace([root, end])
    result: relax.Expr = tvm.ir.Call(rewrite.composite(function, origin), [value])
    rewrite.origin[end.name] = origin
    if matrix != shape:
        result = relax.op.reshape(rewrite.emit(result, root, "softmax"), shape)
    rewrite.bind(end, result)
