"""Contract of a family of instruction sets: the code that no document can express, in four protocols.

:class:`DocumentCheck` says which documents it takes, :class:`CostModel` guides the planner, :class:`FunctionalModel`
runs launches and :class:`CycleModel` times them. A family is one object that satisfies all four (:class:`Family`),
found by the entry point ``cyclops.isa`` under its name (:mod:`accel.isa.family_registry`). The passes, the engine and
the reports know no family by name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from accel.accelerator.base import DocumentPart
from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.timing_model import TimingModel
from accel.isa.compiled_kernels import Signature
from accel.isa.decode import Decoded
from accel.isa.hazard_findings import Hazards
from accel.program.program_model import DramWindow
from accel.region.epilogue import Epilogue
from accel.region.kinds import Region
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates, TilingCost
from accel.util.arrays import Bools, Bytes, Float64, Int64, Signed, Words


@dataclass(frozen=True)
class KernelSource:
    """What a kernel that TVM compiles is made of: the family's name, and a text that says all else.

    ``build`` makes the TIR function ``launch`` of the text. Documents of one text share the kernel, so that it leaves
    out what the kernel does not depend on. See :mod:`accel.isa.kernel_library`.
    """

    family: str
    text: str
    build: Callable[[str], Any] = field(compare=False, repr=False)


class KernelProvider(Protocol):
    """Compiles for a process that may not write what it compiles to the disk."""

    def prepare_family(self, name: str) -> None:
        """Has a family's kernels compiled, and returns once they are on the disk, if they can be."""

    def kernel_code(self, name: str, text: str) -> bytes | None:
        """Returns the object code of a family's kernel; None where the process must compile it itself."""


@dataclass(frozen=True)
class Timing:
    """Cycles of one launch of n instructions.

    ``start`` and ``end`` are (n,); ``waits`` maps a cause to the cycles (n,) that an instruction lost to it, such as
    ``fetch``, ``memory``, ``hazard`` or a token queue ``load_to_compute``: before it started, or to ``memory`` while
    it ran. ``cycles`` is when the launch is over: when FINISH ended, or without one the last instruction. ``busy``
    maps a unit to its cycles at work. ``tokens`` are those left in each queue. Arrays may be of any signed
    integers.

    ``blockers`` says of a cause whose fault it was: the number of the unit that was waited for, for all instructions
    or for each (n,), -1 where it was none; or ``PREVIOUS``, the unit of the instruction before it in the program.
    ``awaited`` says of a cause for which instruction each one waited: how many places before it that one stands (n,),
    behind it where negative, 0 where it is none or not known (:func:`places_back`). The wait ends with that one, or
    with the piece of its work that was waited for.
    ``activity`` returns what the units did where instructions are not that, as a loop instruction that is many.
    """

    start: Signed
    end: Signed
    waits: Mapping[str, Signed]
    cycles: int
    busy: dict[str, int]
    tokens: dict[str, int]
    blockers: Mapping[str, "Signed | int"] = field(default_factory=dict)
    awaited: Mapping[str, Signed] = field(default_factory=dict)
    activity: Callable[[], "Activity"] | None = None


def places_back(instructions: Int64) -> Int64:
    """Returns for ``instructions`` (n,), which each waited for, -1 for none, how far back they stand; 0 for none."""
    return np.where(instructions < 0, 0, np.arange(len(instructions)) - instructions)


PREVIOUS = -2
"""A blocker: the unit of the instruction before in the program, until that has started."""


@dataclass(frozen=True)
class Activity:
    """The pieces of work of a launch, m of them, those of a unit in its order.

    ``unit`` (m,) and ``kind`` (m,) are indices into the document's units and instructions. A piece ran from ``start``
    to ``end`` (m,), of which it lost the last ``held`` (m,) cycles to memory. ``waits`` maps a cause to the cycles
    (m,) that it lost to it before: one cause after the other, the last one until the start. ``blockers`` are as in
    :class:`Timing`.
    """

    unit: Signed
    kind: Signed
    start: Signed
    end: Signed
    held: Signed
    waits: Mapping[str, Signed]
    blockers: Mapping[str, "Signed | int"]


