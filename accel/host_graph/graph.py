"""The one form of a host step's module: a function ``main`` of one dataflow block, which returns its results."""

from collections.abc import Sequence
from typing import Any

from tvm import ir, relax

from accel.host_graph.values import Tensor


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


def signature(module: ir.IRModule) -> tuple[list[Tensor], list[Tensor]]:
    """Shape and type of what ``main`` takes, and of what it returns."""
    main = module["main"]
    result = main.ret_ty
    results = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    return [_tensor(parameter.ty) for parameter in main.params], [_tensor(ty) for ty in results]


def _tensor(ty: relax.TensorType) -> Tensor:
    return tuple(int(extent) for extent in ty.shape.values), str(ty.dtype)
