"""Shapes of convolutions and additions over packed operands, counted in blocks of the accelerator's tile.

Weights of an addition that int8 cannot hold are split into an upper and a lower part of 7 bits: ``a * m + b * n`` is
then two sums with int8 weights, the first shifted left before the second is added to it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Protocol

Patches = Literal["rows", "channels", "rows of taps", "columns of taps"]


Sides = tuple[int, int, int, int]
"""Rows and columns at the top, left, bottom and right."""


@dataclass(frozen=True)
class PackedActivation:
    """A packed activation ``[batch, blocks, pitch_h, pitch_w, *tile]``; the document orders the tile's two axes.

    ``height`` and ``width`` are the rows and columns that mean something; the pitches may be larger, as the
    producer's tiles need not divide its height and width. They begin at row ``top`` and column ``left``: what lies
    around them is a border, or what else a larger image in DRAM has.
    """

    batch: int
    blocks: int
    height: int
    width: int
    pitch_h: int
    pitch_w: int
    top: int = 0
    left: int = 0

    @property
    def extents(self) -> tuple[int, int, int, int]:
        """Images, blocks, rows and columns that mean something, wherever they lie."""
        return self.batch, self.blocks, self.height, self.width

    @property
    def around(self) -> Sides:
        """What lies around them in DRAM."""
        return self.top, self.left, self.pitch_h - self.top - self.height, self.pitch_w - self.left - self.width

    def with_columns_as_blocks(self, count: int) -> "PackedActivation":
        """Returns the extents, without room between rows, where so many neighbouring columns are taken as blocks."""
        return PackedActivation.dense(self.batch, self.blocks * count, self.height, self.width // count)

    def grown(self, sides: Sides) -> "PackedActivation | None":
        """Returns the window that has so much more on each side, of what lies around; None where less does."""
        if any(more > there for more, there in zip(sides, self.around, strict=True)):
            return None
        top, left, bottom, right = sides
        return replace(
            self,
            height=top + self.height + bottom,
            width=left + self.width + right,
            top=self.top - top,
            left=self.left - left,
        )

    @staticmethod
    def dense(batch: int, blocks: int, height: int, width: int) -> "PackedActivation":
        """Returns the activation without room between its rows."""
        return PackedActivation(batch, blocks, height, width, height, width)


class RegionShape(Protocol):
    """What a region computes, over packed operands.

    ``kind`` names the kind of region in attributes of functions; ``accel/lowering/kinds`` compiles it.
    """

    kind: ClassVar[str]

    @property
    def result(self) -> PackedActivation:
        """The result, without room between its rows."""


@dataclass(frozen=True)
class SlidingWindow:
    """How a convolution over [N, C, H, W] walks its data; ``padding`` is top, left, bottom, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]

    @property
    def is_tiling(self) -> bool:
        """Whether windows lie side by side within the data: each element is in one."""
        return self.kernel == self.strides and self.dilation == (1, 1) and not any(self.padding)


class WindowAxis(NamedTuple):
    """How windows go along an axis, elements: so many ``taps``, ``apart`` from one to the next.

    There are ``made`` windows, from ``before`` the first of the ``given`` elements on.
    """

    taps: int
    apart: int
    stride: int
    before: int
    given: int
    made: int

    @property
    def after(self) -> int:
        """The padding at the end, as far as windows reach."""
        return max(self.slice_of(self.taps - 1)[1] - self.before - self.given, 0)

    @property
    def moves(self) -> bool:
        """Whether windows are not the elements themselves."""
        return self.taps > 1 or self.stride > 1

    def slice_of(self, tap: int) -> tuple[int, int]:
        """Returns where one element of each window begins and ends, a stride apart, in what has its padding."""
        first = tap * self.apart
        return first, first + (self.made - 1) * self.stride + 1


