"""A program for a stream of inputs: its launches again and again, each input's behind those of the one before."""

from dataclasses import replace

from accel.errors import CompiledTooLarge
from accel.isa.family import Family
from accel.joining.joined_launches import join_launches
from accel.program.program_model import Launch, Program

MOST_STREAMED = 1 << 24
"""Instructions of a stream, whose times are kept until it has ended."""


def stream_program(program: Program, inputs: int, family: Family, *, join: bool) -> Program:
    """Returns the program with its launches, and what the host does between them, once for each of ``inputs``.

    What the host does before the first launch is done once, and what it does behind the last: it works for other inputs
    while the accelerator runs. All inputs are in the same buffers: what one writes while the one before still reads it
    is ordered as between layers.

    Args:
        program: what runs for one input, its launches apart.
        inputs: how many there are.
        family: of the accelerator.
        join: whether launches run on into one another, and into those of the next input, where the accelerator can.

    Raises:
        CompiledTooLarge: they are more instructions than a stream may have.
    """
    if inputs * len(program.words) > MOST_STREAMED:
        raise CompiledTooLarge(
            f"{inputs} inputs are {inputs * len(program.words)} instructions; a stream has at most {MOST_STREAMED}",
            field="options.repeat",
        )
    steps = program.steps
    launches = [place for place, step in enumerate(steps) if isinstance(step, Launch)]
    if not launches:
        return program
    first, end = launches[0], launches[-1] + 1
    repeated = replace(program, steps=(*steps[:first], *steps[first:end] * inputs, *steps[end:]))
    return join_launches(repeated, family) if join else repeated
