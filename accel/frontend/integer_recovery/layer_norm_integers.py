"""Layer norm in the integers of a store: the weights for results of a scale, and what they lose.

A deviation is cut to whole units, so that what it is of has as large a weight as fits.
"""

from accel.region.row_layer_norm import LARGEST_STORED, LARGEST_SUMMED, IntegerLayerNorm

_LEVELS = 127
_LARGEST = 128  # deviations of int8 from any mean lie within twice that, and their mean square within its square
_INT32_MAX = (1 << 31) - 1
_OFF = 0.5  # steps that the largest result may be off, as the unit is a quotient of two weights
_EPSILON = 0.25  # of the square of a step of the data: what is added to a variance may be no more


def layer_norm_of_integers(scale: float, columns: int) -> IntegerLayerNorm | None:
    """Returns the weights of rows of so many columns whose results are worth ``scale``; None if there are none.

    Of those that are near enough what is summed has the largest weight.
    """
    most = min(LARGEST_SUMMED, int((_INT32_MAX / max(columns, 1)) ** 0.5 / _LARGEST))
    for summed in range(most, 0, -1):
        stored = round(summed / scale)
        if 1 <= stored <= LARGEST_STORED and abs(stored * scale / summed - 1) * _LEVELS <= _OFF:
            return IntegerLayerNorm(stored, summed)
    return None


def epsilon_counts(epsilon: float, scale: float) -> bool:
    """Returns whether what a norm adds to variances is more than the integers of data worth ``scale`` can pass over."""
    return epsilon > _EPSILON * scale * scale
