"""Recovery of products of two matrices, or stacks of them, that are both activations: attention's scores and context.

Of ``(x - zx) (w - zw)`` the sums of ``x w`` are the composite's. What x's zero point takes off is a number a column,
which the host sums up and the composite adds as its bias. What w's takes off is a number a row: the host then takes
it off the sums.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor, shape_of
from accel.frontend.integer_recovery.int8_operands import from_int8, int8_output, to_int8, zero_point_as_int8
from accel.frontend.integer_recovery.int32_sums import (
    as_real_numbers,
    balanced,
    clipped,
    requantised_by_host,
    stored_composite,
)
from accel.frontend.integer_recovery.operators.addition_recovery import INT8_MAGNITUDE
from accel.frontend.integer_recovery.qdq_chains import Chain, follow_chain
from accel.frontend.integer_recovery.requantization import (
    HELD_BY_FLOATS,
    INT32_MAX,
    Accumulator,
    Narrowing,
    Requantize,
    as_float32_factor,
    epilogue_of,
)
from accel.frontend.integer_recovery.rounding_bias import ACCEPTED_BIAS
from accel.util.arrays import Int64

_BYTES = ("int8", "uint8")
_LARGEST = INT8_MAGNITUDE * INT8_MAGNITUDE  # of a product of int8
_STACKED = "the matrices of a stack lie one behind the other"
_COLUMNS = "what the data's zero point adds to each column is summed up beforehand"
_ROWS = "the second operand has a zero point, and what it adds to each row is taken off the sums"
_MATRIX_AXES, _STACK_AXES = 2, 3


@dataclass(frozen=True)
class _Product:
    """The product that the chain begins with, of ``x`` [*batch, M, K] and ``w`` [*batch, K, N].

    ``sizes`` are M, K and N; ``scale`` is what a unit of the sums is worth.
    """

    chain: Chain
    x: QuantisedTensor
    w: QuantisedTensor
    batch: tuple[int, ...]
    sizes: tuple[int, int, int]

    @property
    def scale(self) -> float:
        return float(self.x.scale) * float(self.w.scale)

    @property
    def stack(self) -> int:
        return math.prod(self.batch)

    @property
    def magnitude(self) -> int:
        """A bound on the sums once the zero points are off, and on all that they are made of."""
        return 4 * self.sizes[1] * _LARGEST


def recover_matmul(rewrite: DataflowRewrite, binding: relax.Binding, requantize: Requantize) -> bool:
    """Replaces a product of two quantised matrices and its chain by ``matmul``; False, and nothing done, if none."""
    product = _product(rewrite, binding.var)
    if product is None or product.magnitude > INT32_MAX:
        return False
    root, (m, k, n) = product.chain.root, product.sizes
    x = _stacked(rewrite, product, product.x, (m, k))
    w = _stacked(rewrite, product, product.w, (k, n))
    found = _narrowing(product, requantize)
    narrowing = None
    if not isinstance(found, str):
        narrowing = balanced(rewrite, product.chain, found, n, biased=bool(zero_point_as_int8(product.x)))
    bias = _bias(rewrite, product, w, narrowing)
    function, bounds = stored_composite(rewrite, narrowing, partial(_function, rewrite, product, bias))
    macs = product.stack * m * k * n
    arguments = [x, w] if bias is None else [x, w, bias]
    result: relax.Expr = tvm.ir.Call(rewrite.composite(function, rewrite.origin[root.name], macs), arguments)
    if bounds is not None:
        result = clipped(rewrite, product.chain, result, bounds)
    if isinstance(found, str):
        acc = _without_rows(rewrite, product, rewrite.emit(result, root, "acc"), x)
        result = _left_to_host(rewrite, product, acc, found)
    else:
        result = from_int8(rewrite, result, product.chain)
    rewrite.replace(product.chain.members)
    tail = product.chain.tail
    if len(shape_of(tail)) != _STACK_AXES:
        result = relax.op.reshape(rewrite.emit(result, root, "stack"), shape_of(tail))
    rewrite.origin[tail.name] = rewrite.origin[root.name]  # not the quantize
    rewrite.bind(tail, result)
    return True


def _function(
    rewrite: DataflowRewrite, product: _Product, bias: relax.Expr | None, narrowing: Narrowing | None
) -> relax.Function:
    """The composite function."""
    m, k, n = product.sizes
    return composite_functions.matmul(
        rewrite.nodes([product.chain.root, *(product.chain.members if narrowing is not None else ())]),
        (product.stack, m, k),
        (product.stack, k, n),
        bias=bias is not None,
        epilogue=None if narrowing is None else narrowing.epilogue,
        rounds=bias is not None and not zero_point_as_int8(product.x),
    )


def _product(rewrite: DataflowRewrite, var: relax.Var) -> _Product | None:
    """The product that ``var`` is bound to; None if it is something else."""
    call = rewrite.graph.call(var, "relax.matmul")
    operands = [rewrite.graph.dequantised(argument) for argument in call.args] if call is not None else []
    known = [each for each in operands if each is not None and each.per_tensor and each.dtype in _BYTES]
    if call is None or len(known) < len(operands):
        return None
    if min(len(shape_of(argument)) for argument in call.args) < _MATRIX_AXES:
        return None
    *batch, m, n = shape_of(var)
    sizes = (m, shape_of(call.args[0])[-1], n)
    return _Product(follow_chain(rewrite.graph, var, bias_size=None), known[0], known[1], tuple(batch), sizes)


def _stacked(
    rewrite: DataflowRewrite, product: _Product, operand: QuantisedTensor, matrix: tuple[int, int]
) -> relax.Expr:
    """An operand as a stack int8 [B, *matrix]; one matrix that several others meet is there as often."""
    root = product.chain.root
    value = to_int8(rewrite, operand, root)
    whole = [*product.batch, *matrix]
    if shape_of(value) != whole:
        value = rewrite.emit(relax.op.broadcast_to(value, whole), root, "stack", _STACKED)
    if len(whole) != _STACK_AXES:
        value = rewrite.emit(relax.op.reshape(value, (product.stack, *matrix)), root, "stack", _STACKED)
    return value


def _narrowing(product: _Product, requantize: Requantize) -> Narrowing | str:
    """The requantisation inside the composite, or why there is none."""
    if product.chain.output is None:
        return "the result is wanted in float32"
    if zero_point_as_int8(product.w):
        return _ROWS
    acc = Accumulator(np.asarray(product.scale), np.asarray(product.magnitude), channels=product.sizes[2])
    found = epilogue_of(acc, int8_output(product.chain), requantize)
    return found if isinstance(found, str) else _in_whole_columns(product, found)


def _in_whole_columns(product: _Product, found: Narrowing) -> Narrowing:
    """What joins the bias as so many times the data's zero point, where floats could not hold both added up.

    That is done where it moves the results by no more than a rounding may.
    """
    zx = zero_point_as_int8(product.x)
    scaled = isinstance(found.epilogue, composite_functions.ScaledEpilogue) and found.addend.ndim == 0
    if not scaled or not _is_power(zx) or _is_held(product, found.addend) or product.chain.output is None:
        return found
    whole = np.rint(found.addend / zx).astype(np.int64) * zx
    off = float(whole - found.addend) * product.scale / product.chain.output.scale
    if abs(off) > ACCEPTED_BIAS:
        return found
    return replace(found, addend=whole, rounding=replace(found.rounding, bias=found.rounding.bias + off))


def _is_power(number: int) -> bool:
    """Whether it is a power of two, of either sign: what is held times that has no more digits."""
    return number != 0 and abs(number) & (abs(number) - 1) == 0


def _is_held(product: _Product, addend: Int64) -> bool:
    """Whether float32 holds what each column adds, and ``addend`` more."""
    columns = product.sizes[1] * INT8_MAGNITUDE * abs(zero_point_as_int8(product.x))
    return bool(columns + int(np.abs(addend).max()) <= HELD_BY_FLOATS)


def _bias(rewrite: DataflowRewrite, product: _Product, w: relax.Expr, narrowing: Narrowing | None) -> relax.Expr | None:
    """What each column of each product adds, int32 [B, 1, N]; None where that is nothing."""
    root, (_, k, n) = product.chain.root, product.sizes
    zx, zw = zero_point_as_int8(product.x), zero_point_as_int8(product.w)
    addend = np.broadcast_to(np.zeros((), np.int64) if narrowing is None else narrowing.addend, n) + k * zx * zw
    constant = relax.const(addend.reshape(1, 1, n).astype(np.int32))
    if zx:
        wide = rewrite.emit(relax.op.astype(w, "int32"), root, "columns", _COLUMNS)
        sums = rewrite.emit(relax.op.sum(wide, [1], keepdims=True), root, "columns", _COLUMNS)
        if _is_power(zx) and not _is_held(product, addend) and not (addend % zx).any():
            more = relax.const((addend // -zx).reshape(1, 1, n).astype(np.int32))
            sums = rewrite.emit(relax.op.add(sums, more), root, "columns", _COLUMNS) if addend.any() else sums
            addend = np.zeros_like(addend)
        taken = rewrite.emit(relax.op.multiply(sums, relax.const(-zx, "int32")), root, "columns", _COLUMNS)
        return rewrite.emit(relax.op.add(taken, constant), root, "columns", _COLUMNS) if addend.any() else taken
    if not addend.any():
        return None
    return relax.const(np.broadcast_to(addend.astype(np.int32), (product.stack, 1, n)).copy())


def _without_rows(rewrite: DataflowRewrite, product: _Product, acc: relax.Expr, x: relax.Expr) -> relax.Expr:
    """The sums without what the second operand's zero point adds to each row."""
    root, zw = product.chain.root, zero_point_as_int8(product.w)
    if not zw:
        return acc
    wide = rewrite.emit(relax.op.astype(x, "int32"), root, "rows", _ROWS)
    sums = rewrite.emit(relax.op.sum(wide, [2], keepdims=True), root, "rows", _ROWS)
    taken = rewrite.emit(relax.op.multiply(sums, relax.const(-zw, "int32")), root, "rows", _ROWS)
    return rewrite.emit(relax.op.add(acc, taken), root, "sums", _ROWS)


def _left_to_host(rewrite: DataflowRewrite, product: _Product, acc: relax.Expr, cause: str) -> relax.Expr:
    """The sums as the rest of the graph wants them, which the host makes of them for a ``cause``."""
    chain, scale = product.chain, np.asarray(product.scale)
    if chain.output is not None:
        steps = as_float32_factor(scale / chain.output.scale)
        return requantised_by_host(rewrite, chain, acc, steps, cause, chain.root)
    return as_real_numbers(rewrite, chain, acc, as_float32_factor(scale))
