"""Joining of a program's launches: those that no host step parts become one, ordered by tokens or by fences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import numpy as np

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import BitField
from accel.isa.decode import decode
from accel.isa.family import Family, FencesLaunches, JoinsLaunches, OrdersAccesses, ReadDram
from accel.joining.early_loads import early_loads
from accel.joining.fenced_launches import FencedLaunches
from accel.joining.launch_parts import MOST, LaunchPart, own_part
from accel.joining.ordered_launches import ordered_parts
from accel.joining.token_chain import CannotJoinError, Idle, Member, TokenChain
from accel.joining.token_stream import Queue, StreamError, token_field, token_stream
from accel.program.program_model import HostStep, Launch, Program
from accel.util.arrays import Int64, Words

_WORD = 64  # bits


def can_join(accelerator: Accelerator, family: Family) -> bool:
    """Returns whether launches on it may become one."""
    tokens = isinstance(accelerator.synchronisation, TokenSync) and isinstance(family, JoinsLaunches)
    return tokens or _orders_itself(accelerator, family) or _has_fences(accelerator, family)


def _orders_itself(accelerator: Accelerator, family: Family) -> bool:
    return isinstance(family, OrdersAccesses) and family.orders_accesses(accelerator) and accelerator.finish is None


def _has_fences(accelerator: Accelerator, family: Family) -> bool:
    return isinstance(family, FencesLaunches) and family.fence(accelerator) is not None


def with_joined_steps(program: Program, family: Family) -> Program:
    """Returns a program without instructions whose launches are told as those that will be joined, if all can be."""
    if not can_join(program.accelerator, family):
        return program
    steps, before = list[Launch | HostStep](), False
    for step in program.steps:
        launch = isinstance(step, Launch)
        steps.append(replace(step, joined=True) if isinstance(step, Launch) and before and not step.writes else step)
        before = launch
    return replace(program, steps=tuple(steps))


def join_launches(program: Program, family: Family) -> Program:
    """Returns the program whose launches run on into one another where nothing parts them.

    What it computes stays the same; what the accelerator cannot order by itself stays apart. Layers keep their launches
    with the instructions that are theirs.
    """
    if not can_join(program.accelerator, family):
        return program
    parts: list[LaunchPart] = []
    steps: list[Launch | HostStep] = []
    begin = 0
    for step, part in _parts(program, family):
        if isinstance(step, Launch) and part is not None:
            parts.append(part)
            step = replace(step, begin=begin, count=len(part.words), joined=part.joined)  # noqa: PLW2901
            begin += len(part.words)
        steps.append(step)
    if not any(part.joined for part in parts):
        return program
    return replace(
        program,
        steps=tuple(steps),
        words=np.concatenate([part.words for part in parts]),
        origin=np.concatenate([part.origin for part in parts]),
    )


def _join_of(program: Program, family: Family) -> Callable[[Sequence[Launch]], list[LaunchPart]]:
    """What joins launches with no host step between them; it is given them in the order of the program."""
    if _orders_itself(program.accelerator, family):
        return partial(ordered_parts, program, family)
    if _has_fences(program.accelerator, family):
        return FencedLaunches(program, family).parts
    return partial(_joined, program, family)


def _parts(program: Program, family: Family) -> Iterator[tuple[Launch | HostStep, LaunchPart | None]]:
    join = _join_of(program, family)
    for host, group in groupby(program.steps, key=lambda step: isinstance(step, HostStep)):
        steps = list(group)
        if host:
            yield from ((step, None) for step in steps)
        else:
            launches = [step for step in steps if isinstance(step, Launch)]
            yield from zip(launches, join(launches), strict=True)


class _Results:
    """The bytes of DRAM that launches of a row have made."""

    def __init__(self, program: Program) -> None:
        self._segments = program.segments
        self._made: list[tuple[int, int]] = []

    def add(self, launch: Launch) -> None:
        segments = [self._segments[name] for name in launch.outputs]
        self._made += [(segment.address, segment.address + segment.nbytes) for segment in segments]

    def holds(self, begin: int, end: int) -> bool:
        """Whether any of the bytes ``[begin, end)`` is one of them."""
        return any(begin < last and first < end for first, last in self._made)


def _joined(program: Program, family: Family, launches: Sequence[Launch]) -> list[LaunchPart]:
    """The parts of launches with no host step between them."""
    found: list[LaunchPart] = []
    row = _Row(program, family)
    for launch in launches:
        if launch.writes or not row.takes(launch):
            found += row.parts()
            row = _Row(program, family)
            if not row.takes(launch):
                found.append(own_part(program, launch, joined=False))
    return [*found, *row.parts()]


class _Row:
    """Launches one after the other that are becoming one."""

    def __init__(self, program: Program, family: Family) -> None:
        accelerator, sync = program.accelerator, program.accelerator.synchronisation
        assert isinstance(sync, TokenSync)
        assert isinstance(family, JoinsLaunches)
        self._program, self._family, self._read = program, family, _reader(program)
        self._idle = family.idle_words(accelerator)
        self._chain = TokenChain(accelerator, sync.limit, self._idle, family, self._read)
        self._launches: list[Launch] = []
        self._places: list[Int64] = []  # of each launch, where its instructions stood
        self._results = _Results(program)

    def takes(self, launch: Launch) -> bool:
        """Whether a launch could be joined to those before it; after one that could not, none can."""
        program = self._program
        end = launch.begin + launch.count
        if self._launches and end - self._launches[0].begin > MOST:
            return False
        try:
            stream = token_stream(decode(program.accelerator, program.words[launch.begin : end], launch.begin))
            stream, places = early_loads(stream, self._results.holds, self._family, self._read)
            self._chain.append(stream)
        except (StreamError, CannotJoinError):
            return False
        self._launches.append(launch)
        self._places.append(places)
        self._results.add(launch)
        return True

    def parts(self) -> Iterator[LaunchPart]:
        """The parts of the launches: of all but the last one without its end."""
        writer = _Writer(self._program.accelerator, self._idle)
        for number, (member, launch) in enumerate(zip(self._chain.members, self._launches, strict=True)):
            origin = self._program.origin[launch.begin : launch.begin + launch.count][self._places[number]]
            places, words = writer.rewritten(member, last=number == len(self._launches) - 1)
            yield LaunchPart(words, origin[places], joined=number > 0)


def _reader(program: Program) -> ReadDram:
    """Reads what the program's image has at an address; zeros where it has nothing."""
    constants = sorted((program.segments[name].address, name) for name in program.constants)
    begins = np.array([address for address, _ in constants], np.int64)

    def read(address: int, nbytes: int) -> bytes:
        number = int(np.searchsorted(begins, address, side="right")) - 1
        if number < 0:
            return bytes(nbytes)
        first, name = constants[number]
        data = np.ascontiguousarray(program.image[name]).reshape(-1).view(np.uint8)[address - first :][:nbytes]
        return data.tobytes().ljust(nbytes, b"\0")

    return read