@dataclass(frozen=True)
class Boxes:
    """Accesses of DRAM by n instructions or parts of them: (n,) each, in the order of the program.

    Access i, by ``instruction[i]`` (an index into the launch), is of ``rows[i]`` rows of ``row_bytes[i]`` bytes, the
    first at byte ``begin[i]`` and ``row_stride[i]`` bytes from one to the next. ``write[i]``: it writes DRAM.
    """

    instruction: Int64
    begin: Int64
    rows: Int64
    row_stride: Int64
    row_bytes: Int64
    write: Bools

    def writes(self) -> "Boxes":
        """Returns the boxes that are written to DRAM."""
        return self.of(self.write)

    def of(self, which: Bools) -> "Boxes":
        """Returns the boxes for which ``which`` (accesses,) is true."""
        at = np.flatnonzero(which)
        return Boxes(
            self.instruction[at], self.begin[at], self.rows[at], self.row_stride[at], self.row_bytes[at], self.write[at]
        )


@dataclass(frozen=True)
class Work:
    """What the instructions of a launch must take, whatever the schedule.

    ``compute_cycles``: of the unit that contracts; ``contract_cycles`` the part of it that multiplies.
    ``bus_cycles``: the bytes over the bus. ``lower_bound``: cycles that no order of these instructions goes below.
    ``macs_per_cycle``: multiply-accumulates a cycle at best; None where the contraction does one iteration a cycle.
    ``bus_bytes``: bytes over the bus a cycle; None where it is what the document's ``dram`` says.
    """

    contract_cycles: int
    compute_cycles: int
    bus_cycles: int
    lower_bound: int
    macs_per_cycle: float | None = None
    bus_bytes: int | None = None


class LaunchTime(Protocol):
    """What a launch takes; a :class:`Timing` says more."""

    @property
    def cycles(self) -> int:
        """Its cycles."""

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that it leaves, by queue."""


@dataclass(frozen=True)
class Cycles:
    """A launch's cycles alone, where nobody asks what they went to."""

    cycles: int
    tokens: dict[str, int]


TimeLaunch = Callable[[Decoded, dict[str, int]], LaunchTime]


@dataclass(frozen=True)
class Variation:
    """A resource changed.

    Attributes:
        resource: what a program is bound by that gains from it, such as ``the bus``.
        change: what it would have then, such as ``16 bytes a beat``.
        fields: JSON pointer in the document to (before, after); empty where no document says it.
        time: times a launch as :meth:`CycleModel.time` does, with the change. It is given the launches in turn, each
            as it was decoded for the document without the change; several variations may be timed at once.
        eases: categories and causes of a program's account of which it may take something.
    """

    resource: str
    change: str
    fields: Mapping[str, tuple[float | str | None, float | str | None]]
    time: TimeLaunch
    eases: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DocumentChange:
    """A document changed so that another program comes of it.

    Attributes:
        name: what addresses and requests call it: lower case, digits, ``-`` and names of the document.
        resource: what a program is bound by that gains from it, such as ``the size of inp``.
        change: what there would be then, such as ``inp of 64 KiB``.
        make: returns the changed document, unchecked; it raises InvalidAccelerator where there can be none.
    """

    name: str
    resource: str
    change: str
    make: Callable[[], Accelerator]


@runtime_checkable
class NamesChanges(Protocol):
    """What a family may have besides: changes of its own; without it they are those of its memories."""

    def changes(self, accelerator: Accelerator, /) -> Iterable[DocumentChange]:
        """Yields changes that ask for another program, with what must follow each in the document."""


@runtime_checkable
class Derives(Protocol):
    """What a family may have besides: documents that follow from a configuration, a flat or nested set of keys."""

    def configuration(self, accelerator: Accelerator, /) -> DocumentPart:
        """Returns the configuration from which the document follows.

        Raises:
            InvalidAccelerator: it follows from none, or was changed since.
        """

    def derive(self, accelerator: Accelerator, configuration: DocumentPart, /) -> Accelerator:
        """Returns the document of another configuration, unchecked; costs and ports are those of ``accelerator``.

        Raises:
            InvalidAccelerator: no accelerator has this configuration; ``field`` is the key to mend.
        """


@runtime_checkable
class PricesExactly(Protocol):
    """What a family may have besides: where ``tiling_cost`` agrees so well with ``time`` that trials find nothing."""

    def prices_exactly(self, region: Region, /) -> bool:
        """Returns whether its price decides between a region and others of the same layer as its cycles do."""


@runtime_checkable
class PricesJoined(Protocol):
    """What a family may have besides: what a tiling costs in launches that run as one, whose seams hide its ends."""

    @property
    def joined_tiling_cost(self) -> TilingCost:
        """The estimated cycles that each way to cut a layer adds, as :meth:`CostModel.tiling_cost` has those of one."""


@runtime_checkable
class ArrangesInstructions(Protocol):
    """What a family may have besides: how a launch's instructions had better be sent."""

    def arranged(self, words: Words, accelerator: Accelerator, /) -> tuple[Words, Int64]:
        """Returns a launch's words (n, words_each) as they had better be sent, and the place (n,) where each stood.

        What they do together stays the same. It does not depend on what of the document is time alone.
        """


