"""Parts of images: every window of every tile has what it has of the image, and the border for what lies outside.

A tile that begins a row too early, a last tile that repeats the wrong windows or a border that is too small would show.
"""

import itertools
import random

from accel.lowering.kinds.contraction.image_parts import ImageParts
from accel.region.shapes import SlidingWindow, StoredWindows
from accel.region.tilings import Tiling, tile_extents


def of_axis(size: int, kernel: int, stride: int, before: int, windows: int, count: int) -> ImageParts:
    """The parts of an image that is the same down and across."""
    window = SlidingWindow((kernel, kernel), (stride, stride), (1, 1), (before, before, 0, 0))
    tiling = Tiling(1, count, count, 1, 1, 1, "stream", 2, 2, windows, windows)
    return ImageParts((size, size), StoredWindows(window, windows, windows, "store"), tiling)


def check(parts: ImageParts) -> None:
    (size, _), pooled, count = parts.size, parts.pooled, parts.counts[0]
    stride, kernel, padding = pooled.window.strides[0], pooled.window.kernel[0], pooled.window.padding[0]
    (span, _), (extent, _), ((before, behind), _) = parts.spans, parts.extents, parts.borders
    assert span + before + behind == extent
    seen = set()
    for tile, window in itertools.product(range(pooled.tiles(0, count)), range(count)):
        number = int(parts.window(0, tile)) + window
        seen.add(number)
        first = int(parts.place(0, tile * span))
        assert 0 <= first <= size - span
        for element in range(kernel):
            at, row = (
                before + int(parts.ahead(0, tile)) + window * stride + element,
                number * stride - padding + element,
            )
            assert 0 <= at < extent
            inside = before <= at < before + span
            assert first + at - before == row if inside else not 0 <= row < size
    assert seen == set(range(pooled.height))


def test_windows_of_random_images() -> None:
    draw = random.Random(1)
    for _ in range(60):
        kernel, stride, size = draw.randint(1, 3), draw.randint(1, 3), draw.randint(3, 40)
        before, behind = draw.randrange(kernel), draw.randrange(kernel)
        windows = (size + before + behind - kernel) // stride + 1
        whole = of_axis(size, kernel, stride, before, windows, windows).spans[0]
        for count in tile_extents(windows):
            parts = of_axis(size, kernel, stride, before, windows, count)
            if count == windows or parts.spans[0] < whole:  # no other is a tile
                check(parts)
