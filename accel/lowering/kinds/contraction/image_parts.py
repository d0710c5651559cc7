"""Parts of an image of sums, one a tile, of which a store takes the largest of windows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tvm import tirx

from accel.lowering.ir.affine_nest import simplify
from accel.lowering.ir.epilogue_arithmetic import largest_of
from accel.region.kinds import Region
from accel.region.shapes import Convolution, StoredWindows
from accel.region.tilings import Tiling

LOWEST = "lowest"
"""The parameter that borders of parts are loaded from, ``[*tile of dst]``: the least int32 in each element."""

Int = Any  # a tirx.Expr of int32, or an int


@dataclass(frozen=True)
class ImageParts:
    """How the tiles of a result, of windows, lie on an image of sums.

    In the tensor of sums one part lies behind the other, so that tiles cut it without overlap.

    Attributes:
        size: rows and columns of the image.
        pooled: the windows.
        result: the tiling of the windows.
    """

    size: tuple[int, int]
    pooled: StoredWindows
    result: Tiling

    @property
    def counts(self) -> tuple[int, int]:
        """Rows and columns of windows of a tile."""
        return self.result.out_rows, self.result.out_columns

    @cached_property
    def spans(self) -> tuple[int, int]:
        """Rows and columns of a part."""
        rows, columns = (self.pooled.span(axis, count, self.size[axis]) for axis, count in enumerate(self.counts))
        return rows, columns

    @cached_property
    def borders(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows before and behind a part, and columns."""
        return self.pooled.borders(self.size)

    @property
    def bordered(self) -> bool:
        """Whether parts have a border."""
        return self.pooled.leave(self.size)

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of a part within its border."""
        rows, columns = (self.pooled.extent(axis, count, self.size[axis]) for axis, count in enumerate(self.counts))
        return rows, columns

    @property
    def tiling(self) -> Tiling:
        """The tiling of the sums."""
        rows, columns = self.spans
        high, wide = (self.pooled.tiles(axis, count) for axis, count in enumerate(self.counts))
        return replace(
            self.result, out_rows=rows, out_columns=columns, out_pitch_h=high * rows, out_pitch_w=wide * columns
        )

    def place(self, axis: int, at: Int) -> Int:
        """The row (``axis`` 0) or column of the image that a row or column of the tensor of sums is."""
        span = self.spans[axis]
        if self.pooled.tiles(axis, self.counts[axis]) == 1:
            return at
        return self._first(axis, tirx.floordiv(at, span)) + tirx.floormod(at, span)

    def window(self, axis: int, tile: Int) -> Int:
        """The first row or column of windows of a tile."""
        count = self.counts[axis]
        last, first = self.pooled.counts[axis] - count, tile * count
        return first if last % count == 0 else tirx.min(first, tirx.const(last, "int32"))

    def ahead(self, axis: int, tile: Int) -> Int:
        """How far behind the first row or column of a part its windows begin; less than 0: in the border before it."""
        begin, zero = self._begin(axis, tile), tirx.const(0, "int32")
        before, behind = self.borders[axis]
        found = tirx.min(zero, begin) if before else zero
        return simplify(found + tirx.max(zero, begin - (self.size[axis] - self.spans[axis])) if behind else found)

    def largest(self, sums: Any, lowest: Any, stored: Callable[..., Any]) -> Callable[..., Any]:
        """The element of the result.

        Args:
            sums: the tensor of sums.
            lowest: what borders are loaded from, None where there are none.
            stored: what leaves of a sum, by its value and its place in the tensor of sums.
        """

        def found(n: Int, c: Int, y: Int, x: Int, *inner: Int) -> Any:
            tiles = [tirx.floordiv(at, count) for at, count in zip((y, x), self.counts, strict=True)]
            first = [at - self.window(axis, tile) for axis, (at, tile) in enumerate(zip((y, x), tiles, strict=True))]

            def value(_block: Int, *at: Int) -> Any:
                rows = [self.ahead(axis, tile) + each for axis, (tile, each) in enumerate(zip(tiles, at, strict=True))]
                place = [
                    n,
                    c,
                    *(tile * span + row for tile, span, row in zip(tiles, self.spans, rows, strict=True)),
                    *inner,
                ]
                value = sums(*place)
                if lowest is not None:
                    bounds = [
                        bound for row, span in zip(rows, self.spans, strict=True) for bound in (row >= 0, row < span)
                    ]
                    value = tirx.if_then_else(tirx.all(*bounds), value, lowest(*inner))
                return stored(value, place)

            return largest_of(value, self.pooled.window, (0, *first))

        return found

    def _first(self, axis: int, tile: Int) -> Int:
        """The first row or column of a part."""
        return simplify(self._begin(axis, tile) - self.ahead(axis, tile))

    def _begin(self, axis: int, tile: Int) -> Int:
        """The row or column of the image where the windows of a tile begin, which may be before it."""
        return self.window(axis, tile) * self.pooled.window.strides[axis] - self.pooled.window.padding[axis]


def parts_of(region: Region[Convolution]) -> ImageParts | None:
    """The parts of a region whose store takes windows; None of another."""
    shape, pooled = region.shape, region.shape.pooled
    return None if pooled is None else ImageParts(shape.sums, pooled, region.tiling)


def sums_tiling(region: Region[Convolution]) -> Tiling:
    """The tiling of the sums of a region."""
    parts = parts_of(region)
    return region.tiling if parts is None else parts.tiling