ReadDram = Callable[[int, int], bytes]
"""The bytes of DRAM from an address on, so many, as a program's image has them before it runs."""


@dataclass(frozen=True)
class Touches:
    """Ranges of on-chip memories that instructions access, (ranges,) each: what lies between may be among them.

    Range i, by ``instruction[i]`` (an index into the launch), is of elements ``begin[i]`` to ``end[i]`` (exclusive) of
    ``memory[i]``, an index into the document's memories. ``write[i]``: it writes, and may read too.
    """

    instruction: Int64
    memory: Int64
    begin: Int64
    end: Int64
    write: Bools

    def of(self, which: Bools) -> "Touches":
        """Returns the ranges for which ``which`` (ranges,) is true."""
        at = np.flatnonzero(which)
        return Touches(self.instruction[at], self.memory[at], self.begin[at], self.end[at], self.write[at])


@runtime_checkable
class JoinsLaunches(Protocol):
    """What a family with tokens may have besides: what it takes to make one launch of several."""

    def touches(self, decoded: Decoded, rows: Int64, read: ReadDram, /) -> Touches:
        """Returns what the instructions ``rows`` (m,) of a launch touch on the chip."""

    def idle_words(self, accelerator: Accelerator, /) -> Mapping[str, Words]:
        """Returns for units the words (words_each,) of an instruction that only waits for tokens and sends them."""


@dataclass(frozen=True)
class PlacedLaunch:
    """A launch at its place on the chip.

    ``words`` (n, words_each) are those of the launch, ``order`` (n,) where each instruction stood: one may have become
    several. It touches elements that lie ``moved`` (memories,) further
    than it was compiled for: what all of them touch is in ``touches``. ``table`` is the address in DRAM of the
    micro-ops that it walks; None: it loads its own, and stays where it was.
    """

    words: Words
    order: Int64
    moved: Int64
    touches: Touches
    table: int | None


@runtime_checkable
class PlacesLaunches(Protocol):
    """What a family that joins launches may have besides: each of them can have a place of its own on the chip."""

    def placed_launches(
        self, launches: Sequence[Decoded], read: ReadDram, store: Callable[[bytes], int], /
    ) -> list[PlacedLaunch]:
        """Returns launches that run one after the other as one; ``store`` takes bytes for DRAM, and says where."""


@runtime_checkable
class OrdersAccesses(Protocol):
    """What a family may have besides: machines that run one launch behind another as one without being told how."""

    def orders_accesses(self, accelerator: Accelerator, /) -> bool:
        """Returns whether each access, of DRAM too, waits for those before it in the program that it must follow."""


@runtime_checkable
class FencesLaunches(Protocol):
    """What a family may have besides: machines that order what is on the chip; DRAM is ordered by the host's fences."""

    def fence(self, accelerator: Accelerator, /) -> Words | None:
        """Returns the words (words_each,) at which the host waits until all before has ended; None: there are none."""

    def early(self, decoded: Decoded, late: Bools, /) -> Bools:
        """Returns which instructions (n,) of a launch may be sent before all others, of which ``late`` (n,) are some.

        The launch begins with them then, does the same, and may run on from any other: a fence may stand behind them.
        """

    def runs_on(self, before: Decoded, launch: Decoded, /) -> bool:
        """Returns whether one launch may follow another without a fence, where no access of DRAM needs one."""


@dataclass(frozen=True)
class DramTensor:
    """Bytes ``[begin, end)`` of DRAM that launches of a row store and load; ``needed``: others read them there too.

    ``shape`` is that of the tensor in them, as far as it is known, its last axis the innermost.
    """

    begin: int
    end: int
    needed: bool
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class ResidentTensor:
    """A tensor that stays in a memory, from element ``address`` on, as it lies in DRAM.

    It takes ``elements`` of the memory: fewer than it has where later rows of it take the place of earlier ones.
    ``number`` is its place among those that were asked for. Unless it is ``stored`` too, it is never in DRAM.
    ``bytes_not_read`` and ``bytes_not_written`` are what loads and stores of it moved.
    """

    number: int
    memory: str
    address: int
    elements: int
    stored: bool
    bytes_not_read: int
    bytes_not_written: int


@dataclass(frozen=True)
class ResidentRow:
    """Words (n, words_each) of a row of launches with tensors that stay, and where each instruction stood (n,)."""

    words: Words
    place: Int64
    residents: tuple[ResidentTensor, ...]


