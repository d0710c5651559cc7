"""What a family may have so that results stay on the chip from launch to launch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from accel.accelerator.document import Accelerator
from accel.isa.decode import Decoded
from accel.util.arrays import Bools, Int64, Words


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
