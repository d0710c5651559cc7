"""Instruction words of a program that lies elsewhere in DRAM."""

from collections.abc import Iterator

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField, Copy, Layer
from accel.errors import InvalidProgram
from accel.isa.decode import Decoded
from accel.util.arrays import Int64, Words

_WORD = 64  # bits


def moved_words(decoded: Decoded, by: int, *, zero_is_none: bool) -> Words:
    """Returns the words (n, word_bits / 64) of a stream whose tensors lie ``by`` bytes further.

    ``zero_is_none``: nothing lies at address 0, which then says that there is no tensor, and stays.

    Raises:
        InvalidProgram: an address that its field cannot hold, or that counts more bytes than divide ``by``.
    """
    accelerator, words = decoded.accelerator, decoded.words.copy()
    for place, field, unit in set(_address_fields(accelerator)):
        rows = np.flatnonzero(decoded.kind == place)
        if by % unit:
            raise InvalidProgram(f"{field.name} counts {unit} bytes, and {by} is no multiple of it", field="base")
        _add(words, rows, field, by // unit, zero_is_none=zero_is_none)
    return words


def _address_fields(accelerator: Accelerator) -> Iterator[tuple[int, BitField, int]]:
    """The fields of addresses in DRAM: the instruction's place in the document, the field, the bytes that it counts."""
    places = {each.name: place for place, each in enumerate(accelerator.instructions)}
    for instruction in accelerator.instructions:
        named: list[tuple[str, int]] = []
        if isinstance(instruction, Copy):
            size = instruction.dram_bytes(accelerator.memory(instruction.memory))
            named = [(instruction.copy_fields.dram, size if instruction.dram_unit == "element" else 1)]
        elif isinstance(instruction, Layer):
            operands = instruction.operands.items()
            named = [
                (operand.dram, instruction.unit_bytes(name, accelerator.memory(operand.memory)))
                for name, operand in operands
                if operand.dram is not None
            ]
        for name, unit in named:
            word = name.rpartition(".")[0] or instruction.name
            yield places[word], accelerator.field(instruction, name), unit


def _add(words: Words, rows: Int64, field: BitField, number: int, *, zero_is_none: bool) -> None:
    column, shift = field.lsb // _WORD, np.uint64(field.lsb % _WORD)
    mask = np.uint64((1 << field.bits) - 1)
    values = words[rows, column] >> shift & mask
    rows = rows[values != 0] if zero_is_none else rows
    values = values[values != 0] if zero_is_none else values
    most = int(values.max(initial=np.uint64(0))) + number
    if len(values) and most > int(mask):
        raise InvalidProgram(f"{field.name} has {field.bits} bits, and would hold {most}", field="base")
    words[rows, column] = words[rows, column] & ~(mask << shift) | values + np.uint64(number) << shift