class RowResidency(Protocol):
    """A row of launches, and what of its results can stay on the chip."""

    candidates: Sequence[int]
    """The tensors, by their places among those that were asked for, that might stay."""

    def rewritten(self, chosen: Sequence[int], /) -> ResidentRow:
        """Returns the row in which those of ``chosen`` stay that fit beside each other and beside all else."""


@runtime_checkable
class KeepsResults(Protocol):
    """What a family may have besides: machines that can leave in a memory what a later launch reads there."""

    def keeps_results(self, accelerator: Accelerator, /) -> bool:
        """Returns whether an instruction leaves in a memory what a store and a load would, and no token orders it."""

    def while_results_stay(self, accelerator: Accelerator, /) -> Accelerator:
        """Returns a document, to price with, in which it takes next to nothing to load what stays."""

    def residency(self, decoded: Decoded, tensors: Sequence[DramTensor], /) -> RowResidency:
        """Returns what of ``tensors`` can stay on the chip in a row of launches that run as one."""

    def tile_slices(self, decoded: Decoded, /) -> list[Int64] | None:
        """Returns the tiles of launches as places of their instructions, each of which can run at any time.

        A tile leaves the same in DRAM whatever is on the chip when it begins. None where instructions cannot be told
        apart so.
        """

    def buffers_apart(self, decoded: Decoded, launch: Int64, /) -> tuple[Words, Mapping[str, Int64]]:
        """Returns the words (n, words_each) of a row with the buffers of each ``launch`` (n,) in places of their own.

        As far as there is room: what a launch loads then outlasts others that run meanwhile. And by memory how many
        elements further those of each launch (launches,) lie.
        """

    def needed_loads(self, decoded: Decoded, order: Int64, /) -> Bools:
        """Returns which of instructions in an order (n,), with repetitions, are no loads of what is on the chip."""


class Machine(Protocol):
    """The on-chip memories and registers of an accelerator, which keep their contents from launch to launch."""

    def run(self, decoded: Decoded, dram: Bytes) -> None:
        """Run a launch, reading and writing ``dram`` (bytes,), made by :func:`accel.util.arrays.aligned_zeros`.

        Raises:
            SimulationError: the instruction, and what it cannot do.
        """


class HazardChecker(Protocol):
    """Checks launch after launch: memories and unfinished instructions stay from one to the next."""

    def wrote(self, begin: int, end: int) -> None:
        """Note that bytes ``[begin, end)`` of the array DRAM hold something: the image, or what the host wrote."""

    def check(self, decoded: Decoded, dram: Bytes) -> Hazards:
        """The hazards of a launch, and of launches before it with it; ``dram`` is what it finds.

        Raises:
            SimulationError: a deadlock.
        """


class DocumentCheck(Protocol):
    """Which documents a family can execute, beyond what the common schema says."""

    parameters: type[DocumentPart]
    """The schema of a document's ``parameters``."""

    def check(self, accelerator: Accelerator, /) -> None:
        """Refuse a document, which agrees with itself, that the family cannot execute.

        Raises:
            InvalidAccelerator: ``field`` is the path in the document.
        """


class CostModel(Protocol):
    """What a tiling would cost: what the planner minimises."""

    def tiling_cost(
        self,
        candidates: Candidates,
        shape: Convolution,
        epilogue: Epilogue,
        gemm: Contraction,
        accelerator: Accelerator,
        /,
    ) -> Float64:
        """Returns the estimated cycles of each way to cut a layer into tiles, an array of the candidates' shape."""


class FunctionalModel(Protocol):
    """What a launch does to registers, memories and DRAM, and what is wrong with it."""

    takes_windows: bool
    """Whether DRAM may lie in windows of the address space; else an address is an index into it."""

    def first_context(self, accelerator: Accelerator, windows: tuple[DramWindow, ...], /) -> object:
        """Returns what the first launch finds in registers that outlast launches, and where DRAM lies, or None.

        Whoever runs launches one after the other puts the context into ``Decoded.context`` of each, where all methods
        that take a launch find it. The family alone looks into it.
        """

    def next_context(self, decoded: Decoded, /) -> object:
        """Returns what the launch after ``decoded`` finds.

        Raises:
            SimulationError: an instruction that cannot be understood.
        """

    def check_launch(self, decoded: Decoded, dram_bytes: int, /) -> None:
        """Refuse instructions that reach beyond a memory or the DRAM, or mean nothing.

        Raises:
            SimulationError: the first of them, and why.
        """

    def effort(self, decoded: Decoded, /) -> Float64:
        """Returns how much each instruction (n,) asks of the simulator: micro-ops executed, elements copied."""

    def boxes(self, decoded: Decoded, /) -> Boxes:
        """Returns the accesses of DRAM of a launch's copies; fetching instructions is none."""

    def kernel_sources(self, accelerator: Accelerator, /) -> tuple[KernelSource, ...]:
        """Returns the sources of the kernels that a machine loads by ``accel.isa.kernel_library.load_kernel``."""

    def kernel_source(self, text: str, /) -> KernelSource:
        """Returns the source of one text. Its function may be made in a process that reads nothing else of a user's."""

    def machine(self, accelerator: Accelerator, /) -> Machine:
        """Returns a machine after power-on: all memories zero."""

    def hazard_checker(
        self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int, /
    ) -> HazardChecker | None:
        """Returns a checker for programs that find ``tokens``, or None where the hardware orders all accesses."""


