"""Tensor expressions of functions of rows: softmax in I-BERT's integers, and layer norm."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from tvm import te, tirx

from accel.accelerator.contraction import Contraction
from accel.lowering.kinds.lanewise.lanewise_expression import operand_name
from accel.lowering.layout.tiled_layout import packed_shape
from accel.region.epilogue import INT8
from accel.region.kinds import Region
from accel.region.row_layer_norm import RowLayerNorm
from accel.region.row_softmax import INVERSE_BITS, UNIT, IntegerSoftmax, RowSoftmax
from accel.region.rows import Rows

_LEAST = -(1 << 31)


class _Products:
    """The parameters of a region, data ``[1, blocks, 1, rows, *tile]`` and ``count`` matrices, and their products."""

    def __init__(self, shape: Rows, gemm: Contraction, count: int) -> None:
        self._gemm, self._blocks = gemm, shape.data.blocks
        self.data = te.placeholder(packed_shape(shape.data, gemm.data), gemm.data.memory.dtype, name=operand_name(0))
        matrices = (count, *gemm.weights.shape)
        self.factors = te.placeholder(matrices, gemm.weights.memory.dtype, name="factors")
        self.extents = (1, shape.data.blocks, 1, shape.data.width, *gemm.dst.shape)
        self._lane = te.reduce_axis((0, gemm.in_channels), "i")

    def of(self, datum: Any, number: int, first: Any, second: Any) -> Any:
        """An element of the product of ``datum``, of an element's data, and a matrix."""
        gemm, dtype = self._gemm, self._gemm.sum_dtype
        at = dict(zip(gemm.dst.axes, (first, second), strict=True)) | {"k": self._lane}
        value = datum(*(at[axis] for axis in gemm.data.axes))
        factor = self.factors[number, *(at[axis] for axis in gemm.weights.axes)]
        return te.sum(value.astype(dtype) * factor.astype(dtype), axis=self._lane)

    def weighed(self, name: str, numbers: Sequence[int] = (0,)) -> te.Tensor:
        """The sum of the products of all data and matrices."""

        def product(number: int) -> te.Tensor:
            return te.compute(
                self.extents, lambda *at: self.of(lambda *inner: self.data(*at[:4], *inner), number, *at[4:]), name=name
            )

        parts = [product(number) for number in numbers]
        if len(parts) == 1:
            return parts[0]
        return te.compute(self.extents, lambda *at: reduce(add, (part(*at) for part in parts)), name=f"{name}_sum")


def layer_norm_function(region: Region[RowLayerNorm], gemm: Contraction) -> tirx.PrimFunc:
    """Returns layer norm of the rows as a PrimFunc.

    Parameters are the data ``[1, blocks, 1, rows, *tile]``, the weights of what is stored and of what the deviation is
    of, as diagonal matrices ``[count, *tile of weights]``, and the result ``[1, blocks, 1, rows, *tile of dst]``.
    """
    shape = region.shape
    stored, summed = map(len, shape.norm.factors)
    products = _Products(shape, gemm, stored + summed)
    sums = products.weighed("weighed", range(stored))
    others = products.weighed("summed", range(stored, stored + summed))
    nothing, columns = tirx.const(0, gemm.sum_dtype), tirx.const(shape.columns, gemm.sum_dtype)

    def mean(of: te.Tensor, value: Any, name: str) -> Any:
        total = _along(of, shape, te.sum, value, nothing, name)
        return lambda x: tirx.truncdiv(total(x), columns)

    stored_mean = mean(sums, lambda value, _: value, "total")
    summed_mean = mean(others, lambda value, _: value, "summed_total")
    variance = mean(others, lambda value, x: (value - summed_mean(x)) * (value - summed_mean(x)), "squares")

    def deviation(x: Any) -> Any:
        root = tirx.sqrt(variance(x).astype("float64")).astype("int32")
        return tirx.max(root, tirx.const(1, "int32")).astype("float32")

    def norm(value: Any, x: Any) -> Any:
        return (value - stored_mean(x)).astype("float32") * (tirx.const(1.0, "float32") / deviation(x))

    return _stored([products.data, products.factors], products.extents, sums, norm)


def softmax_function(region: Region[RowSoftmax], gemm: Contraction) -> tirx.PrimFunc:
    """Returns softmax of the rows as a PrimFunc.

    Parameters are the data ``[1, blocks, 1, rows, *tile]``, the weight as a diagonal matrix ``[1, *tile of weights]``,
    with a second matrix if less is summed than is stored, then also data whose product with that is what is less
    ``[rows of a tile, *tile]``, all alike, and the result ``[1, blocks, 1, rows, *tile of dst]``.
    """
    shape = region.shape
    products = _Products(shape, gemm, 2 if shape.softmax.octaves else 1)
    ones = te.placeholder((shape.rows, *gemm.data.shape), gemm.data.memory.dtype, name="ones")
    sums = products.weighed("weighed")
    summed = sums
    if shape.softmax.octaves:
        less = te.compute(gemm.dst.shape, lambda *at: products.of(lambda *inner: ones(0, *inner), 1, *at), name="less")
        summed = te.compute(products.extents, lambda *at: sums(*at) + less(*at[4:]), name="summed")
    least, nothing = (tirx.const(number, gemm.sum_dtype) for number in (_LEAST, 0))
    largest = _along(sums, shape, te.max, lambda value, _: value, least, "largest")

    def exponential(value: Any, x: Any) -> Any:
        return _exponential(value - largest(x), shape.softmax)

    total = _along(summed, shape, te.sum, exponential, nothing, "total")

    def share(value: Any, x: Any) -> Any:
        return exponential(value, x).astype("float32") * (
            tirx.const(float(UNIT), "float32") / total(x).astype("float32")
        )

    parameters = [products.data, products.factors, *([ones] if shape.softmax.octaves else [])]
    return _stored(parameters, products.extents, sums, share)


def _stored(parameters: Sequence[Any], extents: Sequence[int], sums: te.Tensor, value: Any) -> tirx.PrimFunc:
    """The function that stores what is made of each sum, rounded half to even, as int8."""

    def stored(n: Any, c: Any, y: Any, x: Any, first: Any, second: Any) -> Any:
        found = tirx.nearbyint(value(sums(n, c, y, x, first, second), x))
        low, high = (tirx.const(float(bound), "float32") for bound in INT8)
        return tirx.max(tirx.min(found, high), low).astype("int8")

    return te.create_prim_func([*parameters, te.compute(extents, stored, name="result0")])


def _along(sums: te.Tensor, shape: Rows, reducer: Any, value: Any, nothing: tirx.Expr, name: str) -> te.Tensor:
    """What is reduced along each row, of the columns that count."""
    inner = [int(extent) for extent in sums.shape[4:]]
    axes = [te.reduce_axis((0, extent), f"r{at}") for at, extent in enumerate((shape.data.blocks, *inner))]

    def element(x: Any) -> Any:
        block, first, second = axes
        column = (block * inner[0] + first) * inner[1] + second
        found = value(sums[0, block, 0, x, first, second], x)
        return reducer(tirx.if_then_else(column < shape.columns, found, nothing), axis=axes)

    return te.compute((shape.data.width,), element, name=name)


def _exponential(below: Any, softmax: IntegerSoftmax) -> Any:
    """I-BERT's exponential of a number that is no more than 0."""
    halvings = (tirx.const(0, "int32") - below) * softmax.inverse >> tirx.const(INVERSE_BITS, "int32")
    root = below + halvings * softmax.ln2 + softmax.b
    return root * root + softmax.c >> halvings
