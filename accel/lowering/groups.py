"""Grouped convolutions over tiles: small groups lie together, so that each lot of them fills whole tiles.

A depthwise convolution of 64 channels on tiles of 16 is four lots of sixteen groups, each a dense product whose weights
are zero between channels of different groups.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Lots:
    """``count`` lots of ``merged`` groups, each of ``inputs`` and ``outputs`` channels; the last may have fewer.

    With more than one lot both fill whole tiles.
    """

    count: int
    merged: int
    inputs: int
    outputs: int


def lots_of(groups: int, inputs: int, outputs: int, tile: tuple[int, int]) -> Lots:
    """The fewest groups a lot, given all input and output channels, and those of a tile (k, n)."""
    each = inputs // groups, outputs // groups
    merged = math.lcm(*(channels // math.gcd(size, channels) for size, channels in zip(each, tile, strict=True)))
    merged = min(merged, groups)
    return Lots(-(-groups // merged), merged, merged * each[0], merged * each[1])


def merged_weights(weights: npt.NDArray[np.int8], groups: int, lots: Lots) -> npt.NDArray[np.int8]:
    """Weights [O, C / groups, KH, KW] as those of ``lots``: [count * outputs, inputs, KH, KW].

    Zeros stand between the groups of a lot, and for the groups that the last lot lacks.
    """
    outputs, inputs = weights.shape[0] // groups, weights.shape[1]
    result = np.zeros((lots.count, lots.merged, outputs, lots.merged, inputs, *weights.shape[2:]), np.int8)
    group = np.arange(groups)
    lot, place = group // lots.merged, group % lots.merged
    result[lot, place, :, place] = weights.reshape(groups, outputs, *weights.shape[1:])
    return result.reshape(lots.count * lots.outputs, lots.inputs, *weights.shape[2:])
