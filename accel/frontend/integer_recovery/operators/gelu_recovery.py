"""Recovery of GELU as I-BERT's integers, for accelerators whose stores compute it of their accumulators.

A function that is GELU, whatever nodes it is made of, is computed by the store of the layer before it where int32 holds
what may come of its sums, which takes sums worth much: then the layer's own int8 are skipped. Elsewhere it is work of
its own on these. Where the integers are not near enough to the function, it stays a table, with the reason.
"""

from dataclasses import replace

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.composite_functions import ScaledEpilogue
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, shape_of
from accel.frontend.integer_recovery.element_layout import layout_of_elements
from accel.frontend.integer_recovery.gelu_integers import (
    StoredGelu,
    accepted_error,
    gelu_of_integers,
    gelu_of_sums,
    times_gelu,
)
from accel.frontend.integer_recovery.operators.contraction_recovery import (
    CONTRACTIONS,
    IntegerContraction,
    layer_of,
    replace_layer,
)
from accel.frontend.integer_recovery.operators.table_recovery import TableFunction, Tables
from accel.frontend.integer_recovery.requantization import Narrowing
from accel.frontend.integer_recovery.rounding_bias import Rounding
from accel.region.epilogue import INT8

_MOST_MEMBERS = 8  # bias, clips and quantize of a layer


def recover_gelu_of_layer(rewrite: DataflowRewrite, binding: relax.Binding, tables: Tables) -> bool:
    """Replaces a layer and the GELU behind it by the layer with that in its store; False if they do not fit.

    The layer has one scale, int32 holds whatever its weights make of any data, and nothing else reads its result.
    """
    call = rewrite.graph.call(binding.var)
    function = _function_behind(rewrite, binding, tables) if call is not None and call.op.name in CONTRACTIONS else None
    if function is None or function.data is None or function.output is None or function.output.zero_point:
        return False
    times, layer = times_gelu(function, function.data, function.output), layer_of(rewrite, binding.var)
    if times is None or layer is None or layer.phases is not None or not layer.is_of_one_scale:
        return False
    if layer.chain.output is None or not layer.chain.tail.same_as(function.source):
        return False
    steps = times / float(function.output.scale)
    found = gelu_of_sums(float(layer.scale.reshape(-1)[0]), int(layer.magnitude.max()), steps)
    members = _members(rewrite, layer, function)
    if found is None or found.error > accepted_error(times, function.output) or members is None:
        return False
    chain = replace(layer.chain, members=members, output=function.output, limits=INT8)
    nothing = Rounding(np.zeros(()), np.ones(()))
    narrowing = Narrowing(ScaledEpilogue(found.scale, *INT8, gelu=found.gelu), np.zeros((), np.int64), nothing)
    replace_layer(rewrite, replace(layer, chain=chain), narrowing)
    return True


def _function_behind(rewrite: DataflowRewrite, binding: relax.Binding, tables: Tables) -> TableFunction | None:
    """The function of the integers that a layer may leave, found before its weights are looked at."""
    user: relax.Binding | None = binding
    for _ in range(_MOST_MEMBERS):
        user = rewrite.graph.only_user(user.var) if user is not None else None
        if user is not None and (found := tables.reader(rewrite, user.var)) is not None:
            return found
    return None


def _members(
    rewrite: DataflowRewrite, layer: IntegerContraction, function: TableFunction
) -> tuple[relax.Var, ...] | None:
    """The layer's chain and the function, in order; None if anything else reads what lies between."""
    graph, before = rewrite.graph, {str(var.name) for var in (layer.chain.root, *layer.chain.members)}
    within = graph.between(function.end, before)
    behind = [each.var for each in graph.bindings if str(each.var.name) in within]
    inside = (layer.chain.tail, *(var for var in behind if not var.same_as(function.end)))
    if any(str(user.var.name) not in within for var in inside for user in graph.users(var)):
        return None
    return (*layer.chain.members, *behind)


def recover_gelu(rewrite: DataflowRewrite, binding: relax.Binding, tables: Tables) -> bool:
    """Replaces the quantize at the end of a GELU of int8 by ``elementwise`` with its integers; False if there are none.

    Where it is a GELU, but with no integers near enough, ``tables`` is told why.
    """
    function = tables.function(rewrite, binding)
    if function is None or function.data is None or function.output is None:
        return False
    times = times_gelu(function, function.data, function.output)
    if times is None:
        return False
    found, accepted = gelu_of_integers(function, function.data), accepted_error(times, function.output)
    refused = ""
    if function.output.zero_point:
        refused = f"leave 0 for 0, and the zero point of its result is {function.output.zero_point}"
    elif found is None:
        refused = "are beyond int32"
    elif found.error > accepted:
        refused = f"are up to {found.error} steps of its result away, where {accepted:.1f} would do"
    if refused or found is None:
        tables.reasons[str(binding.var.name)] = f"the integers of GELU that stores compute {refused}"
        return False
    _replace(rewrite, function, found, -found.weight * int(function.data.zero_point))
    return True


def _replace(rewrite: DataflowRewrite, function: TableFunction, found: StoredGelu, offset: int) -> None:
    """Bind the quantize to the composite, which adds ``offset`` to the weighted data."""
    source, end, shape = function.source, function.end, shape_of(function.source)
    laid_out = layout_of_elements(rewrite.graph, source)
    value: relax.Expr = source
    if laid_out != shape:
        value = rewrite.emit(relax.op.reshape(source, laid_out), end, "rows")
    composite = composite_functions.elementwise(
        function.nodes,
        laid_out,
        (found.weight,),
        "sum",
        offset,
        ScaledEpilogue(found.scale, *INT8, gelu=found.gelu),
    )
    rewrite.origin[end.name] = function.origin
    result: relax.Expr = tvm.ir.Call(rewrite.composite(composite, function.origin), [value])
    if laid_out != shape:
        result = relax.op.reshape(rewrite.emit(result, end, "gelu"), shape)
    rewrite.bind(end, result)
