"""An elementwise nest on the accumulators becomes the map instruction, with an immediate or two operands."""

from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from accel.accelerator.document import Accelerator, Map
from accel.errors import CompileError
from accel.lowering import intrinsic
from accel.lowering.hardware_loops import Axis, assign
from accel.lowering.nest import Access, Nest, constant, simplify
from accel.lowering.walk import scope_of

_NODES = {
    tirx.Add: "add",
    tirx.Max: "max",
    tirx.Min: "min",
    tirx.Mul: "multiply",
    tirx.RShift: "shift_right",
}


def inject_map(nest: Nest, accelerator: Accelerator) -> tirx.Stmt:
    """``dst = op(dst, immediate)`` or ``dst = op(dst, src)`` as one instruction.

    Raises:
        CompileError: an operation that the accelerator has not, one that is not in place, or an immediate that
            its field cannot hold.
    """
    alu = accelerator.map
    name, left, right = _operation(nest.store.value, alu)
    target = nest.target
    if not isinstance(left, TensorLoad) or not _same(nest.access(left.source, left.indices), target):
        left, right = right, left
    if not isinstance(left, TensorLoad) or not _same(nest.access(left.source, left.indices), target):
        raise CompileError(f"{alu.name} works in place; found {nest.store.value}", field=nest.store.buffer.name)
    immediate = constant(right)
    if immediate is None and not isinstance(right, TensorLoad):
        raise CompileError(f"{alu.name} takes an immediate or a memory operand; found {right}", field=alu.name)
    source = target if immediate is not None else nest.access(right.source, right.indices)
    _check_immediate(alu, immediate)
    return _emit(nest, alu, name, {"dst": target, "src": source}, immediate, accelerator)


def _operation(value: tirx.Expr, alu: Map) -> tuple[str, tirx.Expr, tirx.Expr]:
    supported = {operation.name for operation in alu.ops}
    for node, name in _NODES.items():
        if isinstance(value, node) and name in supported:
            return name, value.a, value.b
    # a negative shift to the right goes left
    if isinstance(value, tirx.LShift) and constant(value.b) is not None and "shift_right" in supported:
        return "shift_right", value.a, tirx.const(-int(value.b), "int32")
    raise CompileError(f"{alu.name} has no operation for {value}; it has {sorted(supported)}", field=alu.name)


def _same(a: Access, b: Access) -> bool:
    return a.buffer.same_as(b.buffer) and a.strides == b.strides and constant(simplify(a.base - b.base)) == 0


def _check_immediate(alu: Map, immediate: int | None) -> None:
    bits = alu.bits(alu.immediate)
    if immediate is not None and not -(1 << bits - 1) <= immediate < 1 << bits - 1:
        raise CompileError(f"the immediate {immediate} does not fit {bits} signed bits", field=alu.immediate)


def _emit(
    nest: Nest, alu: Map, name: str, accesses: dict[str, Access], immediate: int | None, accelerator: Accelerator
) -> tirx.Stmt:
    memory = accelerator.memory(alu.dst.memory)
    for access in accesses.values():
        if scope_of(access.buffer) != memory.scope:
            raise CompileError(f"{alu.name} works on {memory.scope}", field=access.buffer.name)
    axes = _outer_axes(nest, list(accesses.values()), memory.element_count, alu)
    loops, microops = assign(axes, alu, list(accesses))
    fields: dict[str, Any] = {}
    for operand, access in accesses.items():
        fields[operand] = access.buffer.data
        fields[f"{operand}_base"] = simplify(tirx.floordiv(access.base, memory.element_count))
    fields[alu.opcode] = tirx.const(next(op.code for op in alu.ops if op.name == name), "int32")
    fields[alu.use_immediate] = tirx.const(int(immediate is not None), "int32")
    fields[alu.immediate] = tirx.const(immediate or 0, "int32")
    return intrinsic.call(alu.name, {**fields, **loops}, microops)


def _outer_axes(nest: Nest, accesses: list[Access], size: int, alu: Map) -> list[Axis]:
    """Strip the inner loops that make up one element; every operand must walk it densely."""
    axes = [(extent, tuple(access.strides[i] for access in accesses)) for i, extent in enumerate(nest.extents)]
    dense = 1
    while dense < size:
        if not axes or any(stride != dense for stride in axes[-1][1]):
            raise CompileError(f"the innermost loops do not walk one element of {alu.name}'s operands", field=alu.name)
        dense *= axes.pop()[0]
    if dense != size or any(stride % size for _, strides in axes for stride in strides):
        raise CompileError(f"the nest is not made of whole elements of {alu.name}'s operands", field=alu.name)
    return [Axis(extent, tuple(stride // size for stride in strides)) for extent, strides in axes]
