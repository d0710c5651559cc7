"""The four protocols that a family satisfies: documents, costs, function and cycles; and parts of families."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from accel.accelerator.base import DocumentPart
from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.timing_model import TimingModel
from accel.isa.decode import Decoded
from accel.isa.family.changed_machines import Variation
from accel.isa.family.launch_cycles import TimeLaunch, Timing, Work
from accel.isa.family.memory_accesses import Boxes
from accel.isa.hazard_findings import Hazards
from accel.isa.kernels.compiled_kernels import Signature
from accel.program.program_model import DramWindow
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates
from accel.util.arrays import Bytes, Float64


@dataclass(frozen=True)
class KernelSource:
    """What a kernel that TVM compiles is made of: the family's name, and a text that says all else.

    ``build`` makes the TIR function ``launch`` of the text. Documents of one text share the kernel, so that it leaves
    out what the kernel does not depend on. See :mod:`accel.isa.kernels.kernel_library`.
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
        """Returns the sources of kernels that a machine loads, by ``accel.isa.kernels.kernel_library.load_kernel``."""

    def kernel_source(self, text: str, /) -> KernelSource:
        """Returns the source of one text. Its function may be made in a process that reads nothing else of a user's."""

    def machine(self, accelerator: Accelerator, /) -> Machine:
        """Returns a machine after power-on: all memories zero."""

    def hazard_checker(
        self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int, /
    ) -> HazardChecker | None:
        """Returns a checker for programs that find ``tokens``, or None where the hardware orders all accesses."""


@runtime_checkable
class ReservesAddresses(Protocol):
    """What a family may have besides: addresses of DRAM that loads take for something else than a tensor's."""

    reserved_bytes: int
    """From address 0 on."""


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
