"""Operands, weights and results of composites as int8, whatever the model has: uint8 is int8 and 128."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm import relax

from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor
from accel.frontend.integer_recovery.qdq_chains import Chain
from accel.frontend.integer_recovery.requantization import Output
from accel.util.arrays import Array

INT8 = np.iinfo(np.int8)
UINT8_OFFSET = 128


@dataclass(frozen=True)
class Weights:
    """Int8 weights whose zero points are 0, along ``axis`` of output channels.

    Behind the input channels of each group are those called ``repeated``, counted within the group: what int8 does not
    hold of their weights. Input channels are axis 1 of convolutions' weights [O, C / groups, KH, KW] and axis 0 of
    matrices [K, N].
    """

    values: npt.NDArray[np.int8]
    axis: int
    repeated: tuple[int, ...] = ()

    @property
    def channels(self) -> int:
        """Output channels."""
        return int(self.values.shape[self.axis])

    @property
    def inputs(self) -> int:
        """Input channels of a group in the model."""
        return int(self.values.shape[1 - self.axis]) - len(self.repeated)

    @property
    def depth(self) -> int:
        """Weights of one output channel in the model."""
        return int(self.values.size) // (self.channels * (self.inputs + len(self.repeated))) * self.inputs

    def sums(self) -> npt.NDArray[np.int64]:
        """Returns sum of the weights of each output channel; int64 [O]."""
        total: npt.NDArray[np.int64] = self._by_channel().sum(1, np.int64)
        return total

    def magnitude(self) -> npt.NDArray[np.int64]:
        """Returns for each output channel a bound on every partial result for int8 data; int64 [O]."""
        rows = self._by_channel()
        # the least of int8 has no absolute value in int8
        total: npt.NDArray[np.int64] = np.maximum(rows, 0).sum(1, np.int64) - np.minimum(rows, 0).sum(1, np.int64)
        return total * -int(INT8.min)

    def lanes(self, groups: int) -> npt.NDArray[np.int64]:
        """Returns the model's input channel that each input channel of the weights is, over all groups."""
        of_group = np.array([*range(self.inputs), *self.repeated], np.int64)
        return (np.arange(groups)[:, None] * self.inputs + of_group).ravel()

    def _by_channel(self) -> npt.NDArray[np.int8]:
        return np.moveaxis(self.values, self.axis, 0).reshape(self.channels, -1)


def zero_point_as_int8(x: QuantisedTensor) -> int:
    """Returns the zero point of data, one for all of them, once uint8 has become int8."""
    return int(x.zero_point) - (UINT8_OFFSET if x.dtype == "uint8" else 0)


def integer_weights(value: Array, quantised: QuantisedTensor, axis: int) -> Weights | None:
    """Returns the constant ``value`` of ``quantised`` as weights with output channels along ``axis``, 0 or 1.

    None if their scale varies along another axis.
    """
    if quantised.dtype not in ("int8", "uint8") or not (quantised.per_tensor or quantised.axis % value.ndim == axis):
        return None
    shape = [1] * value.ndim
    shape[axis] = -1
    if quantised.dtype == "int8" and not quantised.zero_point.any():
        return Weights(value, axis)
    centred = value.astype(np.int16) - quantised.zero_point.astype(np.int16).reshape(shape)
    inputs = 1 - axis
    parts, repeated = zip(*_parts(centred, inputs), strict=True)
    values = np.concatenate(parts, inputs) if len(parts) > 1 else parts[0]
    return Weights(values, axis, tuple(int(at) for some in repeated[1:] for at in some))


def _parts(centred: npt.NDArray[np.int16], inputs: int) -> Iterator[tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]]:
    """The int8 parts of weights, each with the channels along the axis ``inputs`` that have one: the first all."""
    at, rest = np.arange(centred.shape[inputs]), centred
    others = tuple(axis for axis in range(centred.ndim) if axis != inputs)
    first = True
    while first or len(at):
        part = rest.clip(INT8.min, INT8.max)
        yield part.astype(np.int8), at
        left = rest - part
        more = np.flatnonzero(left.any(others))
        at, rest, first = at[more], left.take(more, inputs), False


_FROM_UINT8 = "its data are uint8, and become int8 for the accelerator"
_TO_UINT8 = "its result is int8, and becomes uint8 for what follows"


def to_int8(rewrite: DataflowRewrite, x: QuantisedTensor, root: relax.Var) -> relax.Expr:
    """Returns the integers of ``x``, an operand of the operator that ``root`` is bound to."""
    if x.dtype == "int8":
        return x.value
    value = rewrite.emit(relax.op.astype(x.value, "int16"), root, "x_wide", _FROM_UINT8)
    value = rewrite.emit(relax.op.subtract(value, relax.const(UINT8_OFFSET, "int16")), root, "x_centred", _FROM_UINT8)
    return rewrite.emit(relax.op.astype(value, "int8"), root, "x_int8", _FROM_UINT8)


def int8_output(chain: Chain) -> Output:
    """Returns the output of the composite of a chain with a quantize at its end."""
    assert chain.output is not None
    offset = UINT8_OFFSET if chain.output.dtype == "uint8" else 0
    low, high = (limit - offset for limit in chain.limits)
    return Output(float(chain.output.scale), zero_point_as_int8(chain.output), (low, high))


def from_int8(rewrite: DataflowRewrite, result: relax.Expr, chain: Chain) -> relax.Expr:
    """Returns the composite's ``result`` in the type that the rest of the graph wants."""
    assert chain.output is not None
    if chain.output.dtype == "int8":
        return result
    value = rewrite.emit(result, chain.tail, "int8")
    value = rewrite.emit(relax.op.astype(value, "int16"), chain.tail, "wide", _TO_UINT8)
    value = rewrite.emit(relax.op.add(value, relax.const(UINT8_OFFSET, "int16")), chain.tail, "shifted", _TO_UINT8)
    return relax.op.astype(value, "uint8")
