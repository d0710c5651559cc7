"""What a launch has of the instructions of a program, before and after launches are joined."""

from dataclasses import dataclass

from accel.program.program_model import Launch, Program
from accel.util.arrays import Int32, Words

MOST = 1 << 18
"""Instructions that run as one: they are decoded and timed together."""


@dataclass(frozen=True)
class LaunchPart:
    """The instructions of a launch, and where they come from; whether it runs on from the one before it."""

    words: Words
    origin: Int32
    joined: bool


def own_part(program: Program, launch: Launch, *, joined: bool) -> LaunchPart:
    """Returns a launch's instructions as the program has them."""
    place = slice(launch.begin, launch.begin + launch.count)
    return LaunchPart(program.words[place], program.origin[place], joined)
