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
from accel.isa.family import DramTensor, Family, KeepsResults, ResidentRow, ResidentTensor, dram_traffic
from accel.joining.depth_first import Chain, StripedRow, TiledRow, tiled_row
from accel.program.program_model import HostStep, Launch, Program, Resident, joined_steps
from accel.util.arrays import Int32, Words

_WORK = 1 << 22  # instructions of all trials of a row
_STRIPED_WORK = 1 << 16  # instructions of all chains of a row that are tried by themselves
_CUT = 2  # launches from the first to the last of a chain that has halves


def can_keep(accelerator: Accelerator, family: Family) -> bool:
    """Returns whether results of launches may stay on its chip."""
    return isinstance(family, KeepsResults) and family.keeps_results(accelerator)


def keep_results(program: Program, family: Family, *, stored: bool = False, depth_first: bool = True) -> Program:
    """Returns the program in which results stay on the chip where that is faster, or moves less; the same otherwise.

    Args:
        program: its launches are joined where they can be.
        family: of its accelerator.
        stored: whether results that stay are stored all the same, for whoever looks at them.
        depth_first: whether launches may run in stripes, one behind the other, where that is better still.
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
    )


@dataclass(frozen=True)
class _Row:
    """Launches that run as one, the instructions of each, where they come from, and what stays of their results."""

    launches: Sequence[Launch]
    counts: Sequence[int]
    words: Words
    origin: Int32
    residents: Sequence[Resident]


def _kept(program: Program, launches: Sequence[Launch], family: Family, *, stored: bool, depth_first: bool) -> _Row:
    begin, end = launches[0].begin, launches[-1].begin + launches[-1].count
    counts = [launch.count for launch in launches]
    words, origin = program.words[begin:end], program.origin[begin:end]
    names, tensors = _tensors(program, launches, stored=stored)
    row = _Row(launches, counts, words, origin, ())
    if not tensors:
        return row
    trials = _Trials(program.accelerator, family, tensors)
    chosen = trials.chosen(words)
    if depth_first:
        assert isinstance(family, KeepsResults)
        decoded = decode(program.accelerator, words)
        tiled = tiled_row(decoded, launches, program.segments, family, family.boxes(decoded))
        found = None if tiled is None else _StripedTrials(trials, tiled, words, chosen, _uses(launches, names)).best()
        if found is not None:
            chosen, striped = found
            row = _Row(striped.launches, striped.counts, words[striped.place], origin[striped.place], ())
    if chosen is None:
        return row
    own = np.diff(np.searchsorted(chosen.place, np.cumsum([0, *row.counts]))).tolist()
    residents = [_resident(names[each.number], each, row.launches) for each in chosen.residents]
    return _Row(row.launches, own, chosen.words, row.origin[chosen.place], residents)


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


class _Trials:
    """Trials of what stays of the tensors of a row, whatever the order of its instructions."""

    def __init__(self, accelerator: Accelerator, family: Family, tensors: Sequence[DramTensor]) -> None:
        assert isinstance(family, KeepsResults)
        self._accelerator, self._family, self._keeps, self._tensors = accelerator, family, family, tensors

    def chosen(self, words: Words) -> ResidentRow | None:
        """Returns the row in which those stay that make it better; None where none does.

        All are tried together first, then halves of what did not make it better.
        """
        residency = self._keeps.residency(decode(self._accelerator, words), self._tensors)
        if not residency.candidates:
            return None
        best, value = None, self.value(words)
        stay: tuple[int, ...] = ()
        left, work = [tuple(residency.candidates)], _WORK
        while left and work > 0:
            part = left.pop()
            tried = residency.rewritten((*stay, *part))
            work -= len(tried.words)
            worth = self.value(tried.words)
            if tried.residents and worth < value:
                best, value, stay = tried, worth, tuple(each.number for each in tried.residents)
            elif len(part) > 1:
                left += [part[len(part) // 2 :], part[: len(part) // 2]]
        return best

    def of(self, numbers: Sequence[int]) -> "_Trials":
        """Returns trials of some of the tensors."""
        return _Trials(self._accelerator, self._family, [self._tensors[number] for number in numbers])

    def value(self, words: Words) -> tuple[int, int]:
        """Returns the cycles that a row takes, and the bytes of DRAM that it moves."""
        decoded = decode(self._accelerator, words)
        return self._family.time(decoded, {}).cycles, sum(dram_traffic(self._family.boxes(decoded)))


class _StripedTrials:
    """Trials of depth-first orders of a row, with what stays on the chip in each.

    A chain is tried by itself first, in several numbers of stripes; one that is better so is tried within the row.
    """

    def __init__(
        self, row: _Trials, tiled: TiledRow, words: Words, layered: ResidentRow | None, uses: Sequence[tuple[int, int]]
    ) -> None:
        self._row, self._tiled, self._words, self._all_uses = row, tiled, words, uses
        self._value = row.value(words if layered is None else layered.words)
        stay = {each.number for each in layered.residents} if layered else set[int]()
        self._uses = [use for number, use in enumerate(uses) if number not in stay]
        self._best: tuple[ResidentRow, StripedRow] | None = None
        self._chains: list[Chain] = []
        self._work = _STRIPED_WORK

    def best(self) -> tuple[ResidentRow, StripedRow] | None:
        """Returns the best order with what stays in it; None where layer by layer is as good.

        Chains are of launches between which results go to DRAM, with a launch more at either end or without; where
        none is better, their halves are tried.
        """
        left = list(_overlapping(self._uses))
        while left:
            first, last = left.pop(0)
            if self._takes(first, last) or last - first < _CUT:
                continue
            middle = (first + last) // 2
            left += [(first, middle), (middle, last)]
        return self._best

    def _takes(self, first: int, last: int) -> bool:
        """Whether a chain around launches ``[first, last]`` makes the row better; it is in the best order then."""
        ends = self._tiled.launches - 1
        ranges = {(max(first - before, 0), min(last + behind, ends)) for before in (0, 1) for behind in (0, 1)}
        found = [self._alone(*each) for each in sorted(ranges) if not self._meets(*each)]
        for _, chain in sorted((each for each in found if each is not None), key=lambda each: each[0]):
            order = self._tiled.ordered([*self._chains, chain])
            words = self._words[order.place]
            tried = self._row.chosen(words)
            if tried is not None and (value := self._row.value(tried.words)) < self._value:
                self._best, self._value = (tried, order), value
                self._chains.append(chain)
                return True
        return False

    def _meets(self, first: int, last: int) -> bool:
        return any(first <= chain.last and chain.first <= last for chain in self._chains)

    def _alone(self, first: int, last: int) -> tuple[int, Chain] | None:
        """Launches ``[first, last]`` in the best number of stripes, and the cycles that these add to layer by layer.

        None where they add some.
        """
        numbers = [number for number, use in enumerate(self._all_uses) if first <= use[0] and use[1] <= last]
        alone = self._row.of(numbers)
        stripes = [self._tiled.tiles_of(last)]
        while stripes[-1] > 1:
            stripes.append(stripes[-1] // 2)
        values = dict[int, int]()
        for count in reversed(stripes):
            words = self._words[self._tiled.ordered_alone(Chain(first, last, count))]
            if count > 1 and len(words) > self._work:
                break
            self._work -= len(words)
            tried = alone.chosen(words)
            values[count] = alone.value(words if tried is None else tried.words)[0]
        best = min(values, key=lambda count: values[count])
        change = values[best] - values[1]
        return (change, Chain(first, last, best)) if best > 1 and change < 0 else None


def _overlapping(uses: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges of launches ``[first, last]``, those with a launch in common as one."""
    begin, reach = None, 0
    for first, last in sorted(uses):
        if begin is not None and first > reach:
            yield begin, reach
            begin = None
        begin, reach = (first, last) if begin is None else (begin, max(reach, last))
    if begin is not None:
        yield begin, reach


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
