"""Region: its shape, which is of one of the kinds listed here, its epilogue and its tiling; and its tiles of data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal

from typing_extensions import TypeVar

from accel.accelerator.contraction import Axis, Contraction, Tile
from accel.region.affine_view import AffineView
from accel.region.elementwise import Elementwise
from accel.region.epilogue import Epilogue
from accel.region.pooling import Pooling
from accel.region.row_layer_norm import RowLayerNorm
from accel.region.row_softmax import RowSoftmax
from accel.region.shapes import Addition, Convolution, PackedActivation, RegionShape, Sides
from accel.region.tilings import Tiling
from accel.region.vector_program import VectorProgram

Views = tuple[AffineView | None, ...]
"""How the tensors of a region lie in DRAM, in the order of its parameters; None of one that is as it is, or is left out
at the end."""

SHAPES: tuple[type[RegionShape], ...] = (Convolution, Addition, Pooling, Elementwise, RowSoftmax, RowLayerNorm)
"""The shape of each kind of region."""

Shape_co = TypeVar("Shape_co", bound=RegionShape, default=RegionShape, covariant=True)


@dataclass(frozen=True)
class Region(Generic[Shape_co]):
    """A PrimFunc that the accelerator runs: its shape, what follows it, and how it is cut.

    ``host_reason`` says why the host does the rest of the composite; empty where there is none. ``border`` are rows and
    columns around each image of the result that are in DRAM before the program runs, and that nobody writes. ``views``
    are of its operands, and results, where they lie otherwise than it reads and writes them.
    """

    shape: Shape_co
    epilogue: Epilogue
    tiling: Tiling
    host_reason: str = ""
    border: Sides = (0, 0, 0, 0)
    views: Views = ()

    @property
    def result(self) -> PackedActivation:
        """The result as it lies in DRAM: its rows and columns are whole tiles, within its border."""
        top, left, bottom, right = self.border
        return replace(
            self.shape.result,
            pitch_h=top + self.tiling.out_pitch_h + bottom,
            pitch_w=left + self.tiling.out_pitch_w + right,
            top=top,
            left=left,
        )

    @property
    def tiles(self) -> int:
        """Tiles of the whole result."""
        tiling = self.tiling
        result = self.shape.result.with_columns_as_blocks(tiling.columns_as_blocks)
        stacks = -(-result.blocks // tiling.out_blocks)
        return result.batch * stacks * -(-result.height // tiling.out_rows) * -(-result.width // tiling.out_columns)


@dataclass(frozen=True)
class VectorRegion:
    """A PrimFunc that the accelerator runs as a vector program, which says how it is cut; ``views`` as a region has."""

    shape: VectorProgram
    views: Views = ()


AnyRegion = Region | VectorRegion
"""What a launch can be of."""

Prices = Callable[[Sequence[AnyRegion]], Sequence[int | None]]
"""The cycles of each region alone; None where no instructions do it."""


@dataclass(frozen=True)
class TilingOption(Generic[Shape_co]):
    """A way to run a layer, and its estimated cycles."""

    cycles: float
    region: Region[Shape_co]


Role = Literal[
    "load micro-ops", "load data", "load weights", "load bias", "clear", "contract", "compute", "epilogue", "store"
]
"""What a launch needs an instruction for."""


def lane_tile(gemm: Contraction, *, direct: bool) -> Tile:
    """The tiles in which data lie: those of a contraction's data, or those of its results if they go there directly."""
    if not direct:
        return gemm.data
    axes: list[Axis] = ["k" if axis == "n" else axis for axis in gemm.dst.axes]
    memory = gemm.dst.memory.model_copy(update={"dtype": "int8"})
    return Tile("data", memory, (axes[0], axes[1]), gemm.dst.shape, gemm.dst.blocks)
