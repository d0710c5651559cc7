"""Lines that tilings read and write past a Gemmini's L2, beside a cache that forgets what was used longest ago."""

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pytest

from accel.isa.gemmini.document.gemmini_parameters import LINE_BYTES, GemminiParameters, MemoryHierarchy
from accel.isa.gemmini.gemmini_cache_misses import missed_lines
from accel.region.shapes import Convolution, PackedActivation
from accel.region.tilings import Order, candidates_of_tiles

DIM, KIB = 16, 1024
BLOCKS, OUT_BLOCKS, SIZE = 8, 8, 32  # blocks of channels in and out, rows and columns


def layer() -> Convolution:
    data = PackedActivation(1, BLOCKS, SIZE, SIZE, SIZE, SIZE, 0, 0)
    return Convolution(data, OUT_BLOCKS, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), SIZE, SIZE)


def accesses(order: Order, out_blocks: int, rows: int, in_blocks: int) -> Iterator[tuple[str, int]]:
    """The lines that a tiling of a 1x1 layer uses, blocks side by side in DRAM, one after the other."""
    groups, strips = range(0, OUT_BLOCKS, out_blocks), range(0, SIZE, rows)
    pairs = [(g, s) for s in strips for g in groups] if order == "data" else [(g, s) for g in groups for s in strips]
    for group, strip in pairs:
        for block in range(0, BLOCKS, in_blocks):
            for pixel in range(strip * SIZE, (strip + rows) * SIZE) if order != "data" or group == 0 else ():
                first = (pixel * BLOCKS + block) * DIM
                yield from (("data", line) for line in lines(first, in_blocks * DIM))
            for row in range(block * DIM, (block + in_blocks) * DIM):
                first = (row * OUT_BLOCKS + group) * DIM
                yield from (("weights", line) for line in lines(first, out_blocks * DIM))


def lines(first: int, count: int) -> range:
    return range(first // LINE_BYTES, (first + count - 1) // LINE_BYTES + 1)


def counted(order: Order, out_blocks: int, rows: int, in_blocks: int, l2_bytes: int) -> dict[str, int]:
    """Lines that the cache did not have."""
    cache: OrderedDict[tuple[str, int], None] = OrderedDict()
    missed = {"data": 0, "weights": 0}
    for line in accesses(order, out_blocks, rows, in_blocks):
        if line in cache:
            cache.move_to_end(line)
            continue
        missed[line[0]] += 1
        cache[line] = None
        if len(cache) > l2_bytes // LINE_BYTES:
            cache.popitem(last=False)
    return missed


@pytest.mark.parametrize(
    ("order", "out_blocks", "rows", "in_blocks", "kib"),
    [
        ("stream", 4, 8, 4, 64),  # the image passes twice
        ("stream", 8, 8, 4, 64),  # once
        ("data", 4, 8, 8, 64),  # data stay; all weights fit beside them
        ("data", 4, 16, 8, 32),  # weights pass for each tile of pixels
    ],
)
def test_lines_are_those_that_a_cache_misses(
    order: Order, out_blocks: int, rows: int, in_blocks: int, kib: int
) -> None:
    """Catches a pass of the image or of the weights that is forgotten or counted too often."""
    tiles = [np.array([each]) for each in (out_blocks, rows, SIZE, in_blocks, 1, 1)]
    c = candidates_of_tiles(layer(), tiles, order, 2, 2)
    parameters = GemminiParameters(memory=MemoryHierarchy(l2_bytes=kib * KIB))
    found = missed_lines(c, layer(), parameters, weights_in_rows=True, results_in_rows=True)
    wanted = counted(order, out_blocks, rows, in_blocks, kib * KIB)
    assert found.data[0] == pytest.approx(wanted["data"], rel=0.15)
    assert found.weights[0] == pytest.approx(wanted["weights"], rel=0.15)


def test_what_fits_is_not_missed() -> None:
    """Neither of a layer that fits, nor where there is no hierarchy."""
    tiles = [np.array([each]) for each in (4, 8, SIZE, 4, 1, 1)]
    c = candidates_of_tiles(layer(), tiles, "stream", 2, 2)
    for memory in (None, MemoryHierarchy(l2_bytes=512 * KIB)):
        parameters = GemminiParameters(memory=memory)
        found = missed_lines(c, layer(), parameters, weights_in_rows=True, results_in_rows=True)
        assert not any(each.any() for each in (found.data, found.weights, found.results))
