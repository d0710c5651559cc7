"""Columns to instruction words, for any accelerator document: the inverse of decoding, bit for bit."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField, Instruction
from accel.errors import Diagnosis, SimulationError
from accel.isa.decode import Decoded, decode, padding_fields
from accel.util.arrays import Int64, Words


def of_columns(
    accelerator: Accelerator, kind: npt.NDArray[np.int16], columns: Mapping[str, Int64], rest: Words | None = None
) -> Decoded:
    """Instructions of the sorts ``kind`` (n,) whose fields have the values ``columns``, (n,) each.

    ``rest`` (n, word_bits / 64) are the bits that no field covers, by default none.

    Raises:
        SimulationError: a value does not fit its field.
    """
    return decode(accelerator, _words(accelerator, kind, columns, rest))


def encode(decoded: Decoded) -> Words:
    """The words (n, word_bits / 64) of ``decoded`` with its columns as they are now.

    Raises:
        SimulationError: a value does not fit its field.
    """
    return _words(decoded.accelerator, decoded.kind, decoded.columns, decoded.rest)


def _words(
    accelerator: Accelerator, kind: npt.NDArray[np.int16], columns: Mapping[str, Int64], rest: Words | None
) -> Words:
    words = np.zeros((len(kind), accelerator.word_bits // 64), np.uint64) if rest is None else rest.copy()
    for index, instruction in enumerate(accelerator.instructions):
        rows = np.flatnonzero(kind == index)
        for field in instruction.fields:
            word, lsb = divmod(field.lsb, 64)
            words[rows, word] |= _bits(instruction, field, columns[field.name][rows], rows) << np.uint64(lsb)
    return words


def _bits(instruction: Instruction, field: BitField, values: Int64, rows: Int64) -> Words:
    if field.value is not None:
        values = np.full(len(rows), field.value, np.int64)
    # a column has the bits of a field of 64
    low, high = field.limits if field.bits < 64 else (-(1 << 63), 1 << 63)
    wrong = np.flatnonzero((values < low) | (values >= high))
    if len(wrong):
        at, value = int(rows[wrong[0]]), int(values[wrong[0]])
        kind: Diagnosis = "padding" if field.name in padding_fields(instruction) else "field-range"
        message = f"{field.name} = {value} is outside [{low}, {high}), the range of its {field.bits} bits"
        raise SimulationError(
            f"instruction {at} ({instruction.name}): {message}", field=f"instruction:{at}", kind=kind, instruction=at
        )
    return values.astype(np.uint64) & np.uint64((1 << field.bits) - 1)
