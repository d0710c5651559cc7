"""Tiles of rows in the accumulators, for stores that compute functions of whole rows."""

from accel.accelerator.instructions import Copy
from accel.accelerator.row_functions import RowFunction
from accel.lowering.analysis.capabilities import Capabilities
from accel.region.row_softmax import RowSoftmax


def row_tiles(rows: int, blocks: int, store: Copy) -> int | None:
    """Returns the rows of a tile: of all of which the groups of rows, and one a tile beside, are fewest, the largest.

    None where no rows of so many ``blocks`` are taken so.
    """
    assert store.rows is not None
    assert store.blocks is not None
    most = min(rows, store.blocks.apart or 1)
    found = [tile for tile in range(1, most + 1) if store.rows.takes(tile, blocks)]
    taken = {tile: -(-rows // tile) * (_taken(tile, store.rows) + store.rows.kept) for tile in found}
    return min(found, key=lambda tile: (taken[tile], -tile), default=None)


def _taken(rows: int, function: RowFunction) -> int:
    """The rows that the groups of a tile take, some of them twice where groups do not divide them."""
    together = min(rows, function.kept)
    return -(-rows // together) * together


def fits_accumulators(shape: RowSoftmax, contexts: int, store: Copy, capabilities: Capabilities) -> bool:
    """Returns whether data, the weighted identity, and the accumulators of so many tiles have room."""
    gemm = capabilities.gemm
    apart = 1 if store.blocks is None else store.blocks.apart or 1
    places = shape.data.blocks * apart * (2 if shape.softmax.octaves else 1) * gemm.dst.elements
    used = {gemm.dst.memory.name: contexts * places}
    constants = 2 if shape.softmax.octaves else 1
    data = contexts * shape.data.blocks * shape.rows + constants - 1
    for operand, count in ((gemm.data, data), (gemm.weights, constants)):
        used[operand.memory.name] = used.get(operand.memory.name, 0) + count * operand.elements
    return capabilities.accelerator.fits(used)


def softmax_columns(capabilities: Capabilities) -> tuple[int, int]:
    """Returns the least and the most columns of rows of which a store computes softmax, several at a time; 0 if none.

    With what is summed apart from what is stored the most fill the accumulators.
    """
    store, gemm = capabilities.row_store("softmax"), capabilities.gemm
    if store is None or store.rows is None or store.blocks is None:
        return 0, 0
    apart = 2 * (store.blocks.apart or 1) * gemm.dst.elements
    return (store.rows.least_blocks - 1) * gemm.out_channels + 1, gemm.dst.memory.depth // apart * gemm.out_channels
