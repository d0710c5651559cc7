"""What a launch has of the instructions of a program, before and after launches are joined."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accel.program.program_model import Launch, Program
from accel.util.arrays import Int32, Words

MOST = 1 << 18
"""Instructions that run as one: they are decoded and timed together."""


@dataclass(frozen=True)
class LaunchPart:
    """The instructions of a launch, and where they come from; whether it runs on from the one before it.

    ``moved`` and ``table``, the segment with its micro-ops, are those of a launch that has a place of its own.
    """

    words: Words
    origin: Int32
    joined: bool
    moved: Mapping[str, int] = field(default_factory=dict)
    table: str | None = None

    def of(self, launch: Launch) -> Launch:
        """Returns the launch with these instructions; micro-ops come last of its inputs."""
        inputs = launch.inputs if self.table is None else (*launch.inputs[:-1], self.table)
        return replace(launch, count=len(self.words), joined=self.joined, moved=self.moved, inputs=inputs)


def own_part(program: Program, launch: Launch, *, joined: bool) -> LaunchPart:
    """Returns a launch's instructions as the program has them."""
    place = slice(launch.begin, launch.begin + launch.count)
    return LaunchPart(program.words[place], program.origin[place], joined)
