"""Tiles of rows in the accumulators, for the stores that compute functions of whole rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from accel.accelerator.instructions import Copy
from accel.accelerator.row_functions import RowFunction, RowFunctionName
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.lanewise_capabilities import identity_obstacle
from accel.region.row_layer_norm import PRODUCTS


@dataclass(frozen=True)
class RowTiles:
    """Tiles of so many ``rows`` of so many ``blocks``, of which as many as ``contexts`` are on the chip."""

    rows: int
    blocks: int
    contexts: int


def softmax_obstacle(capabilities: Capabilities, rows: int, columns: int, octaves: int) -> str:
    """Returns why no store computes softmax of a matrix, ``2**octaves`` times as large; empty where one does."""
    found = softmax_tiles(capabilities, rows, columns, octaves)
    return found if isinstance(found, str) else ""


def softmax_tiles(capabilities: Capabilities, rows: int, columns: int, octaves: int) -> RowTiles | str:
    """Returns how a matrix is cut for the store that computes softmax of its rows; or why it cannot be."""
    apart = octaves > 0
    return _row_tiles(capabilities, (rows, columns), _Room("softmax", boxes=1 + apart, ones=apart, factors=1 + apart))


def layer_norm_obstacle(capabilities: Capabilities, rows: int, columns: int) -> str:
    """Returns why no store computes layer norm of the rows of a matrix; empty where one does."""
    found = layer_norm_tiles(capabilities, rows, columns)
    return found if isinstance(found, str) else ""


def layer_norm_tiles(capabilities: Capabilities, rows: int, columns: int) -> RowTiles | str:
    """Returns how a matrix is cut for the store that computes layer norm of its rows; or why it cannot be.

    What is stored and what the deviation is of share the rows between two blocks, so that long rows fit.
    """
    room = _Room("layer_norm", boxes=1, ones=False, factors=PRODUCTS + 1, shared=2)
    return _row_tiles(capabilities, (rows, columns), room)


def softmax_columns(capabilities: Capabilities) -> tuple[int, int]:
    """Returns the least and the most columns of rows of which a store computes softmax, several at a time; 0 if none.

    With what is summed apart from what is stored the most fill the accumulators.
    """
    return _columns(capabilities, "softmax", 2, lambda rows, columns: softmax_obstacle(capabilities, rows, columns, 1))


def layer_norm_columns(capabilities: Capabilities) -> tuple[int, int]:
    """Returns the least and the most columns of rows of which a store computes layer norm; 0 if none."""
    return _columns(capabilities, "layer_norm", 1, partial(layer_norm_obstacle, capabilities))


def _columns(
    capabilities: Capabilities, name: RowFunctionName, boxes: int, obstacle: Callable[[int, int], str]
) -> tuple[int, int]:
    store, gemm = capabilities.row_store(name), capabilities.gemm
    if store is None or store.rows is None or store.blocks is None:
        return 0, 0
    apart = boxes * (store.blocks.apart or 1) * gemm.dst.elements
    least, most = store.rows.least_blocks - 1, gemm.dst.memory.depth // apart
    if obstacle(store.rows.kept, most * gemm.out_channels):
        return 0, 0
    return least * gemm.out_channels + 1, most * gemm.out_channels


@dataclass(frozen=True)
class _Room:
    """What a tile of a function takes: boxes of accumulators, a tile of constant data, matrices of factors.

    ``shared``: the rows that lie in each box for one row of the tile.
    """

    function: RowFunctionName
    boxes: int
    ones: bool
    factors: int
    shared: int = 1


def _row_tiles(capabilities: Capabilities, size: tuple[int, int], room: _Room) -> RowTiles | str:
    """How a matrix of so many rows and columns is cut, or why it cannot be."""
    title, gemm, store = capabilities.accelerator.title, capabilities.gemm, capabilities.row_store(room.function)
    what = room.function.replace("_", " ")
    if store is None or store.rows is None:
        return f"{title} has no store that computes {what} of rows"
    begins = gemm.zero is not None or gemm.overwrites
    weighs = not identity_obstacle(capabilities) and capabilities.small and gemm.rows == 1
    if not weighs or not begins:
        return f"{title} cannot bring int8 times a weight into its accumulators row by row"
    if gemm.dst.blocks == 1 or not gemm.results_are_data:
        return f"the blocks of a row do not lie side by side in the DRAM of {title}"
    rows, columns = size
    blocks = math.ceil(columns / gemm.out_channels)
    tile = _row_tile(rows, blocks, store, room.shared)
    if tile is None:
        least = _least(store.rows, gemm.out_channels)
        return f"{title} computes {what} of rows, but not of {rows} with {columns} columns: {least}"
    for contexts in (2, 1):
        found = RowTiles(tile, blocks, contexts)
        if _fits(found, store, capabilities, room):
            return found
    return f"rows of {columns} columns do not fit the accumulators of {title}"


def _least(function: RowFunction, columns: int) -> str:
    """What rows lack that are too short, or too few."""
    short = f"a row must have more than {(function.least_blocks - 1) * columns} columns"
    return f"{short}, and {function.apart} blocks of others come between two passes over it"


def _row_tile(rows: int, blocks: int, store: Copy, shared: int) -> int | None:
    """The rows of a tile: of all of which the groups of rows, and one a tile beside, are fewest, the largest.

    None where no rows of so many ``blocks`` are taken so. Of the rows between two blocks each takes ``shared``.
    """
    assert store.rows is not None
    assert store.blocks is not None
    most = min(rows, (store.blocks.apart or 1) // shared)
    found = [tile for tile in range(1, most + 1) if store.rows.takes(tile, blocks)]
    taken = {tile: -(-rows // tile) * (_taken(tile, store.rows) + store.rows.kept) for tile in found}
    return min(found, key=lambda tile: (taken[tile], -tile), default=None)


def _taken(rows: int, function: RowFunction) -> int:
    """The rows that the groups of a tile take, some of them twice where groups do not divide them."""
    together = min(rows, function.kept)
    return -(-rows // together) * together


def _fits(tiles: RowTiles, store: Copy, capabilities: Capabilities, room: _Room) -> bool:
    """Whether data, the constants, and the accumulators have room."""
    gemm = capabilities.gemm
    places = tiles.blocks * (1 if store.blocks is None else store.blocks.apart or 1) * gemm.dst.elements
    used = {gemm.dst.memory.name: tiles.contexts * places * room.boxes}
    data = (tiles.contexts * tiles.blocks + room.ones) * tiles.rows
    for operand, count in ((gemm.data, data), (gemm.weights, room.factors)):
        used[operand.memory.name] = used.get(operand.memory.name, 0) + count * operand.elements
    return capabilities.accelerator.fits(used)
