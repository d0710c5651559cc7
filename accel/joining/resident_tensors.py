"""Tensors that stay on the chip from launch to launch, where the accelerator leaves results in a memory that it reads.

A result that a launch stores, and launches run in one with it load again, stays where these read it: its loads go, and
its stores too, unless somebody else reads it in DRAM. It is done where the row of launches takes fewer cycles for it,
or as many with fewer bytes of DRAM.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.accelerator.document import Accelerator
from accel.isa.decode import decode
from accel.isa.family import DramTensor, Family, KeepsResults, ResidentRow, ResidentTensor
from accel.program.program_model import HostStep, Launch, Program, Resident, joined_steps
from accel.util.arrays import Int32, Words

_WORK = 1 << 22  # instructions of all trials of a row


def can_keep(accelerator: Accelerator, family: Family) -> bool:
    """Returns whether results of launches may stay on its chip."""
    return isinstance(family, KeepsResults) and family.keeps_results(accelerator)


def keep_results(program: Program, family: Family, *, stored: bool = False) -> Program:
    """Returns the program in which results stay on the chip where that is faster, or moves less; the same otherwise.

    Args:
        program: its launches are joined where they can be.
        family: of its accelerator.
        stored: whether results that stay are stored all the same, for whoever looks at them.
    """
    if not can_keep(program.accelerator, family):
        return program
    rows = [
        _kept(program, steps, family, stored=stored) if not isinstance(steps, HostStep) else steps
        for steps in joined_steps(program.steps)
    ]
    residents = tuple(each for row in rows if isinstance(row, _Row) for each in row.residents)
    if not residents:
        return program
    steps, begin = list[Launch | HostStep](), 0
    for row in rows:
        if isinstance(row, HostStep):
            steps.append(row)
            continue
        for launch, count in zip(row.launches, row.counts, strict=True):
            steps.append(replace(launch, begin=begin, count=count))
            begin += count
    made = [row for row in rows if isinstance(row, _Row)]
    return replace(
        program,
        steps=tuple(steps),
        words=np.concatenate([row.words for row in made]),
        origin=np.concatenate([row.origin for row in made]),
        residents=residents,
    )


@dataclass(frozen=True)
class _Row:
    """Launches that run as one, the instructions of each, where they come from, and what stays of their results."""

    launches: Sequence[Launch]
    counts: Sequence[int]
    words: Words
    origin: Int32
    residents: Sequence[Resident]


def _kept(program: Program, launches: Sequence[Launch], family: Family, *, stored: bool) -> _Row:
    begin, end = launches[0].begin, launches[-1].begin + launches[-1].count
    counts = [launch.count for launch in launches]
    words, origin = program.words[begin:end], program.origin[begin:end]
    names, tensors = _tensors(program, launches, stored=stored)
    chosen = _chosen(program, words, tensors, family) if tensors else None
    if chosen is None:
        return _Row(launches, counts, words, origin, ())
    bounds = np.cumsum([0, *counts])
    own = np.diff(np.searchsorted(chosen.place, bounds)).tolist()
    residents = [_resident(names[each.number], each, launches) for each in chosen.residents]
    return _Row(launches, own, chosen.words, origin[chosen.place], residents)


def _tensors(program: Program, launches: Sequence[Launch], *, stored: bool) -> tuple[list[str], list[DramTensor]]:
    """Results of the launches that others of them read, and whether anybody else reads them in DRAM."""
    made = dict.fromkeys(name for launch in launches for name in launch.outputs)
    read = {name for launch in launches for name in launch.inputs}
    numbers = {id(launch) for launch in launches}
    elsewhere = {name for step in program.steps if id(step) not in numbers for name in step.inputs}
    names = [name for name in made if name in read and _apart(program, name)]
    return names, [
        DramTensor(
            program.segments[name].address,
            program.segments[name].address + program.segments[name].nbytes,
            stored or name in elsewhere or name in program.outputs,
        )
        for name in names
    ]


def _apart(program: Program, name: str) -> bool:
    """Whether no other segment has bytes of this one."""
    own = program.segments[name]
    begin, end = own.address, own.address + own.nbytes
    return not any(
        each.address < end and begin < each.address + each.nbytes
        for each in program.segments.values()
        if each is not own and each.nbytes
    )


def _chosen(program: Program, words: Words, tensors: Sequence[DramTensor], family: Family) -> ResidentRow | None:
    """The row in which those stay that make it better; None where none does.

    All are tried together first, then halves of what did not make it better.
    """
    assert isinstance(family, KeepsResults)
    residency = family.residency(decode(program.accelerator, words), tensors)
    if not residency.candidates:
        return None
    best, value = None, (_cycles(program.accelerator, words, family), 0)
    stay: tuple[int, ...] = ()
    left, work = [tuple(residency.candidates)], _WORK
    while left and work > 0:
        part = left.pop()
        tried = residency.rewritten((*stay, *part))
        work -= len(tried.words)
        worth = (_cycles(program.accelerator, tried.words, family), -sum(map(_saved, tried.residents)))
        if tried.residents and worth < value:
            best, value, stay = tried, worth, tuple(each.number for each in tried.residents)
        elif len(part) > 1:
            left += [part[len(part) // 2 :], part[: len(part) // 2]]
    return best


def _cycles(accelerator: Accelerator, words: Words, family: Family) -> int:
    return family.time(decode(accelerator, words), {}).cycles


def _saved(resident: ResidentTensor) -> int:
    return resident.bytes_not_read + resident.bytes_not_written


def _resident(name: str, found: ResidentTensor, launches: Sequence[Launch]) -> Resident:
    return Resident(
        segment=name,
        launches=tuple(_names(launches, name, made=True)),
        readers=tuple(_names(launches, name, made=False)),
        memory=found.memory,
        address=found.address,
        elements=found.elements,
        stored=found.stored,
        bytes_not_read=found.bytes_not_read,
        bytes_not_written=found.bytes_not_written,
    )


def _names(launches: Sequence[Launch], name: str, *, made: bool) -> Iterator[str]:
    return (launch.name for launch in launches if name in (launch.outputs if made else launch.inputs))
