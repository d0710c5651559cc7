"""Tensors that stay on the chip from launch to launch, where the accelerator leaves results in a memory that it reads.

A result that a launch stores, and launches run in one with it load again, stays where these read it: its loads go, and
its stores too, unless somebody else reads it in DRAM. It is done where the row of launches takes fewer cycles for it,
or as many with fewer bytes of DRAM.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from accel.accelerator.document import Accelerator
from accel.isa.decode import decode
from accel.isa.family import DramTensor, Family, KeepsResults, ResidentRow, ResidentTensor
from accel.joining.depth_first import tiled_row
from accel.joining.row_trials import RowTrials
from accel.joining.striped_trials import StripedTrials
from accel.program.program_model import HostStep, Launch, Program, Resident, StripedChain, joined_steps
from accel.util.arrays import Int32, Words

Preference = Literal["auto", "always", "off"]
_MOST_STRIPED = 1 << 15  # instructions of a row that is tried in stripes


def can_keep(accelerator: Accelerator, family: Family) -> bool:
    """Returns whether results of launches may stay on its chip."""
    return isinstance(family, KeepsResults) and family.keeps_results(accelerator)


def keep_results(
    program: Program, family: Family, *, stored: bool = False, depth_first: Preference = "auto"
) -> Program:
    """Returns the program in which results stay on the chip where that is faster, or moves less; the same otherwise.

    Args:
        program: its launches are joined where they can be.
        family: of its accelerator.
        stored: whether results that stay are stored all the same, for whoever looks at them.
        depth_first: whether launches may run in stripes, one behind the other: where that is better still
            (``auto``), wherever fewer bytes are moved (``always``), or not at all (``off``).
    """
    if not can_keep(program.accelerator, family):
        return program
    rows = [
        _kept(program, steps, family, stored=stored, depth_first=depth_first)
        if not isinstance(steps, HostStep)
        else steps
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
        striped=tuple(each for row in made for each in row.striped),
    )


@dataclass(frozen=True)
class _Row:
    """Launches that run as one, the instructions of each, where they come from, and what stays of their results."""

    launches: Sequence[Launch]
    counts: Sequence[int]
    words: Words
    origin: Int32
    residents: Sequence[Resident]
    striped: tuple[StripedChain, ...] = ()


def _kept(
    program: Program, launches: Sequence[Launch], family: Family, *, stored: bool, depth_first: Preference
) -> _Row:
    begin, end = launches[0].begin, launches[-1].begin + launches[-1].count
    counts = [launch.count for launch in launches]
    words, origin = program.words[begin:end], program.origin[begin:end]
    names, tensors = _tensors(program, launches, stored=stored)
    row = _Row(launches, counts, words, origin, ())
    if not tensors:
        return row
    trials = RowTrials(program.accelerator, family, tensors)
    chosen = trials.chosen(words)
    striped = tuple[StripedChain, ...]()
    if depth_first != "off" and not _fit(chosen, names) and len(words) <= _MOST_STRIPED:
        assert isinstance(family, KeepsResults)
        decoded = decode(program.accelerator, words)
        tiled = tiled_row(decoded, launches, program.segments, family, family.boxes(decoded))
        if tiled is not None:
            uses, by_bytes = _uses(launches, names), depth_first == "always"
            search = StripedTrials(trials, tiled, words, chosen, uses, by_bytes=by_bytes)
            found = search.best()
            if found is not None:
                chosen, order = found
                row = _Row(order.launches, order.counts, tiled.words(order.place), origin[order.place], ())
                striped = search.chains
    if chosen is None:
        return row
    own = np.diff(np.searchsorted(chosen.place, np.cumsum([0, *row.counts]))).tolist()
    residents = [_resident(names[each.number], each, row.launches) for each in chosen.residents]
    return _Row(row.launches, own, chosen.words, row.origin[chosen.place], residents, striped)


def _fit(chosen: ResidentRow | None, names: Sequence[str]) -> bool:
    """Whether all results that could stay do."""
    return chosen is not None and len(chosen.residents) == len(names)


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
            program.segments[name].shape,
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


def _uses(launches: Sequence[Launch], names: Sequence[str]) -> list[tuple[int, int]]:
    """The first launch that makes each tensor, and the last that reads it."""
    return [
        (
            next(number for number, launch in enumerate(launches) if name in launch.outputs),
            max(number for number, launch in enumerate(launches) if name in launch.inputs),
        )
        for name in names
    ]


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


def nodes_in_dram(program: Program) -> frozenset[str]:
    """Returns the nodes of launches around results that go to DRAM, and are read there by launches of their row.

    Those are the launches from the first that makes it to the last that reads it, and one more at either end.
    """
    stay, found = {each.segment for each in program.residents}, set[str]()
    for row in joined_steps(program.steps):
        if isinstance(row, HostStep):
            continue
        names, _ = _tensors(program, row, stored=False)
        for first, last in _uses(row, [name for name in names if name not in stay]):
            found.update(node for launch in row[max(first - 1, 0) : last + 2] for node in launch.nodes)
    return frozenset(found)
