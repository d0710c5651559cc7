"""Functions of whole rows over packed data: what regions of all of them have."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from accel.region.shapes import PackedActivation


@dataclass(frozen=True)
class Rows:
    """A function of each row of ``data``, of which so many ``columns`` count, in tiles of ``rows`` rows.

    Where tiles do not divide the rows the last one has some of those before it once more.
    """

    kind: ClassVar[str]

    data: PackedActivation
    columns: int
    rows: int

    def over(self, data: PackedActivation) -> Self:
        """The same over data of other pitches."""
        return replace(self, data=data)

    @property
    def result(self) -> PackedActivation:
        """The result, without room between its rows."""
        return PackedActivation.dense(self.data.batch, self.data.blocks, self.data.height, self.data.width)

    @property
    def tiles(self) -> int:
        """Tiles of all rows."""
        return -(-self.data.width // self.rows)
