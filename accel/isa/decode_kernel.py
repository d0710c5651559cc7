"""Decoding as one pass over the words; :mod:`accel.isa.decode` makes the arrays from the document."""

import numpy as np
import numpy.typing as npt

from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Bytes, Int64, Words

# columns of the fields
FIELD = 5
COLUMN, WORD, UP, DOWN, SIGNED = range(FIELD)


@compiled
def classify_words(words: Words, masks: Words, values: Words, kind: npt.NDArray[np.int16]) -> int:
    """Set ``kind`` (n,) to the first row of ``masks`` and ``values`` (kinds, words) that holds for each instruction.

    Returns the first instruction for which none does, or n.
    """
    for row in range(len(words)):
        found = -1
        for index in range(len(masks)):
            word = 0
            while word < masks.shape[1] and words[row, word] & masks[index, word] == values[index, word]:
                word += 1
            if word == masks.shape[1]:
                found = index
                break
        if found < 0:
            return row
        kind[row] = found
    return len(words)


@compiled
def _field(words: Words, row: int, fields: Int64, field: int) -> int:
    """The value of a field of an instruction."""
    shifted = words[row, fields[field, WORD]] << np.uint64(fields[field, UP])
    if fields[field, SIGNED]:
        return int(np.int64(shifted) >> fields[field, DOWN])
    return int(shifted >> np.uint64(fields[field, DOWN]))


@compiled
def split_fields(
    kind: npt.NDArray[np.int16], fields: Int64, starts: Int64, covered: Words, columns: Int64, words: Words
) -> None:
    """Fill ``columns`` (columns, n), which are zero, and leave in ``words`` (n, words) the bits that no field covers.

    Kind k has the rows ``[starts[k], starts[k + 1])`` of ``fields``; each says which bits of which word go to which
    column: shifted left by UP, then right by DOWN. Its fields cover the bits ``covered[k]``.
    """
    for row in range(len(words)):
        of = kind[row]
        for field in range(starts[of], starts[of + 1]):
            columns[fields[field, COLUMN], row] = _field(words, row, fields, field)
        for word in range(words.shape[1]):
            words[row, word] &= ~covered[of, word]


@compiled
def limit_fields(
    kind: npt.NDArray[np.int16], fields: Int64, starts: Int64, words: Words, low: Int64, high: Int64
) -> None:
    """Lower ``low`` and raise ``high`` (columns,) to the least and the greatest value of each column's field.

    They are as :func:`split_fields` has them, but of the rows whose kind has the field alone.
    """
    for row in range(len(words)):
        of = kind[row]
        for field in range(starts[of], starts[of + 1]):
            value = _field(words, row, fields, field)
            column = fields[field, COLUMN]
            low[column] = min(low[column], value)
            high[column] = max(high[column], value)


@compiled
def pack_fields(
    kind: npt.NDArray[np.int16], fields: Int64, starts: Int64, words: Words, places: Int64, records: Bytes
) -> None:
    """Write each field into the record of its instruction, (n, bytes) which are zero, with the lowest byte first.

    ``places`` (columns, 2) are the first byte of each column's field in a record, and how many it has; 0: none.
    """
    for row in range(len(words)):
        of = kind[row]
        for field in range(starts[of], starts[of + 1]):
            value, column = _field(words, row, fields, field), fields[field, COLUMN]
            first = places[column, 0]
            for byte in range(places[column, 1]):
                records[row, first + byte] = value >> 8 * byte
