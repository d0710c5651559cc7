"""What regions cost: cycles, each kind of region once."""

from collections.abc import Callable, Sequence
from itertools import islice

from accel.accelerator.target import Target
from accel.expression.syntax_tree import Statement
from accel.lowering.ir.function_attributes import without_numbers
from accel.lowering.kinds.vector_kind import operations_of
from accel.lowering.movement.movement_programs import movement_programs
from accel.lowering.movement.program_orders import orders_of
from accel.region.affine_view import AffineView
from accel.region.kinds import AnyRegion, VectorRegion

StatementKey = tuple[str, tuple[tuple[str, str], ...]]
"""A statement, and the type and the memory of each tensor that it names."""

Prices = Callable[[Sequence[AnyRegion]], Sequence[int | None]]
"""The cycles of each region alone; None where no instructions do it."""


class RegionPrices:
    """The best of a region's orders, once for all regions that differ in numbers alone."""

    def __init__(self, target: Target, prices: Prices) -> None:
        self._target, self._prices = target, prices
        self._known: dict[str, tuple[int, int] | None] = {}
        self._cycles: dict[str, int | None] = {}
        self._priced_regions: dict[str, AnyRegion] = {}
        self._moving: dict[tuple[AffineView, AffineView, str], VectorRegion | None] = {}
        self._operations: dict[StatementKey, tuple[int, ...]] = {}

    def price(self, region: AnyRegion) -> int | None:
        """Returns the cycles of a region, or of one that differs in numbers alone."""
        return self._priced([region])[0]

    def _priced(self, regions: Sequence[AnyRegion]) -> list[int | None]:
        """Returns the cycles of regions. New ones are priced together: another process may take half."""
        keys = [without_numbers(region) for region in regions]
        new = {key: region for key, region in zip(keys, regions, strict=True) if key not in self._cycles}
        self._priced_regions |= new
        self._cycles |= dict(zip(new, self._prices(list(new.values())), strict=True)) if new else {}
        return [self._cycles[key] for key in keys]

    def best(self, region: VectorRegion) -> tuple[int, VectorRegion] | None:
        """Returns the cycles, and the region in the order that takes the fewest; None where no instructions do it.

        Regions that differ in numbers alone are priced alike.
        """
        found = self._best(region)
        if found is None:
            return None
        cycles, place = found
        return cycles, next(islice(orders_of(region, self._target.accelerator), place, None))

    def cycles(self, region: VectorRegion) -> int | None:
        """Returns the cycles of a region in its best order; None where no instructions do it."""
        found = self._best(region)
        return None if found is None else found[0]

    def _best(self, region: VectorRegion) -> tuple[int, int] | None:
        """The cycles of the best order, and its place among all."""
        key = without_numbers(region)
        if key not in self._known:
            self._known[key] = self._cheapest(list(orders_of(region, self._target.accelerator)))
        return self._known[key]

    def moving(self, source: AffineView, result: AffineView, dtype: str) -> VectorRegion | None:
        """Returns the program that moves a tensor in the fewest cycles; None where no instructions move it.

        Args:
            source: how it lies where it is.
            result: how it shall lie.
            dtype: of its elements.
        """
        key = source, result, dtype
        if key not in self._moving:
            programs = list(movement_programs(source, result, dtype, self._target.accelerator))
            found = self._cheapest(programs)
            self._moving[key] = None if found is None else programs[found[1]]
        return self._moving[key]

    def _cheapest(self, regions: Sequence[VectorRegion]) -> tuple[int, int] | None:
        """The cycles of the cheapest, and its place; the first of several."""
        priced = enumerate(self._priced(regions))
        return min(((cycles, place) for place, cycles in priced if cycles is not None), default=None)

    def can(self, region: AnyRegion) -> bool:
        """Returns whether instructions do a region with the numbers that it has.

        Those that do another one's statements do them in the same way, whatever the numbers.
        """
        key = without_numbers(region)
        other = self._priced_regions.get(key)
        if isinstance(region, VectorRegion) and isinstance(other, VectorRegion) and self._alike(region, other):
            return self._cycles[key] is not None
        return self._prices([region])[0] is not None

    def _alike(self, one: VectorRegion, other: VectorRegion) -> bool:
        """Whether the same operations do the statements of two programs, which differ in numbers alone."""
        pairs = zip(one.shape.parsed, other.shape.parsed, strict=True)
        return all(a == b or self._done_by(one, a) == self._done_by(other, b) for a, b in pairs)

    def _done_by(self, region: VectorRegion, statement: Statement) -> tuple[int, ...]:
        tensors = [region.shape.tensor(name) for name in (statement.target.name, *statement.operands)]
        key = str(statement), tuple((tensor.dtype, tensor.memory) for tensor in tensors)
        if key not in self._operations:
            self._operations[key] = operations_of(statement, region.shape, self._target)
        return self._operations[key]
