"""Quantised weights as int8, whatever their type and zero points were.

A weight minus its zero point may take 9 bits. It is then the sum of int8 parts, and as many input channels as have
such weights are there again, one further time for each part: ``x (a + b) = x a + x b``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.frontend.integer.dataflow import Array, Quantised

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
        """Sum of the weights of each output channel; int64 [O]."""
        total: npt.NDArray[np.int64] = self._by_channel().sum(1, np.int64)
        return total

    def magnitude(self) -> npt.NDArray[np.int64]:
        """For each output channel, a bound on every partial result for int8 data; int64 [O]."""
        rows = self._by_channel()
        # the least of int8 has no absolute value in int8
        total: npt.NDArray[np.int64] = np.maximum(rows, 0).sum(1, np.int64) - np.minimum(rows, 0).sum(1, np.int64)
        return total * -int(INT8.min)

    def lanes(self, groups: int) -> npt.NDArray[np.int64]:
        """The model's input channel that each input channel of the weights is, over all groups."""
        of_group = np.array([*range(self.inputs), *self.repeated], np.int64)
        return (np.arange(groups)[:, None] * self.inputs + of_group).ravel()

    def _by_channel(self) -> npt.NDArray[np.int8]:
        return np.moveaxis(self.values, self.axis, 0).reshape(self.channels, -1)


def zero_point_as_int8(x: Quantised) -> int:
    """The zero point of data, one for all of them, once uint8 has become int8."""
    return int(x.zero_point) - (UINT8_OFFSET if x.dtype == "uint8" else 0)


def integer_weights(value: Array, quantised: Quantised, axis: int) -> Weights | None:
    """The constant ``value`` of ``quantised`` as weights with output channels along ``axis``, 0 or 1.

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
