"""Softmax in I-BERT's integers: the constants for numbers of a scale, and how far what they make is off.

exp of a number from -ln 2 to 0 is a parabola, and halvings do the rest (Kim et al., "I-BERT: Integer-only BERT
Quantization", 2021). The constants lose what rounding takes of them: the more, the coarser the scale.
"""

import math

import numpy as np

from accel.region.row_softmax import INVERSE_BITS, UNIT, IntegerSoftmax
from accel.util.arrays import Float64, Int64

_A, _B, _C = 0.3585, 1.353, 0.344  # exp(p) is near A * ((p + B)**2 + C / A), p from -ln 2 to 0
_MOST_HALVINGS = 31
_INT32_MAX = (1 << 31) - 1
_WEIGHTS = range(1, 128)
_STEPS = np.arange(256)  # differences of int8
_UNEVEN = 1.0  # steps that the largest result may be off, as its unit is 127 a power of two
_OCTAVES = range(8)


def octaves_of(scale: float, zero_point: int) -> int | str:
    """Returns the octaves of softmax whose results are worth ``scale``; or why stores leave no such results."""
    if zero_point:
        return f"leave 0 for 0, and the zero point of its result is {zero_point}"
    for octaves in _OCTAVES:
        if abs(UNIT * 2**octaves * scale - 1) * UNIT <= _UNEVEN:
            return octaves
    return f"are worth 1/127 times a power of two, and the scale of its result is {scale:.6g}"


def softmax_of_integers(scale: float, columns: int, octaves: int) -> IntegerSoftmax | str:
    """Returns the integers of least error for int8 worth ``scale``, of the least weight of equally near ones.

    Args:
        scale: what a step of the data is worth.
        columns: of a row.
        octaves: what a result is more than 127 times softmax.
    """
    if scale * _STEPS[-1] / math.log(2) + octaves > _MOST_HALVINGS:
        most = (_MOST_HALVINGS - octaves) * math.log(2) / _STEPS[-1]
        return (
            f"halve {_MOST_HALVINGS} times at most, which takes data worth up to {most:.4f}, and these are {scale:.6g}"
        )
    found = [(_error(each, scale), each) for weight in _WEIGHTS if (each := _constants(scale, weight, octaves))]
    held = [(error, each) for error, each in found if _holds(each, columns)]
    if not held:
        return "are beyond int32"
    return min(held, key=lambda each: (each[0], each[1].weight))[1]


def _constants(scale: float, weight: int, octaves: int) -> IntegerSoftmax | None:
    """The constants for weighted numbers; None where they are so coarse that there are none."""
    unit = scale / weight
    ln2 = round(math.log(2) / unit)
    if ln2 < 1:
        return None
    b, c = round(_B / unit), round(_C / _A / unit**2)
    return IntegerSoftmax(weight, ln2, (1 << INVERSE_BITS) // ln2, b, c, octaves)


def exponentials(below: Int64, softmax: IntegerSoftmax) -> Int64:
    """Returns the integers of exp of numbers that are so far ``below`` 0, in units of the constants."""
    halvings = below * softmax.inverse >> INVERSE_BITS
    return np.asarray(((halvings * softmax.ln2 - below + softmax.b) ** 2 + softmax.c) >> halvings)


def _holds(softmax: IntegerSoftmax, columns: int) -> bool:
    """Whether int32 holds the sum of a row, and no number is halved more often than it has bits."""
    farthest = int(_STEPS[-1]) * softmax.weight - softmax.offset
    halvings = farthest * softmax.inverse >> INVERSE_BITS
    largest = int(exponentials(np.arange(farthest + 1), softmax).max()) if halvings <= _MOST_HALVINGS else _INT32_MAX
    return halvings <= _MOST_HALVINGS and largest * columns <= _INT32_MAX and farthest * softmax.inverse <= _INT32_MAX


def _error(softmax: IntegerSoftmax, scale: float) -> float:
    """How far the exponentials of differences of int8 are off, as a share of that of 0."""
    found: Float64 = exponentials(_STEPS * softmax.weight, softmax) / float(softmax.b**2 + softmax.c)
    return float(np.abs(found - np.exp(-_STEPS * scale)).max())
