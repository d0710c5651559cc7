"""Tiles of rows in the accumulators, for stores that compute functions of whole rows."""

from accel.accelerator.instructions import Copy
from accel.accelerator.row_functions import RowFunction
from accel.lowering.analysis.capabilities import Capabilities
from accel.region.row_softmax import RowSoftmax
from accel.region.tilings import divisors


def row_tiles(rows: int, blocks: int, store: Copy) -> tuple[int, int] | None:
    """Returns the rows of a tile, and those from one tile to the next, which has some of them too if that is less.

    Rows of tiles are taken in groups: those are chosen of which the fewest are computed. None where no rows of so many
    ``blocks`` are taken so.
    """
    assert store.rows is not None
    assert store.blocks is not None
    found: list[tuple[int, int, int]] = []
    for tile in range(1, min(rows, store.blocks.apart or 1) + 1):
        if not store.rows.takes(tile, blocks):
            continue
        steps = [step for step in divisors(rows - tile) if step <= tile] if rows > tile else [tile]
        if steps:
            tiles = (rows - tile) // steps[-1] + 1
            found.append((tiles * _taken(tile, store.rows), tile, steps[-1]))
    if not found:
        return None
    _, tile, step = min(found, key=lambda each: (each[0], -each[1]))
    return tile, step


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
    for operand, count in ((gemm.data, contexts * shape.data.blocks * shape.rows), (gemm.weights, 1)):
        used[operand.memory.name] = used.get(operand.memory.name, 0) + count * operand.elements
    return capabilities.accelerator.fits(used)
