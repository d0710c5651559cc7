"""What int8 values of ``main`` cannot be below, as far as their making tells."""

from typing import Any

from tvm import ir, relax

from accel.lowering.geometry import INT8

_KEEPING = (
    "relax.expand_dims", "relax.flatten", "relax.permute_dims", "relax.reshape", "relax.squeeze", "relax.strided_slice",
    "relax.nn.max_pool2d",
)  # fmt: skip


def lowest_operands(module: ir.IRModule) -> dict[str, int]:
    """For each function that ``main`` calls, the least value that its first argument can have; -128 where unknown."""
    lowest: dict[relax.Var, int] = {}
    found: dict[str, int] = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, ir.Call) and isinstance(value.op, ir.GlobalVar):
                found[str(value.op.name_hint)] = _of(value.args[0], lowest)
            lowest[binding.var] = _made(module, value, lowest)
    return found


def _of(value: Any, lowest: dict[relax.Var, int]) -> int:
    return lowest.get(value, INT8[0]) if isinstance(value, relax.Var) else INT8[0]


def _made(module: ir.IRModule, value: Any, lowest: dict[relax.Var, int]) -> int:
    if isinstance(value, relax.Var):
        return _of(value, lowest)
    if not isinstance(value, ir.Call):
        return INT8[0]
    if isinstance(value.op, ir.GlobalVar):
        return _called(module[value.op], _of(value.args[0], lowest))
    name = value.op.name
    if name == "relax.concat":
        return min((_of(field, lowest) for field in value.args[0].fields), default=INT8[0])
    first = _of(value.args[0], lowest) if value.args else INT8[0]
    clipped = {"relax.maximum": max, "relax.minimum": min}.get(name)
    bound = value.args[1] if clipped is not None else None
    if clipped is not None and isinstance(bound, ir.GenericConst) and str(bound.value.dtype) == "int8":
        return clipped(first, int(bound.value.numpy().min()))
    return first if name in _KEEPING else INT8[0]


def _called(function: relax.Function, first: int) -> int:
    """The lower bound of a composite's clip, and of a maximum's operand."""
    if not isinstance(function, relax.Function) or str(function.ret_ty.dtype.dtype) != "int8":
        return INT8[0]
    bound = INT8[0]
    for block in function.body.blocks:
        for binding in block.bindings:
            call = binding.value
            if call.op.name == "relax.maximum" and isinstance(call.args[1], ir.GenericConst):
                bound = max(bound, int(call.args[1].value.numpy()))
            elif call.op.name == "relax.clip":
                bound = max(bound, int(call.args[1].value))
    return max(bound, first) if str(function.attrs["op"]) == "max_pool" else bound
