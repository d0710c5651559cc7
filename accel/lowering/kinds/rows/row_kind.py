"""What kinds of regions that are functions of rows have in common."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from accel.accelerator.instructions import Operation
from accel.accelerator.row_functions import RowFunctionName
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.image_padding import NO_PADDING, Padding
from accel.lowering.kinds.lanewise.lanewise_expression import operand_name
from accel.lowering.kinds.region_kind import UsedOperation
from accel.lowering.kinds.rows.row_tiling import RowTiles
from accel.lowering.kinds.used_operations import sum_operations
from accel.region.epilogue import INT8, Epilogue, Scaling
from accel.region.kinds import Region
from accel.region.rows import Rows
from accel.region.shapes import PackedActivation
from accel.region.tilings import Tiling

EPILOGUE = Epilogue((), scaling=Scaling(1.0, *INT8))
"""Of regions of rows: their results are int8, of no other scale."""

Shape = TypeVar("Shape", bound=Rows)


def row_tiling(cut: RowTiles, rows: int) -> Tiling:
    """Returns the tiling of a matrix of so many rows that is cut so."""
    return Tiling(cut.blocks, 1, cut.rows, 1, 1, 1, "stream", cut.contexts, cut.contexts, 1, rows)


class RowKind(Generic[Shape]):
    """A kind of region whose store computes ``function``."""

    function: RowFunctionName

    def padding_of_data(self, region: Region[Shape]) -> Padding:  # noqa: ARG002
        """Nothing."""
        return NO_PADDING

    def activations(self, region: Region[Shape]) -> dict[str, PackedActivation]:
        """The data."""
        return {operand_name(0): region.shape.data}

    def instructions(self, region: Region[Shape], capabilities: Capabilities) -> Iterator[UsedOperation]:  # noqa: ARG002
        """What a tile uses, in its order."""
        yield from sum_operations(Epilogue(()), capabilities)
        store = capabilities.row_store(self.function)
        if store is not None:
            does = "dram[n] = i8(sram[n])"
            yield UsedOperation("store", store, Operation(name=self.function, does=does))

    def host_layout(self, region: Region[Shape]) -> list[str]:  # noqa: ARG002
        """Nothing."""
        return []
