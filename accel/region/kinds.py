"""Region: its shape of one of four kinds, its epilogue and its tiling; and the tiles in which its data lie."""

from dataclasses import dataclass
from typing import Literal

from accel.accelerator.contraction import Axis, Contraction, Tile
from accel.region.elementwise import Elementwise
from accel.region.epilogue import Epilogue
from accel.region.pooling import Pooling
from accel.region.shapes import Addition, Convolution
from accel.region.tilings import Tiling


@dataclass(frozen=True)
class Region:
    """A PrimFunc that the accelerator runs: its shape, what follows it, and how it is cut.

    ``host_reason`` says why the host does the rest of the composite; empty where there is none.
    """

    kind: Literal["convolution", "addition", "pooling", "elementwise"]
    shape: Convolution | Addition | Pooling | Elementwise
    epilogue: Epilogue
    tiling: Tiling
    host_reason: str = ""


def lane_tile(gemm: Contraction, *, direct: bool) -> Tile:
    """The tiles in which data lie: those of a contraction's data, or those of its results if they go there directly."""
    if not direct:
        return gemm.data
    axes: list[Axis] = ["k" if axis == "n" else axis for axis in gemm.dst.axes]
    memory = gemm.dst.memory.model_copy(update={"dtype": "int8"})
    return Tile("data", memory, (axes[0], axes[1]), gemm.dst.shape)
