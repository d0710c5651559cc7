"""Tensor expressions of softmax of rows, in I-BERT's integers."""

from typing import Any

from tvm import te, tirx

from accel.accelerator.contraction import Contraction
from accel.lowering.kinds.lanewise.lanewise_expression import operand_name
from accel.lowering.layout.tiled_layout import packed_shape
from accel.region.epilogue import INT8
from accel.region.kinds import Region
from accel.region.row_softmax import INVERSE_BITS, UNIT, IntegerSoftmax, RowSoftmax

_LEAST = -(1 << 31)


def softmax_function(region: Region[RowSoftmax], gemm: Contraction) -> tirx.PrimFunc:
    """Returns softmax of the rows as a PrimFunc.

    Parameters are the data ``[1, blocks, 1, rows, *tile]``, the weight as a diagonal matrix ``[1, *tile of weights]``,
    with a second matrix if less is summed than is stored, then also data whose product with that is what is less
    ``[rows of a tile, *tile]``, all alike, and the result ``[1, blocks, 1, rows, *tile of dst]``.
    """
    shape, dtype = region.shape, gemm.sum_dtype
    data = te.placeholder(packed_shape(shape.data, gemm.data), gemm.data.memory.dtype, name=operand_name(0))
    count = 2 if shape.softmax.octaves else 1
    factors = te.placeholder((count, *gemm.weights.shape), gemm.weights.memory.dtype, name="factors")
    ones = te.placeholder((shape.rows, *gemm.data.shape), gemm.data.memory.dtype, name="ones")
    extents = (1, shape.data.blocks, 1, shape.data.width, *gemm.dst.shape)
    lane = te.reduce_axis((0, gemm.in_channels), "i")

    def product(datum: Any, number: int, first: Any, second: Any) -> Any:
        at = dict(zip(gemm.dst.axes, (first, second), strict=True)) | {"k": lane}
        value = datum(*(at[axis] for axis in gemm.data.axes))
        factor = factors[number, *(at[axis] for axis in gemm.weights.axes)]
        return te.sum(value.astype(dtype) * factor.astype(dtype), axis=lane)

    sums = te.compute(extents, lambda *at: product(lambda *inner: data(*at[:4], *inner), 0, *at[4:]), name="weighed")
    summed = sums
    if shape.softmax.octaves:
        less = te.compute(gemm.dst.shape, lambda *at: product(lambda *inner: ones(0, *inner), 1, *at), name="less")
        summed = te.compute(extents, lambda *at: sums(*at) + less(*at[4:]), name="summed")
    largest = _along(sums, shape, te.max, lambda value: value, tirx.const(_LEAST, dtype), "largest")

    def exponential(value: Any, x: Any) -> Any:
        return _exponential(value - largest(x), shape.softmax)

    total = _along(summed, shape, te.sum, exponential, tirx.const(0, dtype), "total")

    def stored(n: Any, c: Any, y: Any, x: Any, first: Any, second: Any) -> Any:
        share = exponential(sums(n, c, y, x, first, second), x).astype("float32")
        share = tirx.nearbyint(share * (tirx.const(float(UNIT), "float32") / total(x).astype("float32")))
        low, high = (tirx.const(float(bound), "float32") for bound in INT8)
        return tirx.max(tirx.min(share, high), low).astype("int8")

    result = te.compute(extents, stored, name="result0")
    parameters = [data, factors, *([ones] if shape.softmax.octaves else []), result]
    return te.create_prim_func(parameters)


def _along(sums: te.Tensor, shape: RowSoftmax, reduce: Any, value: Any, nothing: tirx.Expr, name: str) -> te.Tensor:
    """What is reduced along each row, of the columns that count."""
    inner = [int(extent) for extent in sums.shape[4:]]
    axes = [te.reduce_axis((0, extent), f"r{at}") for at, extent in enumerate((shape.data.blocks, *inner))]

    def element(x: Any) -> Any:
        block, first, second = axes
        column = (block * inner[0] + first) * inner[1] + second
        each = sums[0, block, 0, x, first, second]
        found = value(each) if reduce is te.max else value(each, x)
        return reduce(tirx.if_then_else(column < shape.columns, found, nothing), axis=axes)

    return te.compute((shape.data.width,), element, name=name)


def _exponential(below: Any, softmax: IntegerSoftmax) -> Any:
    """I-BERT's exponential of a number that is no more than 0."""
    halvings = (tirx.const(0, "int32") - below) * softmax.inverse >> tirx.const(INVERSE_BITS, "int32")
    root = below + halvings * softmax.ln2 + softmax.b
    return root * root + softmax.c >> halvings
