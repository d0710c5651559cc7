"""What the parts of a program must agree on; places are computed with Python's integers, which do not overflow."""

import math

import numpy as np

from accel.accelerator.document import Accelerator
from accel.errors import InvalidProgram
from accel.isa.registry import family_of
from accel.program import Launch, Program, Words


def read_words(data: bytes, accelerator: Accelerator) -> Words:
    """The words (instructions, word_bits / 64) of ``instructions.bin``.

    Raises:
        InvalidProgram: not whole instructions.
    """
    size = accelerator.word_bits // 8
    if size < 8 or len(data) % size:
        raise InvalidProgram(
            f"instructions.bin has {len(data)} bytes, not a whole number of {size}-byte instructions",
            field="instructions.bin",
        )
    return np.frombuffer(data, "<u8").astype(np.uint64).reshape(-1, size // 8)


def check_tokens(tokens: dict[str, int], accelerator: Accelerator) -> None:
    """Every queue exists, and its counter holds the tokens.

    Raises:
        InvalidProgram: ``field`` is ``initial_tokens.<queue>``.
    """
    names, sync = family_of(accelerator).token_queues(accelerator), accelerator.synchronisation
    limit = sync.limit if sync.kind == "tokens" else 0
    for name, count in tokens.items():
        field = f"initial_tokens.{name[:64]}"
        if name not in names:
            raise InvalidProgram(
                f"program.json, {field}: there is no such token queue; there are {', '.join(names) or 'none'}",
                field=field,
            )
        if not 0 <= count <= limit:
            raise InvalidProgram(
                f"program.json, {field}: {count} tokens; the queue's counter holds 0 to {limit}", field=field
            )


def check_program(program: Program) -> None:
    """Segments lie in DRAM and have the right contents, steps name segments and instructions that are there.

    Raises:
        InvalidProgram: ``field`` says where.
    """
    for segment in program.segments.values():
        size = np.dtype(segment.dtype).itemsize
        end = segment.address + math.prod(segment.shape) * size
        if end > program.dram_bytes or segment.address % size:
            raise InvalidProgram(
                f"segment {segment.name} lies at bytes {segment.address} to {end}; the DRAM has "
                f"{program.dram_bytes}, and elements must be aligned",
                field=f"segments.{segment.name}",
            )
    names = [*program.inputs, *program.outputs, *program.expected]
    for step in program.steps:
        names += [*step.inputs, *step.outputs]
        if isinstance(step, Launch) and step.begin + step.count > len(program.words):
            raise InvalidProgram(
                f"launch {step.name} ends at instruction {step.begin + step.count} of {len(program.words)}",
                field=f"steps.{step.name}",
            )
    unknown = [name for name in names if name not in program.segments]
    if unknown:
        raise InvalidProgram(f"no segment is called {unknown[0]}", field=f"segments.{unknown[0]}")
    _check_origin(program)
    check_tokens(program.initial_tokens, program.accelerator)


def _check_origin(program: Program) -> None:
    if len(program.origin) != len(program.words):
        raise InvalidProgram(
            f"origin.bin has {len(program.origin)} entries for {len(program.words)} instructions", field="origin.bin"
        )
    if len(program.origin) and not -1 <= program.origin.min() <= program.origin.max() < len(program.origins):
        raise InvalidProgram(
            f"origin.bin names an origin beyond the {len(program.origins)} there are", field="origin.bin"
        )
