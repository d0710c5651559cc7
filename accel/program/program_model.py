"""The Program, which the compiler writes and the simulator runs.

An ordered list of steps over one DRAM map: launches (instruction words for the accelerator) and host
steps (Relax functions on tensors in DRAM), with the image of the constants and the origin of each
instruction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.util.arrays import Int32, Words

T = TypeVar("T")

MOST_INSTRUCTIONS = 1 << 27  # of a program; Whisper tiny on an 8x8 mesh has 80 million. A job's memory bounds it sooner


@dataclass(frozen=True)
class Segment:
    """A tensor in DRAM. ``address`` is in bytes; ``shape`` is what lies in memory (packed layout, padding)."""

    name: str
    address: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The bytes that it occupies."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class DramWindow:
    """A part of the address space that DRAM fills: ``bytes`` from ``address`` on."""

    address: int
    bytes: int


@dataclass(frozen=True)
class InstructionOrigin:
    """Where an instruction came from: model nodes, TIR function, site of the call in it, pragma, stage."""

    nodes: tuple[str, ...]
    function: str
    site: int
    pragma: str
    stage: str


@dataclass(frozen=True)
class Launch:
    """Instructions ``[begin, begin + count)`` run by the accelerator until FINISH.

    ``macs`` are the model's multiply-accumulates computed here (padding not counted). ``writes`` names segments whose
    contents in the program's image the host puts into DRAM right before this launch, and not before the run. One that
    is ``joined`` runs in one with the launch right before it, which has no end of its own: the host starts them
    together, and is told of the last one's end. ``moved`` says, by memory, how many elements further its buffers lie
    than they were allocated, and of a table of micro-ops that it walks one that others walk too.
    """

    name: str
    op: str
    nodes: tuple[str, ...]
    begin: int
    count: int
    macs: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    writes: tuple[str, ...] = ()
    joined: bool = False
    moved: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Resident:
    """A result of launches that stays on the chip until others, run in one with them, have read it there.

    It lies in ``memory`` from element ``address`` on, ``elements`` of them, as in its segment. Unless it is ``stored``
    too, its segment never gets it. The bytes are those of loads and stores that there are not.
    """

    segment: str
    launches: tuple[str, ...]
    readers: tuple[str, ...]
    memory: str
    address: int
    elements: int
    stored: bool
    bytes_not_read: int
    bytes_not_written: int


@dataclass(frozen=True)
class StripedChain:
    """Launches that run stripe by stripe, each cut into launches ``name#1``, ``name#2`` and on.

    Cycles and bytes of DRAM are those of all launches that run as one with them: so, and layer by layer.
    """

    launches: tuple[str, ...]
    stripes: int
    cycles: int
    layered_cycles: int
    dram_bytes: int
    layered_dram_bytes: int


@dataclass(frozen=True)
class HostStep:
    """A function run on the host. ``module`` is the text of a host graph (:mod:`accel.host`).

    It takes the segments ``inputs`` and fills the segments ``outputs``.
    """

    name: str
    module: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A compiled model. ``words`` is (instructions, word_bits / 64); ``origin`` indexes ``origins``.

    ``image`` gives segments their contents before the run; for one of ``inputs`` it is a default, and of a result of a
    launch what lies around what that stores: a border that nobody writes. ``expected``
    gives what a segment must hold after the run, of the segment's shape and type, where that is stated.
    ``granularity`` (bytes) is how exactly the segments are known: with 1 a launch that leaves them is refused, with
    more it is warned of what it changes beyond whole granules around them. ``windows`` are where DRAM lies in the
    address space; without any, ``dram_bytes`` lie from address 0 on. ``residents`` are results that stay on the chip,
    and ``striped`` the launches that run depth first for it.
    """

    accelerator: Accelerator
    segments: dict[str, Segment]
    image: dict[str, npt.NDArray[np.generic]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Launch | HostStep, ...]
    words: Words
    origin: Int32
    origins: tuple[InstructionOrigin, ...]
    dram_bytes: int
    initial_tokens: dict[str, int] = field(default_factory=dict)
    expected: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    granularity: int = 1
    windows: tuple[DramWindow, ...] = ()
    residents: tuple[Resident, ...] = ()
    striped: tuple[StripedChain, ...] = ()

    @cached_property
    def constants(self) -> frozenset[str]:
        """The segments with contents that no step writes, and that are no inputs."""
        written = {name for step in self.steps for name in step.outputs}
        return frozenset(self.image.keys() - written - set(self.inputs))

    @property
    def written_later(self) -> frozenset[str]:
        """The segments whose contents are put into DRAM before some launch, not before the run."""
        return frozenset(name for step in self.steps if isinstance(step, Launch) for name in step.writes)


def joined_groups(items: Iterable[T], joined: Callable[[T], bool]) -> Iterator[list[T]]:
    """Yields items in their order, each that is joined in one list with the item before it."""
    running: list[T] = []
    for item in items:
        if running and not joined(item):
            yield running
            running = []
        running.append(item)
    if running:
        yield running


def joined_steps(steps: Sequence[Launch | HostStep]) -> Iterator[tuple[Launch, ...] | HostStep]:
    """Yields the steps as they run: host steps, and launches that are one, in their order."""
    for first, *more in joined_groups(steps, lambda step: isinstance(step, Launch) and step.joined):
        if isinstance(first, HostStep):
            yield first
        else:
            yield (first, *(step for step in more if isinstance(step, Launch)))


def renamed(program: Program, names: Mapping[str, str]) -> Program:
    """Returns the program with segments renamed: ``names`` maps old names to new ones.

    A segment keeps its name where another segment has the new one already.
    """
    taken = set(program.segments)
    called = {}
    for old, new in names.items():
        if new not in taken:
            called[old] = new
            taken.add(new)

    def of(old: str) -> str:
        return called.get(old, old)

    return replace(
        program,
        segments={of(name): replace(segment, name=of(name)) for name, segment in program.segments.items()},
        image={of(name): array for name, array in program.image.items()},
        expected={of(name): array for name, array in program.expected.items()},
        inputs=tuple(map(of, program.inputs)),
        outputs=tuple(map(of, program.outputs)),
        residents=tuple(replace(each, segment=of(each.segment)) for each in program.residents),
        steps=tuple(_renamed(step, of) for step in program.steps),
    )


def _renamed(step: Launch | HostStep, of: Callable[[str], str]) -> Launch | HostStep:
    inputs, outputs = tuple(map(of, step.inputs)), tuple(map(of, step.outputs))
    if isinstance(step, Launch):
        return replace(step, inputs=inputs, outputs=outputs, writes=tuple(map(of, step.writes)))
    return replace(step, inputs=inputs, outputs=outputs)
