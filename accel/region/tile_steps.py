"""Steps of a tile of lane-wise work: what is brought into the accumulators, and what is done with it there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, Self

from accel.region.epilogue import Steps
from accel.region.shapes import PackedActivation, SlidingWindow

Place = tuple[int, int]  # a row and a column
PairOp = Literal["add", "max", "min", "multiply"]

_START = 8  # iterations that the beginning and the end of an instruction are worth


class Lanewise(Protocol):
    """A region that is made of steps: its operands in DRAM, and how its tiles walk them.

    Each tile reads ``reach`` of every operand, by ``strides``, with ``padding`` (top, left, bottom, right) of zeros
    around. ``factors`` are the numbers by which operands are multiplied on the way into the accumulators; ``direct``:
    a load brings them there, and none is multiplied.
    """

    kind: ClassVar[str]

    @property
    def result(self) -> PackedActivation:
        """The result, without room between its rows."""

    @property
    def operands(self) -> tuple[PackedActivation, ...]:
        """The operands, of one size."""

    @property
    def weights(self) -> tuple[int, ...]:
        """What each operand is multiplied by before they are combined."""

    @property
    def pair_op(self) -> "PairOp":
        """What combines two values."""

    @property
    def factors(self) -> tuple[int, ...]:
        """Each fits int8."""

    @property
    def strides(self) -> Place:
        """Rows and columns from one result to the next."""

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """The padding that the loads add."""

    @property
    def host_padding(self) -> tuple[int, int, int, int]:
        """What of the operands is padding that the host adds."""

    @property
    def size(self) -> Place:
        """Rows and columns of the result."""

    @property
    def direct(self) -> bool:
        """Whether loads go to the accumulators."""

    @property
    def stored_windows(self) -> SlidingWindow | None:
        """The windows of which a store takes the largest; None where it takes elements as they are."""

    def reach(self, rows: int, columns: int) -> Place:
        """Rows and columns that a tile of so many of the result reads."""

    def over(self, operands: tuple[PackedActivation, ...]) -> Self:
        """The same over operands of other pitches."""

    def plan_tile(self, rows: int, columns: int, ways: "LaneCapabilities") -> "TilePlan":
        """The steps for a tile of ``rows`` x ``columns`` of the result."""


@dataclass(frozen=True)
class LaneCapabilities:
    """What an accelerator can do to take a maximum, a minimum, ... of several operands.

    ``pair``: that of two accumulators; ``difference``: that of one and 0, and contractions with negative numbers;
    ``direct``: int8 is loaded into accumulators. ``sums``: two of those can be added; ``shifts`` are the counts by
    which they can be shifted left, and ``products`` the weights by which they can be multiplied, of those asked for.
    """

    pair: bool
    difference: bool
    direct: bool
    sums: bool = False
    shifts: frozenset[int] = frozenset()
    products: frozenset[int] = frozenset()


LOADED = LaneCapabilities(pair=False, difference=False, direct=True)
"""What work needs that loads and stores do by themselves."""


@dataclass(frozen=True)
class AccumulatorBlock:
    """Accumulators of one block of a tile: rows and columns of them."""

    name: str
    rows: int
    columns: int

    @property
    def extents(self) -> Place:
        """Rows and columns."""
        return self.rows, self.columns


@dataclass(frozen=True)
class Clear:
    """``box`` becomes 0."""

    box: AccumulatorBlock
    extents: Place
    weight = 1


@dataclass(frozen=True)
class Load:
    """An operand becomes ``box``, by a load; from ``first`` of the tile's part of it on, by the strides.

    ``dense``: whole, and not by the strides. ``adds``: it is added to what is in ``box``.
    """

    box: AccumulatorBlock
    extents: Place
    operand: int
    first: Place = (0, 0)
    dense: bool = False
    adds: bool = False
    weight = 2


@dataclass(frozen=True)
class Take:
    """An operand times a factor (by its number) is added to ``box``, from ``first`` on, by the strides."""

    box: AccumulatorBlock
    extents: Place
    operand: int
    factor: int
    first: Place = (0, 0)
    weight = 1


@dataclass(frozen=True)
class Apply:
    """What one instruction does with immediates on ``box``: an operation, or several one after the other."""

    box: AccumulatorBlock
    extents: Place
    steps: Steps
    weight = 1


@dataclass(frozen=True)
class Merge:
    """An operation on ``box`` and ``other``, whose element lies ``shift`` further; it becomes ``box``."""

    box: AccumulatorBlock
    other: AccumulatorBlock
    extents: Place
    name: PairOp
    shift: Place = (0, 0)
    weight = 2  # reads of two operands


Step = Clear | Load | Take | Apply | Merge


@dataclass
class TilePlan:
    """The steps in order, and the boxes in the order of their first use; the first is that of the result."""

    boxes: list[AccumulatorBlock] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def result(self) -> AccumulatorBlock:
        """The box whose first rows and columns are the result."""
        return self.boxes[0]

    @property
    def accumulators(self) -> int:
        """Accumulators of all boxes, for a block of channels."""
        return sum(box.rows * box.columns for box in self.boxes)

    def bring(
        self, box: AccumulatorBlock, ways: LaneCapabilities, operand: int, factor: int, first: Place = (0, 0)
    ) -> None:
        """A new box, all of which becomes an operand (times a factor unless it is loaded)."""
        self.boxes.append(box)
        if ways.direct:
            self.steps.append(Load(box, box.extents, operand, first))
        else:
            self.steps += [Clear(box, box.extents), Take(box, box.extents, operand, factor, first)]

    def differ(
        self,
        box: AccumulatorBlock,
        extents: Place,
        name: Literal["max", "min"],
        operand: int,
        factors: Place,
        first: Place = (0, 0),
    ) -> None:
        """``max(a, b) = max(a - b, 0) + b``; ``factors`` are the numbers of the factor of b and of its negative."""
        plus, minus = factors
        self.steps += [
            Take(box, extents, operand, minus, first),
            Apply(box, extents, ((name, 0),)),
            Take(box, extents, operand, plus, first),
        ]


def iterations_of_steps(steps: Sequence[Step], blocks: int) -> int:
    """What the steps cost for so many blocks, in iterations of an instruction."""
    return sum(_START + step.weight * blocks * step.extents[0] * step.extents[1] for step in steps)