@dataclass(frozen=True)
class StoredWindows:
    """``height`` by ``width`` windows of an image of results, of each of which ``store`` leaves the largest.

    ``store`` is the name of an instruction.

    A tile is so many rows and columns of windows, and the part of the image that these lie on: parts of neighbouring
    tiles overlap where their windows do. Where tiles do not divide the windows the last one has some of those before it
    once more. What windows have outside of the image lies as a border around each part, which never lies beyond it.
    """

    window: SlidingWindow
    height: int
    width: int
    store: str

    @property
    def counts(self) -> tuple[int, int]:
        """Rows and columns of windows."""
        return self.height, self.width

    def tiles(self, axis: int, count: int) -> int:
        """Tiles of so many rows (``axis`` 0) or columns of windows."""
        return -(-self.counts[axis] // count)

    def span(self, axis: int, count: int, size: int) -> int:
        """Rows or columns of a part of an image of ``size``."""
        before = self.window.padding[axis] if count == self.counts[axis] else 0  # then a tile begins with the image
        return min(size, self.reach(axis, count) - before)

    def reach(self, axis: int, count: int) -> int:
        """Rows or columns that the windows of a tile have."""
        return (count - 1) * self.window.strides[axis] + self.window.kernel[axis]

    def border(self, axis: int, size: int) -> tuple[int, int]:
        """Rows or columns before and behind a part."""
        before = self.window.padding[axis]
        ends = (self.counts[axis] - 1) * self.window.strides[axis] - before + self.window.kernel[axis]
        return before, max(0, ends - size)

    def borders(self, image: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows before and behind a part of an image of so many rows and columns, and columns."""
        return self.border(0, image[0]), self.border(1, image[1])

    def leave(self, image: tuple[int, int]) -> bool:
        """Whether some windows have something outside of the image."""
        return any(map(any, self.borders(image)))

    def extent(self, axis: int, count: int, size: int) -> int:
        """Rows or columns of a part within its border."""
        return self.span(axis, count, size) + sum(self.border(axis, size))


@dataclass(frozen=True)
class Convolution:
    """A two-dimensional convolution over packed operands; a dense layer has height 1 and its rows as width.

    Output block i sums the ``data.blocks / groups`` blocks of data of its group, of ``out_blocks / groups`` blocks.
    ``uniform``: one tile of weights, the identity, is that of every block and tap. ``addend``: data of the result's own
    shape, which the epilogue adds.
    ``padding`` is what the loads add; ``host_padding`` (top, left, bottom, right) is already in ``data``. Where
    ``unfolded`` is set it stands for the convolution with that window, whose patches the host makes the ``rows`` of a
    matrix or the ``channels`` of an image, as ``patches`` says; or each of its ``rows of taps`` is the channels of a
    pixel, and a run in an image of channels last; or each of its ``columns of taps``. ``pooled``: the store leaves the
    largest of windows of its results, of which ``out_height`` and ``out_width`` are the image.
    """

    kind: ClassVar[str] = "convolution"

    data: PackedActivation
    out_blocks: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]  # top, left, bottom, right
    out_height: int
    out_width: int
    host_padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    unfolded: SlidingWindow | None = None
    patches: Patches = "rows"
    groups: int = 1
    uniform: bool = False
    addend: PackedActivation | None = None
    pooled: StoredWindows | None = None

    @property
    def sums(self) -> tuple[int, int]:
        """Rows and columns of the image of sums."""
        return self.out_height, self.out_width

    @property
    def borders(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows before and behind the sums of a tile, and columns; none but where windows leave the image of sums."""
        return ((0, 0), (0, 0)) if self.pooled is None else self.pooled.borders(self.sums)

    @property
    def stored(self) -> tuple[int, int]:
        """Rows and columns of the image that leaves."""
        return self.sums if self.pooled is None else self.pooled.counts

    @property
    def result(self) -> PackedActivation:
        """The result, without room between its rows."""
        return PackedActivation.dense(self.data.batch, self.out_blocks, *self.stored)

    @property
    def run_axis(self) -> int | None:
        """The axis of the plane, 0 or 1, along which taps are channels of a pixel, which are a run; None of others."""
        return {"columns of taps": 0, "rows of taps": 1}.get(self.patches) if self.unfolded is not None else None

    @property
    def of_rows(self) -> bool:
        """Whether its result is a matrix whose rows are the pixels of an image."""
        return self.unfolded is not None and self.patches == "rows"

    @property
    def reduced_blocks(self) -> int:
        """Blocks of data that an output block sums."""
        return self.data.blocks // self.groups

    @property
    def group_blocks(self) -> int:
        """Output blocks of a group."""
        return self.out_blocks // self.groups


@dataclass(frozen=True)
class Addition:
    """``a * m + b * n`` of two packed operands of one logical shape, by the int8 weights of ``levels``.

    They are (m, n), or the upper and the lower parts of those: between the levels the sum is shifted left by 7.
    """

    kind: ClassVar[str] = "addition"

    operands: tuple[PackedActivation, PackedActivation]
    levels: tuple[tuple[int, int], ...]

    @property
    def result(self) -> PackedActivation:
        """The result, without room between its rows."""
        first = self.operands[0]
        return PackedActivation.dense(first.batch, first.blocks, first.height, first.width)

    @property
    def weights(self) -> tuple[int, int]:
        """The whole weights, (m, n)."""
        m = n = 0
        for upper, lower in self.levels:
            m, n = (m << LEVEL_BITS) + upper, (n << LEVEL_BITS) + lower
        return m, n


LEVEL_BITS = 7
_WEIGHT_MAX = 127

SplitWeights = tuple[tuple[int, int], ...]


def split_weights(factors: tuple[int, int]) -> SplitWeights | None:
    """The int8 weights that ``factors``, which are positive, are made of; None if two levels do not reach."""
    if max(factors) <= _WEIGHT_MAX:
        return (factors,)
    upper = [(factor + (1 << LEVEL_BITS - 1)) >> LEVEL_BITS for factor in factors]
    lower = [factor - (part << LEVEL_BITS) for factor, part in zip(factors, upper, strict=True)]
    return ((upper[0], upper[1]), (lower[0], lower[1])) if max(upper) <= _WEIGHT_MAX else None
