"""A nest that moves a tensor between DRAM and a scratchpad becomes two-dimensional copy instructions."""

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir import TensorLoad

from accel.accelerator.document import Accelerator, Copy, Memory
from accel.errors import CompileError
from accel.lowering import intrinsic
from accel.lowering.nest import Access, Nest, constant, simplify
from accel.lowering.walk import loads_of, scope_of

_ZERO = tirx.const(0, "int32")


@dataclass(frozen=True)
class _Axis:
    """One loop of the copy, in elements: extent, steps in the scratchpad and in DRAM, padding before and after."""

    variable: tirx.Var
    extent: int
    sram: int
    dram: int
    before: tirx.Expr | None = None
    after: tirx.Expr | None = None

    @property
    def padded(self) -> bool:
        return self.before is not None or self.after is not None


def inject_copy(nest: Nest, accelerator: Accelerator) -> tirx.Stmt:
    """The copy instruction for ``nest``, inside the loops that one instruction has no dimension for.

    The nest stores one buffer from another with equal element order; a guard that yields zero outside bounds
    becomes padding.

    Raises:
        CompileError: no such copy in the accelerator, or a shape that its fields cannot say.
    """
    loads = loads_of(nest.store.value)
    if len(loads) != 1:
        raise CompileError("a copy must read exactly one buffer", field=nest.store.buffer.name)
    target, source = nest.target, nest.access(loads[0].source, loads[0].indices)
    into, out_of = (accelerator.memory_of_scope(scope_of(access.buffer)) for access in (target, source))
    memory = into or out_of
    copy = accelerator.copy_instruction(memory.name, "load" if into else "store") if memory else None
    if memory is None or copy is None or (into and out_of):
        raise CompileError(
            f"no instruction copies {scope_of(source.buffer)} to {scope_of(target.buffer)}", field=target.buffer.name
        )
    sram, dram = (target, source) if into else (source, target)
    axes = _element_axes(nest, sram, dram, memory)
    axes = _with_padding(axes, nest, _guard(nest.store.value, copy))
    return _emit(copy, memory, sram, dram, _coalesce(axes, copy))


def _guard(value: tirx.Expr, copy: Copy) -> tirx.Expr | None:
    """The condition of ``if_then_else(condition, load, 0)``; None for a plain load or a narrowing cast."""
    if isinstance(value, tirx.Cast) and copy.direction == "store":
        value = value.value
    if isinstance(value, TensorLoad):
        return None
    if isinstance(value, ir.Call) and value.op.name == "prim.if_then_else" and constant(value.args[2]) == 0:
        return value.args[0]
    raise CompileError(f"{copy.name} moves data unchanged; found {value}", field=copy.name)


