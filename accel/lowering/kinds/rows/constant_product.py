"""A number as the product of a row of data and a matrix of weights: what a contraction adds to each accumulator."""

import numpy as np

from accel.accelerator.contraction import Contraction
from accel.util.arrays import Int8

_MOST = 127  # of int8, both ways


def largest_product(gemm: Contraction) -> int:
    """Returns the largest number that :func:`constant_product` makes."""
    return _MOST * _MOST * (gemm.in_channels - 1) + _MOST - 1


def constant_product(number: int, gemm: Contraction) -> tuple[Int8, Int8]:
    """Returns the data ``[*tile]``, 1 and then 127s, and the weights ``[*tile of weights]``, alike in each channel.

    The first channel of the data takes the remainder by 127, the others as much of the quotient as they hold.
    """
    sign, size = (-1 if number < 0 else 1), abs(number)
    quotient, remainder = divmod(size, _MOST)
    shares = np.zeros(gemm.in_channels, np.int64)
    shares[0] = remainder
    for channel in range(1, gemm.in_channels):
        shares[channel] = min(quotient, _MOST)
        quotient -= shares[channel]
    assert not quotient, number
    data = np.full(gemm.data.shape, _MOST, np.int8)
    data[_first(gemm.data.axes)] = 1
    spread = np.expand_dims(sign * shares, gemm.weights.axes.index("n"))
    return data, np.broadcast_to(spread, gemm.weights.shape).astype(np.int8)


def _first(axes: tuple[str, str]) -> tuple[slice | int, ...]:
    """The first channel of a tile of data."""
    return tuple(0 if axis == "k" else slice(None) for axis in axes)
