"""Launches that become one on machines that order all accesses themselves: what is left to choose is what is sent when.

Of the first loads of a launch those that read no result of the launches before are sent first, as a unit does one after
the other. Where a family arranges instructions, those of all launches are arranged as one; what so comes among the
instructions of the launch before stands in its range, and its origin is the layer that it is for.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded, decode
from accel.isa.dram_stretches import Stretches
from accel.isa.family import Family, JoinsLaunches
from accel.isa.family_registry import arrangement_of
from accel.joining.early_loads import fill_apart
from accel.joining.launch_parts import MOST, LaunchPart, own_part
from accel.program.program_model import Launch, Program
from accel.util.arrays import Int64, Words

Decode = Callable[[Accelerator, Words, int], Decoded]
"""Decodes the words of a launch, the first of which has a place in the program."""


def ordered_parts(
    program: Program, family: Family, launches: Sequence[Launch], decoder: Decode = decode
) -> list[LaunchPart]:
    """Returns the parts of launches with no host step between them, which the machine runs as one."""
    found, row = list[LaunchPart](), list[LaunchPart]()
    written: list[Stretches] = []
    for launch in launches:
        if row and (launch.writes or sum(len(part.words) for part in row) + launch.count > MOST):
            found += _arranged(program, row)
            row, written = [], []
        decoded = decoder(program.accelerator, program.words[launch.begin : launch.begin + launch.count], launch.begin)
        own = own_part(program, launch, joined=bool(row))
        if row:
            order = _early_first(decoded, written, family)
            own = replace(own, words=own.words[order], origin=own.origin[order])
        row.append(own)
        written.append(Stretches.of(family.boxes(decoded).writes()))
    return [*found, *_arranged(program, row)]


def _early_first(decoded: Decoded, written: Sequence[Stretches], family: Family) -> Int64:
    """The places (n,) of a launch's instructions, of its first loads those that read nothing ``written`` first."""
    order, ahead = np.arange(len(decoded)), decoded.derived(_first_loads)
    first = order[: len(ahead)]
    if len(first) < 2 or not isinstance(family, JoinsLaunches):
        return order
    boxes, late = family.boxes(ahead), np.zeros(len(ahead), np.bool_)
    for stretches in written:
        late[boxes.instruction[stretches.meet(boxes)]] = True
    early = first[np.argsort(late, kind="stable")]
    if (early != first).any() and fill_apart(ahead, first, family, lambda _at, count: bytes(count)):
        order[: len(first)] = early
    return order


def _first_loads(decoded: Decoded) -> Decoded:
    """The instructions of a launch up to the first that is no load; of the rest nothing is asked."""
    instructions = decoded.accelerator.instructions
    loads = np.array([isinstance(each, Copy) and each.direction == "load" for each in instructions])[decoded.kind]
    return decoded.slice(0, len(decoded) if loads.all() else int(loads.argmin()))


def _arranged(program: Program, row: Sequence[LaunchPart]) -> Sequence[LaunchPart]:
    """Launches that run as one with their instructions as the family sends them.

    A part ends with the last of its own instructions. They stay as they are where a part would have none left.
    """
    arrange = arrangement_of(program.accelerator)
    if arrange is None or len(row) < 2:
        return row
    words, places = arrange(np.concatenate([part.words for part in row]))
    origin = np.concatenate([part.origin for part in row])[places]
    whose = np.repeat(np.arange(len(row)), [len(part.words) for part in row])[places]
    ends = [int(np.flatnonzero(whose == number)[-1]) + 1 for number in range(len(row))]
    if (np.diff([0, *ends]) <= 0).any():
        return row
    return [
        replace(part, words=words[begin:end], origin=origin[begin:end])
        for part, begin, end in zip(row, [0, *ends[:-1]], ends, strict=True)
    ]