def _element_axes(nest: Nest, sram: Access, dram: Access, memory: Memory) -> list[_Axis]:
    """Strip the inner loops that make up one element of the memory; the rest counts in elements."""
    size, dense = memory.element_count, 1
    axes = list(zip(nest.variables, nest.extents, sram.strides, dram.strides, strict=True))
    while dense < size:
        if not axes or axes[-1][2] != dense or axes[-1][3] != dense:
            raise CompileError(
                f"the innermost loops do not walk one element of {memory.name} ({size} scalars)", field=memory.name
            )
        dense *= axes.pop()[1]
    if dense != size or any(s % size or d % size for _, _, s, d in axes):
        raise CompileError(f"the tile is not made of whole elements of {memory.name}", field=memory.name)
    return [_Axis(variable, extent, s // size, d // size) for variable, extent, s, d in axes]


def _with_padding(axes: list[_Axis], nest: Nest, guard: tirx.Expr | None) -> list[_Axis]:
    """Turn each bound of the guard into padding of the loop that it limits."""
    for bound in _conjunction(guard):
        axes = _apply_bound(axes, nest, _difference(bound), bound)
    return axes


def _conjunction(guard: tirx.Expr | None) -> list[tirx.Expr]:
    if guard is None:
        return []
    if isinstance(guard, tirx.And):
        return _conjunction(guard.a) + _conjunction(guard.b)
    if isinstance(guard, tirx.EQ):  # what TVM makes of two bounds that leave one value
        return [guard.a <= guard.b, guard.a >= guard.b]
    return [guard]


def _difference(bound: tirx.Expr) -> tirx.Expr:
    """An expression that is >= 0 exactly where ``bound`` holds."""
    if isinstance(bound, tirx.LE):
        return bound.b - bound.a
    if isinstance(bound, tirx.LT):
        return bound.b - bound.a - 1
    if isinstance(bound, tirx.GE):
        return bound.a - bound.b
    if isinstance(bound, tirx.GT):
        return bound.a - bound.b - 1
    raise CompileError(f"the guard {bound} is no bound on an index", field="padding")


def _apply_bound(axes: list[_Axis], nest: Nest, difference: tirx.Expr, bound: tirx.Expr) -> list[_Axis]:
    line = nest.line(difference)
    limited = [i for i, step in enumerate(line.strides) if step]
    # the loops inside one element come last, and no padding cuts through an element
    if len(limited) != 1 or limited[0] >= len(axes) or abs(line.strides[limited[0]]) != 1:
        raise CompileError(f"the guard {bound} does not limit exactly one loop of the copy", field="padding")
    index = limited[0]
    axis = axes[index]
    if line.strides[index] > 0:
        padding = {"before": tirx.max(_ZERO, -line.base)}
    else:
        padding = {"after": tirx.max(_ZERO, axis.extent - 1 - line.base)}
    return [*axes[:index], _Axis(**{**vars(axis), **padding}), *axes[index + 1 :]]


def _coalesce(axes: list[_Axis], copy: Copy) -> list[_Axis]:
    """Merge neighbouring loops that both sides walk as one, as far as the fields can count."""
    limit = 1 << min(copy.bits(copy.copy_fields.columns), copy.bits(copy.copy_fields.rows))
    merged: list[_Axis] = []
    for axis in axes:
        outer = merged[-1] if merged else None
        if (
            outer
            and not outer.padded
            and not axis.padded
            and outer.sram == axis.sram * axis.extent
            and outer.dram == axis.dram * axis.extent
            and outer.extent * axis.extent < limit
        ):
            merged[-1] = _Axis(axis.variable, outer.extent * axis.extent, axis.sram, axis.dram)
        else:
            merged.append(axis)
    return merged


def _emit(copy: Copy, memory: Memory, sram: Access, dram: Access, axes: list[_Axis]) -> tirx.Stmt:
    columns = axes.pop() if axes and axes[-1].sram == 1 and (axes[-1].dram == 1 or _is_single(axes[-1])) else None
    pitch = columns.extent if columns else 1
    rows = None
    if axes and axes[-1].sram == pitch and axes[-1].dram < 1 << copy.bits(copy.copy_fields.row_stride):
        rows = axes.pop()
    if any(axis.padded for axis in axes):
        raise CompileError(f"{copy.name} cannot pad a third dimension", field=copy.name)

    size = memory.element_count
    sram_base, dram_base = _whole(sram.base, size), _whole(dram.base, size)
    for axis in axes:
        sram_base = sram_base + axis.variable * axis.sram
        dram_base = dram_base + axis.variable * axis.dram
    for inner in (rows, columns):
        if inner is not None and inner.before is not None:
            dram_base = dram_base + inner.before * inner.dram

    names = copy.copy_fields
    fields = {
        "sram": sram.buffer.data,
        names.sram: simplify(sram_base),
        "dram": dram.buffer.data,
        names.dram: simplify(dram_base),
        names.rows: _size(rows),
        names.columns: _size(columns),
        names.row_stride: tirx.const(rows.dram if rows else 1, "int32"),
    }
    for inner, before, after in ((rows, names.pad_top, names.pad_bottom), (columns, names.pad_left, names.pad_right)):
        if inner is not None and inner.padded and (before is None or after is None):
            raise CompileError(f"{copy.name} cannot pad", field=copy.name)
        if before is not None and after is not None:
            fields[before] = simplify(inner.before) if inner and inner.before is not None else _ZERO
            fields[after] = simplify(inner.after) if inner and inner.after is not None else _ZERO
    statement = intrinsic.call(copy.name, fields)
    for axis in reversed(axes):
        statement = tirx.For(axis.variable, _ZERO, tirx.const(axis.extent, "int32"), tirx.ForKind.SERIAL, statement)
    return statement


def _is_single(axis: _Axis) -> bool:
    """One element and otherwise padding: its step in DRAM, of a dimension of extent 1, does not matter."""
    return axis.padded and constant(_size(axis)) == 1


def _size(axis: _Axis | None) -> tirx.Expr:
    """Elements that come from DRAM along this axis: its extent less the padding."""
    if axis is None:
        return tirx.const(1, "int32")
    return simplify(
        axis.extent - (_ZERO if axis.before is None else axis.before) - (_ZERO if axis.after is None else axis.after)
    )


def _whole(base: tirx.Expr, size: int) -> tirx.Expr:
    return simplify(tirx.floordiv(base, size))
