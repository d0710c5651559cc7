"""Functions of rows between a dequantize and a quantize, which stores compute: what their recoveries share."""

from collections.abc import Callable, Sequence

import tvm
from tvm import relax

from accel.frontend.integer_recovery.composite_functions import Shape
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor, shape_of
from accel.frontend.integer_recovery.element_layout import as_rows
from accel.frontend.integer_recovery.int8_operands import to_int8

NOT_INT8 = "stores compute it of int8, and its data or its result are floats here"
NOT_LAST = "stores compute it of rows, along the last axis"
_BYTES = ("int8", "uint8")


def quantised_around(
    rewrite: DataflowRewrite, var: relax.Var, data: relax.Expr
) -> tuple[relax.Var, QuantisedTensor, QuantisedTensor] | None:
    """Returns the quantize that alone reads ``var``, and the tensors of ``data`` and of it; None if one is a float."""
    user, found = rewrite.graph.only_user(var), rewrite.graph.dequantised(data)
    quantize = None if user is None else rewrite.graph.call(user.var, "relax.quantize")
    if user is None or quantize is None or found is None:
        return None
    output = rewrite.graph.parameters(quantize, user.var)
    return None if output is None else (user.var, found, output)


def type_obstacle(data: QuantisedTensor, output: QuantisedTensor) -> str:
    """Returns what the integers that stores compute are, and these are not; empty where they are."""
    if not (data.per_tensor and output.per_tensor):
        return "are of one scale, and these have several"
    if output.dtype != "int8" or data.dtype not in _BYTES:
        return f"are int8, and these are {output.dtype if output.dtype != 'int8' else data.dtype}"
    return ""


def replace_rows(
    rewrite: DataflowRewrite,
    root: relax.Var,
    end: relax.Var,
    data: QuantisedTensor,
    composite: Callable[[Sequence[str], Shape], relax.Function],
) -> None:
    """Bind the quantize ``end`` of ``root`` to a composite of the matrix of all rows, given its nodes and its shape."""
    shape = shape_of(root)
    matrix = as_rows(shape)
    value = to_int8(rewrite, data, root)
    if matrix != shape:
        value = rewrite.emit(relax.op.reshape(value, matrix), root, "rows")
    function = composite(rewrite.nodes([root]), matrix)
    origin = rewrite.origin[root.name]
    rewrite.replace([root, end])
    result: relax.Expr = tvm.ir.Call(rewrite.composite(function, origin), [value])
    rewrite.origin[end.name] = origin
    if matrix != shape:
        result = relax.op.reshape(rewrite.emit(result, root, str(function.attrs["op"])), shape)
    rewrite.bind(end, result)
