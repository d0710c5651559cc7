"""A multiply-accumulate nest, or one that writes zeros, becomes the contraction instruction."""

from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from accel.accelerator.document import Accelerator, Contract, Operand
from accel.errors import CompileError
from accel.lowering import intrinsic
from accel.lowering.hardware_loops import Axis, assign
from accel.lowering.nest import Access, Nest, constant, simplify
from accel.lowering.walk import scope_of


def inject_contract(nest: Nest, accelerator: Accelerator) -> tirx.Stmt:
    """``dst += data * weights`` summed as the document says, or ``dst = 0``, as one instruction.

    Raises:
        CompileError: other arithmetic, other memories, or no loops that walk the instruction's own tile.
    """
    gemm = accelerator.contraction
    reset = constant(nest.store.value) == 0
    accesses: dict[str, Access] = {"dst": nest.target}
    if not reset:
        accesses |= _match(nest, gemm, accelerator)
    for operand in (gemm.dst, gemm.data, gemm.weights):
        access = accesses.get(operand.name)
        expected = accelerator.memory(operand.memory).scope
        if access and scope_of(access.buffer) != expected:
            raise CompileError(f"{gemm.name} takes {operand.name} from {expected}", field=access.buffer.name)
    axes = _outer_axes(nest, gemm, accesses, accelerator)
    fields, microops = assign(axes, gemm, list(accesses))
    operands: dict[str, Any] = {}
    for operand in (gemm.dst, gemm.data, gemm.weights):
        if (access := accesses.get(operand.name)) is not None:
            size = accelerator.memory(operand.memory).element_count
            operands[operand.name] = access.buffer.data
            operands[f"{operand.name}_base"] = simplify(tirx.floordiv(access.base, size))
    flag = tirx.const(int(reset), "int32")
    return intrinsic.call(gemm.name, {**operands, gemm.reset: flag, **fields}, microops)


def _match(nest: Nest, gemm: Contract, accelerator: Accelerator) -> dict[str, Access]:
    """Data and weights of ``dst = dst + cast(data) * cast(weights)``, whichever way round it is written."""
    value = nest.store.value
    if isinstance(value, tirx.Add):
        for accumulated, product in ((value.a, value.b), (value.b, value.a)):
            if not (isinstance(accumulated, TensorLoad) and isinstance(product, tirx.Mul)):
                continue
            same = accumulated.source.same_as(nest.store.buffer)
            dst = nest.access(accumulated.source, accumulated.indices)
            if not same or dst.strides != nest.target.strides or constant(simplify(dst.base - nest.target.base)) != 0:
                continue
            factors = [_uncast(product.a), _uncast(product.b)]
            if all(isinstance(factor, TensorLoad) for factor in factors):
                return _by_scope(nest, factors, gemm, accelerator)
    raise CompileError(f"{gemm.name} does dst += data * weights; found {value}", field=nest.store.buffer.name)


def _uncast(value: tirx.Expr) -> tirx.Expr:
    return value.value if isinstance(value, tirx.Cast) else value


def _by_scope(nest: Nest, factors: list[TensorLoad], gemm: Contract, accelerator: Accelerator) -> dict[str, Access]:
    data_scope = accelerator.memory(gemm.data.memory).scope
    first, second = factors if scope_of(factors[0].source) == data_scope else reversed(factors)
    return {
        gemm.data.name: nest.access(first.source, first.indices),
        gemm.weights.name: nest.access(second.source, second.indices),
    }


def _axis_strides(operand: Operand, axis: str, accelerator: Accelerator) -> int:
    """Scalars between neighbours along ``axis`` inside one element of the operand's memory; 0 if it has none."""
    stride = 1
    for name, extent in reversed(list(zip(operand.axes, accelerator.memory(operand.memory).shape, strict=True))):
        if name == axis:
            return stride
        stride *= extent
    return 0


def _outer_axes(nest: Nest, gemm: Contract, accesses: dict[str, Access], accelerator: Accelerator) -> list[Axis]:
    """Take the instruction's own tile out of the nest; what is left steps over whole elements."""
    operands = [operand for operand in (gemm.dst, gemm.data, gemm.weights) if operand.name in accesses]
    left = [
        (extent, tuple(accesses[operand.name].strides[i] for operand in operands))
        for i, extent in enumerate(nest.extents)
    ]
    for name, extent in accelerator.extents(*operands).items():
        pattern = (extent, tuple(_axis_strides(operand, name, accelerator) for operand in operands))
        if extent == 1:
            continue
        if pattern not in left:
            raise CompileError(f"no loop walks axis {name} of {gemm.name} ({extent} wide)", field=gemm.name)
        left.reverse()
        left.remove(pattern)
        left.reverse()
    sizes = [accelerator.memory(operand.memory).element_count for operand in operands]
    if any(stride % size for _, strides in left for stride, size in zip(strides, sizes, strict=True)):
        raise CompileError(f"a loop of the nest cuts through an element of {gemm.name}'s operands", field=gemm.name)
    return [
        Axis(extent, tuple(stride // size for stride, size in zip(strides, sizes, strict=True)))
        for extent, strides in left
    ]
