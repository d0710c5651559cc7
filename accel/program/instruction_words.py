"""The instructions of a program as files hold them, and where a stream is cut into launches."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Instruction
from accel.errors import InvalidProgram, ProgramTooLarge
from accel.program.program_document import MOST_LAUNCHES
from accel.program.program_model import MOST_INSTRUCTIONS, Launch
from accel.util.arrays import Words

_ROCC_WORDS = 3  # funct, rs1, rs2
_MOST_TEXT = 1 << 27  # bytes


def read_words(data: bytes, accelerator: Accelerator) -> Words:
    """The words (instructions, word_bits / 64) of ``instructions.bin``.

    Raises:
        InvalidProgram: not whole instructions.
        ProgramTooLarge: more than ``MOST_INSTRUCTIONS``.
    """
    size = accelerator.word_bits // 8
    if size < 8 or len(data) % size:
        raise InvalidProgram(
            f"instructions.bin has {len(data)} bytes, not a whole number of {size}-byte instructions",
            field="instructions.bin",
        )
    if len(data) // size > MOST_INSTRUCTIONS:
        raise ProgramTooLarge(
            f"instructions.bin has {len(data) // size} instructions; the limit is {MOST_INSTRUCTIONS}",
            field="instructions.bin",
        )
    return np.frombuffer(data, "<u8").astype(np.uint64).reshape(-1, size // 8)


def read_text_words(data: bytes, accelerator: Accelerator) -> Words:
    """The words (instructions, 3) of ``instructions.txt``: a line each, ``funct rs1 rs2``.

    ``funct`` is decimal, the operands are hexadecimal, with 0x or without; ``#`` begins a comment.

    Raises:
        InvalidProgram: the line that is none, or instructions of another size.
    """
    name = "instructions.txt"
    if accelerator.word_bits != 64 * _ROCC_WORDS:
        raise InvalidProgram(
            f"{name}: instructions of {accelerator.name} are no funct, rs1 and rs2; give instructions.bin", field=name
        )
    if len(data) > _MOST_TEXT:
        raise ProgramTooLarge(f"{name} has {len(data)} bytes; at most {_MOST_TEXT}", field=name)
    rows: list[tuple[int, int, int]] = []
    for number, line in enumerate(data.decode("ascii", "replace").splitlines(), 1):
        fields = line.partition("#")[0].split()
        if fields:
            rows.append(_text_row(fields, number))
    return np.array(rows, np.uint64).reshape(-1, _ROCC_WORDS)


def _text_row(fields: list[str], number: int) -> tuple[int, int, int]:
    try:
        funct, rs1, rs2 = fields
        row = int(funct), int(rs1, 16), int(rs2, 16)
    except ValueError:
        row = -1, -1, -1
    if not all(0 <= word < 1 << 64 for word in row):
        raise InvalidProgram(
            f"instructions.txt, line {number}: it is no funct, decimal, with rs1 and rs2, 64 bits each, hexadecimal",
            field="instructions.txt",
        )
    return row


def launches(words: Words, accelerator: Accelerator, written: Mapping[str, int]) -> tuple[Launch, ...]:
    """The stream cut after each FINISH, and before each instruction that the host writes DRAM before.

    A rest without FINISH, or a stream that has none, is a launch too.

    Args:
        words: the instructions (n, words).
        accelerator: whose FINISH it is.
        written: the index of the instruction before which a segment is written; 0: before the run.

    Raises:
        InvalidProgram: more launches than there may be, or no such instruction.
    """
    finish = accelerator.finish
    at = np.flatnonzero(_matches(words, finish)) + 1 if finish is not None else np.zeros(0, np.int64)
    before = {name: index for name, index in written.items() if index}
    late = [index for index in before.values() if index >= len(words)]
    if late:
        raise InvalidProgram(
            f"program.json, dram: an entry is written before instruction {late[0]}; there are {len(words)}",
            field="dram",
        )
    ends = sorted({*at[: MOST_LAUNCHES + 1].tolist(), *before.values(), len(words)})
    if len(ends) > MOST_LAUNCHES:
        raise InvalidProgram(f"instructions.bin has more than {MOST_LAUNCHES} launches", field="instructions.bin")
    names: dict[int, list[str]] = {}
    for name, index in before.items():
        names.setdefault(index, []).append(name)
    return tuple(
        Launch(f"launch{index}", "program", (), begin, end - begin, 0, (), (), tuple(names.get(begin, ())))
        for index, (begin, end) in enumerate(pairwise([0, *ends]))
    )


def _matches(words: Words, instruction: Instruction) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether the constant fields of ``instruction`` hold, for each of ``words`` (n, words)."""
    result = np.ones(len(words), np.bool_)
    for field in instruction.fields:
        if field.value is not None:
            word, lsb = divmod(field.lsb, 64)
            mask = np.uint64((1 << field.bits) - 1)
            result &= (words[:, word] >> np.uint64(lsb)) & mask == np.uint64(field.value)
    return result
