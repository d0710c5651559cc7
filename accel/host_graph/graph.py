"""The one form of a host step's module: a function ``main`` of one dataflow block, which returns its results."""

from collections.abc import Sequence
from typing import Any

from tvm import ir, relax


def host_graph(
    parameters: Sequence[relax.Var], bindings: Sequence[relax.VarBinding], results: Sequence[relax.Var]
) -> Any:
    """The module of those bindings: one tensor comes back as it is, several as a tuple."""
    leaving = [relax.Var(f"{var.name}_result", var.ty) for var in results]
    leave = [relax.VarBinding(result, var) for result, var in zip(leaving, results, strict=True)]
    value: Any = leaving[0] if len(leaving) == 1 else relax.Tuple(leaving)
    body = relax.SeqExpr([relax.DataflowBlock([*bindings, *leave])], value)
    function = relax.Function(list(parameters), body, value.ty).with_attr("global_symbol", "main")
    return relax.transform.Normalize()(ir.IRModule({"main": function}))