@dataclass(frozen=True)
class _Writer:
    """Writes the instructions of a chain's members."""

    accelerator: Accelerator
    idle: Mapping[str, Words]

    def rewritten(self, member: Member, *, last: bool) -> tuple[Int64, Words]:
        """The words of a member with its tokens, and the place (n,) from which each has its origin.

        What waits for another launch, and does nothing else, is there because of the seam: its origin is the end's.
        """
        stream, words = member.stream, member.stream.decoded.words.copy()
        if not last:
            for row, queue in stream.drains:
                _set(words[row], self._field(stream.decoded.kind[row], queue, push=True), value=0)
        for entries, push in ((member.pops, False), (member.pushes, True)):
            for row, queue in entries:
                _set(words[row], self._field(stream.decoded.kind[row], queue, push=push), value=1)
        count = len(words) if last else stream.count
        places, idles = np.arange(count), sorted(member.idles, key=lambda idle: idle.row)
        if not idles:
            return places, words[:count]
        rows = [idle.row for idle in idles]
        added = np.stack([self._idle(idle) for idle in idles])
        return np.insert(places, rows, len(words) - 1), np.insert(words[:count], rows, added, axis=0)

    def _idle(self, idle: Idle) -> Words:
        word = self.idle[self.accelerator.units[idle.unit]].copy()
        kind = int(decode(self.accelerator, word[None]).kind[0])
        for queues, push in ((idle.pops, False), (idle.pushes, True)):
            for queue in queues:
                _set(word, self._field(kind, queue, push=push), value=1)
        return word

    def _field(self, kind: int, queue: Queue, *, push: bool) -> BitField:
        found = token_field(self.accelerator, self.accelerator.instructions[kind], queue, push=push)
        assert found is not None
        return found


def _set(word: Words, field: BitField, *, value: int) -> None:
    """Set a token's field of an instruction (words_each,)."""
    number, shift = divmod(field.lsb, _WORD)
    mask = np.uint64(((1 << field.bits) - 1) << shift)
    word[number] = (word[number] & ~mask) | np.uint64(value << shift)