class CycleModel(Protocol):
    """How long a launch takes, what it costs, and how far these numbers can be trusted."""

    def token_queues(self, accelerator: Accelerator, /) -> list[str]:
        """Returns the names of its token queues, such as ``store_to_compute``; empty where it has none."""

    def time(self, decoded: Decoded, tokens: dict[str, int], /) -> Timing:
        """Returns the cycles of one launch that finds ``tokens`` in the queues.

        Raises:
            SimulationError: a deadlock.
        """

    def variations(self, accelerator: Accelerator, /) -> Sequence[Variation]:
        """Returns resources, each changed alone, that a report tries to say what limits a program."""

    def work(self, decoded: Decoded, /) -> Work:
        """Returns the work of a launch."""

    def energy(self, decoded: Decoded, /) -> float | None:
        """Returns picojoules of a launch, of the instructions whose energy the document says; None if it says none.

        Raises:
            SimulationError: a cost divides by zero, or is no finite number.
        """

    def timing_model(self, accelerator: Accelerator, launches: Iterable[Decoded] = (), /) -> TimingModel:
        """Returns how far its cycle counts can be trusted, those of a program of these launches."""


@runtime_checkable
class TimedAlone(Protocol):
    """Part of a family whose documents may have a processor, or memory, that is not the accelerator's own."""

    def alone(self, accelerator: Accelerator, /) -> "TimeLaunch | None":
        """Returns what times a launch on the accelerator without them; None where the document has neither."""


@runtime_checkable
class FindsInCaches(Protocol):
    """Part of a family whose launches may find in caches what they read and write."""

    def cold(self, accelerator: Accelerator, /) -> Accelerator | None:
        """Returns the document by which a launch finds nothing in them; None where it has none."""

    def cache_bytes(self, accelerator: Accelerator, /) -> int:
        """Returns the bytes of the nearest cache; 0 where it has none."""


class Family(DocumentCheck, CostModel, FunctionalModel, CycleModel, Protocol):
    """A family of instruction sets: an object with a name that satisfies the four protocols."""

    name: str

    def prepare(self, accelerator: Accelerator, /) -> None:
        """Compiles what simulating on it runs, but for kernels that have a source, which are loaded besides.

        It runs none of it, so that forking afterwards is safe.
        """

    def signatures(self) -> tuple[Signature, ...]:
        """Returns the kernels that simulations run; a family without it has all in :meth:`prepare`.

        The first are those that take longest to compile: two processes share the work in a new installation.
        """


class PreparedBySignatures:
    """Part of a family of which nothing is to be prepared but the kernels that it names."""

    def signatures(self) -> tuple[Signature, ...]:
        """Returns the kernels that simulations run."""
        raise NotImplementedError

    def prepare(self, accelerator: Accelerator) -> None:
        """Compiles the kernels."""
        for signature in self.signatures():
            signature.compile()


class NoContext:
    """Part of a family without a register that an instruction reads and that outlasts a launch."""

    takes_windows = False

    def first_context(self, accelerator: Accelerator, windows: tuple[DramWindow, ...]) -> None:
        """There is nothing to find."""

    def next_context(self, decoded: Decoded) -> None:
        """There is nothing to find."""


class NoKernels:
    """Part of a family without kernels that TVM compiles."""

    def kernel_sources(self, accelerator: Accelerator) -> tuple[KernelSource, ...]:
        """There are none."""
        return ()

    def kernel_source(self, text: str) -> KernelSource:
        """There is none.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"there is no kernel of the text {text[:80]!r}")


def dram_traffic(boxes: Boxes) -> tuple[int, int]:
    """Bytes read and bytes written by the copies of a launch; fetching instructions is not counted."""
    moved = boxes.rows * boxes.row_bytes
    return int(moved[~boxes.write].sum()), int(moved[boxes.write].sum())
