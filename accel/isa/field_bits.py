"""Fields of instruction words, written for many instructions at once."""

import numpy as np

from accel.accelerator.instructions import BitField
from accel.util.arrays import Int64, Words

_WORD = 64  # bits


def put_field(words: Words, rows: Int64, field: BitField, values: Int64 | int) -> None:
    """Write the ``values`` (m,), or one for all, into a field of the instructions ``rows`` (m,) of ``words``.

    Raises:
        ValueError: a value that the field cannot hold.
    """
    number, shift = divmod(field.lsb, _WORD)
    if np.size(values) and not 0 <= np.min(values) <= np.max(values) < 1 << field.bits:
        raise ValueError(f"{field.name} has {field.bits} bits")
    mask = np.uint64(((1 << field.bits) - 1) << shift)
    words[rows, number] = (words[rows, number] & ~mask) | (np.asarray(values, np.uint64) << np.uint64(shift))
