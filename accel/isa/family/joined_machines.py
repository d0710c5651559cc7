"""What a family may have so that launches run as one: places, tokens or fences between them, and their price."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from accel.accelerator.document import Accelerator
from accel.isa.decode import Decoded
from accel.isa.family.memory_accesses import ReadDram, Touches
from accel.region.kinds import TilingOption
from accel.region.tilings import TilingCost
from accel.util.arrays import Bools, Int64, Words


@runtime_checkable
class PricesExactly(Protocol):
    """What a family may have besides: where ``tiling_cost`` agrees so well with ``time`` that trials find nothing."""

    def prices_exactly(self, option: TilingOption, accelerator: Accelerator, /) -> bool:
        """Returns whether the price of a layer's cheapest option decides between it and others as its cycles do."""


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
class PrefetchesLoads(Protocol):
    """What a family that joins launches may have besides: its loads can be cut, so that parts go ahead of launches."""

    def nominal(self, accelerator: Accelerator, /) -> Accelerator:
        """Returns the machine with cycles that are not the document's, by which it is found where a unit waits."""

    def load_grain(self, decoded: Decoded, row: int, /) -> int:
        """Returns of how many elements a part of a load is, or of a multiple of them; 0: it cannot be cut."""

    def load_part(self, decoded: Decoded, row: int, begin: int, size: int, /) -> Words | None:
        """Returns the words (words_each,) of a load of ``size`` elements from ``begin`` on of those that a load fills.

        It has no tokens; None: no field holds it.
        """


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
