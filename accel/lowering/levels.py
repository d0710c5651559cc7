"""Weights of an addition that int8 cannot hold, as an upper and a lower part of 7 bits.

``a * m + b * n`` is then two sums with int8 weights, the first shifted left before the second is added to it.
"""

LEVEL_BITS = 7
_WEIGHT_MAX = 127

Levels = tuple[tuple[int, int], ...]


def levels_of(factors: tuple[int, int]) -> Levels | None:
    """The int8 weights that ``factors``, which are positive, are made of; None if two levels do not reach."""
    if max(factors) <= _WEIGHT_MAX:
        return (factors,)
    upper = [(factor + (1 << LEVEL_BITS - 1)) >> LEVEL_BITS for factor in factors]
    lower = [factor - (part << LEVEL_BITS) for factor, part in zip(factors, upper, strict=True)]
    return ((upper[0], upper[1]), (lower[0], lower[1])) if max(upper) <= _WEIGHT_MAX else None
