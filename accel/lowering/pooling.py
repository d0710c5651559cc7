"""The shape of a maximum over windows of a packed image, and the tile of it that one turn makes."""

from dataclasses import dataclass, replace

from accel.lowering.geometry import Packed, Window


@dataclass(frozen=True)
class Pooling:
    """``max`` over the window of each channel of ``data``, counted as a :class:`Convolution` is.

    ``window.padding`` are zeros that the loads add, and no datum is below them; ``host_padding`` (top, left, bottom,
    right) is already in ``data``, of the least int8. ``direct``: int8 data are loaded into the accumulators as they
    are; else a contraction with the identity brings them there.
    """

    data: Packed
    window: Window
    out_height: int
    out_width: int
    direct: bool
    host_padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    def over(self, operands: tuple[Packed, ...]) -> "Pooling":
        """The same over data of other pitches."""
        (data,) = operands
        return replace(self, data=data)

    @property
    def operands(self) -> tuple[Packed, ...]:
        """The data."""
        return (self.data,)

    @property
    def factors(self) -> tuple[int, ...]:
        """Data are added, and taken off for differences."""
        return (1, -1)

    @property
    def strides(self) -> tuple[int, int]:
        """Those of the window."""
        return self.window.strides

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """That of the loads."""
        return self.window.padding

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        return self.out_height, self.out_width

    def reach(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of the data that a tile of so many rows and columns of the result reads."""
        window = self.window
        height, width = (
            (extent - 1) * stride + (size - 1) * dilation + 1
            for extent, stride, size, dilation in zip(
                (rows, columns), window.strides, window.kernel, window.dilation, strict=True
            )
        )
        return height, width


@dataclass(frozen=True)
class Taps:
    """The taps of a window along one axis that lie ``phase`` after a multiple of the stride.

    ``shifts`` are how many strides on, ascending, at equal distances.
    """

    phase: int
    shifts: tuple[int, ...]

    @property
    def span(self) -> int:
        """By how much the last tap is beyond the first, strides."""
        return self.shifts[-1] - self.shifts[0]


def taps(size: int, stride: int, dilation: int) -> list[Taps]:
    """The taps of an axis by their phase; those with most taps come first."""
    phases: dict[int, list[int]] = {}
    for tap in range(size):
        phases.setdefault(tap * dilation % stride, []).append(tap * dilation // stride)
    return sorted((Taps(phase, tuple(shifts)) for phase, shifts in phases.items()), key=lambda t: -len(t.shifts))
