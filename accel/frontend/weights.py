"""Quantised weights as int8, whatever their type and zero points were."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.frontend.dataflow import Array, Quantised

INT8 = np.iinfo(np.int8)
UINT8_OFFSET = 128


@dataclass(frozen=True)
class Weights:
    """The weights ``values - offset``, along ``axis`` of output channels.

    If int8 cannot hold the weights minus their zero points, ``offset`` is what must still be taken off, int64
    [O], and ``values`` has one output channel more, all ones, whose result is the sum of the data: the offset's
    part of output channel o is ``offset[o]`` times that sum. Else ``offset`` is None.
    """

    values: npt.NDArray[np.int8]
    axis: int
    offset: npt.NDArray[np.int64] | None

    @property
    def channels(self) -> int:
        """Output channels of the model."""
        return int(self.values.shape[self.axis]) - (self.offset is not None)

    @property
    def depth(self) -> int:
        """Weights of one output channel."""
        return int(self.values.size) // int(self.values.shape[self.axis])

    def sums(self) -> npt.NDArray[np.int64]:
        """Sum of the weights of each output channel, zero points taken off; int64 [O]."""
        total: npt.NDArray[np.int64] = self._by_channel().sum(1)
        return total if self.offset is None else total - self.depth * self.offset

    def magnitude(self) -> npt.NDArray[np.int64]:
        """For each output channel, a bound on every partial result for int8 data; int64 [O]."""
        total: npt.NDArray[np.int64] = np.abs(self._by_channel()).sum(1)
        if self.offset is not None:
            total = total + self.depth * np.abs(self.offset)
        return total * -int(INT8.min)

    def _by_channel(self) -> npt.NDArray[np.int64]:
        rows = np.moveaxis(self.values, self.axis, 0).reshape(self.values.shape[self.axis], -1)
        return rows[: self.channels].astype(np.int64)


def zero_point_as_int8(x: Quantised) -> int:
    """The zero point of data, one for all of them, once uint8 has become int8."""
    return int(x.zero_point) - (UINT8_OFFSET if x.dtype == "uint8" else 0)


def integer_weights(value: Array, quantised: Quantised, axis: int, groups: int) -> Weights | None:
    """The constant ``value`` of ``quantised`` as weights with output channels along ``axis``.

    None if their scale varies along another axis, or if they need an offset and the operator has groups.
    """
    if quantised.dtype not in ("int8", "uint8") or not (quantised.per_tensor or quantised.axis % value.ndim == axis):
        return None
    shape = [1] * value.ndim
    shape[axis] = -1
    centred = value.astype(np.int64) - quantised.zero_point.reshape(shape)
    if centred.min() >= INT8.min and centred.max() <= INT8.max:
        return Weights(centred.astype(np.int8), axis, None)
    if groups != 1:
        return None
    shift = UINT8_OFFSET if quantised.dtype == "uint8" else 0
    values = (value.astype(np.int64) - shift).astype(np.int8)
    ones = np.ones_like(values.take([0], axis))
    offset = np.broadcast_to(quantised.zero_point - shift, value.shape[axis]).astype(np.int64)
    return Weights(np.concatenate([values, ones], axis), axis, offset)
