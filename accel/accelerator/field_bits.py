"""Fields of instruction words, written for many instructions at once."""

import numpy as np

from accel.accelerator.instructions import BitField
from accel.util.arrays import Int64, Words

WORD_BITS = 64


def put_field(words: Words, rows: Int64 | int, field: BitField, values: Int64 | int) -> None:
    """Writes the ``values`` (m,), or one for all, into a field of the instructions ``rows`` (m,) of ``words``.

    Raises:
        ValueError: a value that the field cannot hold.
    """
    if not fits_field(field, values):
        raise ValueError(f"{field.name} has {field.bits} bits")
    put_bits(words, rows, field, values)


def put_bits(words: Words, rows: Int64 | int, field: BitField, values: Int64 | int) -> None:
    """Writes the low bits of ``values`` as :func:`put_field` does, for callers that have compared them with limits."""
    number, shift = divmod(field.lsb, WORD_BITS)
    low = np.uint64((1 << field.bits) - 1)
    bits = (np.asarray(values).astype(np.uint64) & low) << np.uint64(shift)
    words[rows, number] = (words[rows, number] & ~(low << np.uint64(shift))) | bits


def fits_field(field: BitField, values: Int64 | int) -> bool:
    """Returns whether a field can hold all the values."""
    low, high = field.limits
    return not np.size(values) or bool(low <= np.min(values) and np.max(values) < high)
