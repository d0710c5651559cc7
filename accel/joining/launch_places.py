"""Places on the chip of launches that run as one, and the tables in DRAM that they share there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from accel.isa.decode import decode
from accel.isa.family import Family, PlacedLaunch, PlacesLaunches, ReadDram
from accel.joining.launch_parts import LaunchPart
from accel.program.program_model import Launch, Program, Segment
from accel.util.arrays import UInt32

_MOST_DRAM = 1 << 32  # bytes that a program may map
_BOUNDARY = 64  # bytes: rows of every memory of micro-ops and beats of every bus divide it
_TABLE = np.dtype("<u4")


@dataclass
class SharedTables:
    """Tables of micro-ops that launches share, behind all else that a program has in DRAM, up to ``top``."""

    program: Program
    segments: dict[str, Segment] = field(default_factory=dict)
    image: dict[str, UInt32] = field(default_factory=dict)
    top: int = 0

    def __post_init__(self) -> None:
        self.top = max(self.top, self.program.dram_bytes)

    def copy(self) -> "SharedTables":
        """Returns one to add tables to."""
        return replace(self, segments=dict(self.segments), image=dict(self.image))

    def take(self, other: "SharedTables") -> None:
        """Become another one, which began as this."""
        self.segments, self.image, self.top = other.segments, other.image, other.top

    def store(self, data: bytes) -> int:
        """Returns the address of a new table."""
        words, number = np.frombuffer(data, _TABLE), 0
        while (name := f"microops.{number}") in self.program.segments or name in self.segments:
            number += 1
        alignment = math.lcm(self.program.accelerator.dram.alignment_bytes, _BOUNDARY)
        address = -(-self.top // alignment) * alignment
        self.segments[name], self.image[name] = Segment(name, address, words.shape, str(words.dtype)), words
        self.top = address + -(-len(data) // alignment) * alignment
        return address

    def placed(self, part: LaunchPart, place: PlacedLaunch) -> LaunchPart:
        """Returns the part of a launch that has a place of its own."""
        names = [memory.name for memory in self.program.accelerator.memories]
        moved = {name: by for name, by in zip(names, place.moved.tolist(), strict=True) if by}
        tables = (name for name, segment in self.segments.items() if segment.address == place.table)
        return replace(part, moved=moved, table=next(tables, None))

    def put_into(self, program: Program) -> Program:
        """Returns a program with the tables that its launches walk, and without those that none does any more."""
        read = {name for step in program.steps for name in step.inputs}
        before = {name for step in self.program.steps for name in step.inputs}
        segments = {name: each for name, each in program.segments.items() if name in read or name not in before}
        new = {name: each for name, each in self.segments.items() if name in read}
        image = {name: each for name, each in program.image.items() if name in segments}
        image |= {name: self.image[name] for name in new}
        top = self.top if new else program.dram_bytes
        return replace(program, segments=segments | new, image=image, dram_bytes=top)


def placed_launches(
    program: Program, family: Family, launches: Sequence[Launch], read: ReadDram, tables: SharedTables
) -> Sequence[PlacedLaunch | None]:
    """Returns launches that may run as one at places of their own; None of each where they have none."""
    own = sum(program.segments[name].nbytes for launch in launches for name in launch.inputs[-1:])
    walk = all(_walks_table(program, launch) for launch in launches)
    room = not program.windows and tables.top + own + _BOUNDARY * len(launches) < _MOST_DRAM
    if not isinstance(family, PlacesLaunches) or len(launches) == 1 or not walk or not room:
        return [None] * len(launches)
    words = [program.words[launch.begin : launch.begin + launch.count] for launch in launches]
    decoded = [decode(program.accelerator, each, launch.begin) for each, launch in zip(words, launches, strict=True)]
    return family.placed_launches(decoded, read, tables.store)


def _walks_table(program: Program, launch: Launch) -> bool:
    """Whether the last input of a launch is a table of micro-ops, which no step makes."""
    table = program.segments[launch.inputs[-1]] if launch.inputs else None
    return table is not None and table.dtype == str(_TABLE) and table.name in program.constants
