"""The shape of elementwise work on packed operands, and the steps of its tile."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal, Self

from accel.region.shapes import PackedActivation
from accel.region.tile_steps import (
    AccumulatorBlock,
    Apply,
    Clear,
    LaneCapabilities,
    Load,
    Merge,
    PairOp,
    Take,
    TilePlan,
)

Combination = Literal["sum", "max", "min", "product"]
PAIRS: dict[Combination, PairOp] = {"sum": "add", "max": "max", "min": "min", "product": "multiply"}


@dataclass(frozen=True)
class Elementwise:
    """The ``combination`` of operands of one size, each times its weight, an integer.

    ``direct``: int8 are loaded into the accumulators as they are; else contractions with scaled identities bring them.
    ``onto``: of a sum, each is loaded onto the ones before, as many times as its weight says. ``apart``: a store takes
    several blocks, each so many accumulators behind the one before; 0: one.
    """

    kind: ClassVar[str] = "elementwise"

    inputs: tuple[PackedActivation, ...]
    weights: tuple[int, ...]
    combination: Combination
    direct: bool
    onto: bool = False
    apart: int = 0

    def over(self, operands: tuple[PackedActivation, ...]) -> Self:
        """The same over operands of other pitches."""
        return replace(self, inputs=operands)

    @property
    def result(self) -> PackedActivation:
        """The result, without room between its rows."""
        first = self.inputs[0]
        return PackedActivation.dense(first.batch, first.blocks, first.height, first.width)

    @property
    def operands(self) -> tuple[PackedActivation, ...]:
        """The inputs."""
        return self.inputs

    @property
    def pair_op(self) -> PairOp:
        """What combines two operands."""
        return PAIRS[self.combination]

    @property
    def factors(self) -> tuple[int, ...]:
        """The weights, and their negatives where differences are taken; each once."""
        signs = (1, -1) if self.combination in ("max", "min") else (1,)
        return tuple(dict.fromkeys(sign * weight for weight in self.weights for sign in signs))

    @property
    def strides(self) -> tuple[int, int]:
        """Every element is read."""
        return (1, 1)

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """None."""
        return (0, 0, 0, 0)

    @property
    def host_padding(self) -> tuple[int, int, int, int]:
        """None."""
        return (0, 0, 0, 0)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.inputs[0].height, self.inputs[0].width

    @property
    def stored_windows(self) -> None:
        """None: elements are stored as they are."""

    def reach(self, rows: int, columns: int) -> tuple[int, int]:
        """As many as the result's."""
        return rows, columns

    def plan_tile(self, rows: int, columns: int, ways: LaneCapabilities) -> TilePlan:
        """The steps for a tile of ``rows`` x ``columns``."""
        return elementwise_plan(self, rows, columns, ways)


def elementwise_plan(shape: Elementwise, rows: int, columns: int, ways: LaneCapabilities) -> TilePlan:
    """The steps for a tile of ``rows`` x ``columns``."""
    plan, size = TilePlan(), (rows, columns)
    box, number = AccumulatorBlock("box0", *size), {factor: place for place, factor in enumerate(shape.factors)}
    numbers = [number[weight] for weight in shape.weights]
    if shape.onto:
        width = columns // line_of(columns, shape.apart) * shape.apart if shape.apart else columns
        box = AccumulatorBlock("box0", rows, width)
        loaded = [operand for operand, weight in enumerate(shape.weights) for _ in range(weight)]
        return TilePlan([box], [Load(box, size, operand, adds=at > 0) for at, operand in enumerate(loaded)])
    if shape.combination == "sum" and not shape.direct:
        plan.boxes.append(box)
        plan.steps.append(Clear(box, size))
        plan.steps += [Take(box, size, operand, factor) for operand, factor in enumerate(numbers)]
        return plan
    _brought(plan, box, shape, ways, 0)
    for operand, weight in enumerate(shape.weights[1:], 1):
        if shape.combination in ("max", "min") and ways.difference:
            factors = numbers[operand], number[-weight]
            plan.differ(box, size, "max" if shape.combination == "max" else "min", operand, factors)
            continue
        other = AccumulatorBlock(f"box{operand}", *size)
        _brought(plan, other, shape, ways, operand)
        plan.steps.append(Merge(box, other, size, PAIRS[shape.combination]))
    return plan


def line_of(columns: int, apart: int) -> int:
    """The columns of a line, of those of a tile: as many as divide them, and at most as blocks are ``apart``."""
    return max(each for each in range(1, min(columns, apart) + 1) if columns % each == 0)


def bit_gaps(weight: int) -> list[int]:
    """By how much 1 is shifted to the left for each further bit of a positive weight, which is then added; at last 0s.

    Of 44, which is 101100: [2, 1, 2], and of 5, which is 101: [2, 0].
    """
    places = [place for place in range(weight.bit_length()) if weight >> place & 1][::-1]
    return [high - low for high, low in pairwise(places)] + places[-1:]


def can_weight(weight: int, ways: LaneCapabilities) -> bool:
    """Whether what a load brings can be multiplied by ``weight``: by an immediate, or by shifts and sums of its own."""
    if weight in ways.products or weight == 1:
        return True
    counts = bit_gaps(weight) if weight > 0 else []
    return bool(counts) and ways.shifts.issuperset(filter(None, counts)) and (len(counts) == 1 or ways.sums)


def _brought(plan: TilePlan, box: AccumulatorBlock, shape: Elementwise, ways: LaneCapabilities, operand: int) -> None:
    """An operand in a box of its own; what was loaded is weighed there."""
    weight = shape.weights[operand]
    plan.bring(box, ways, operand, shape.factors.index(weight))
    if not shape.direct or weight == 1:
        return
    counts = bit_gaps(weight)
    if weight in ways.products and not (len(counts) == 1 and counts[0] in ways.shifts):
        plan.steps.append(Apply(box, box.extents, (("multiply", weight),)))
        return
    own = AccumulatorBlock(f"own{operand}", *box.extents)
    if len(counts) > 1:
        plan.bring(own, ways, operand, 0)
    for number, count in enumerate(counts):
        if count:
            plan.steps.append(Apply(box, box.extents, (("shift_right", -count),)))
        if number < len(counts) - 1:
            plan.steps.append(Merge(box, own, box.extents, "add"))
