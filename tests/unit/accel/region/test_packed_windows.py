"""Windows of packed images: how far they can grow into what lies around them."""

import pytest

from accel.region.shapes import PackedActivation, Sides

IMAGE = PackedActivation(batch=1, blocks=2, height=5, width=7, pitch_h=9, pitch_w=10, top=1, left=2)


def test_what_lies_around_is_on_four_sides() -> None:
    assert IMAGE.around == (1, 2, 3, 1)
    assert PackedActivation.dense(1, 2, 5, 7).around == (0, 0, 0, 0)


@pytest.mark.parametrize("sides", [(0, 0, 0, 0), (1, 0, 0, 1), (1, 2, 3, 1), (0, 1, 2, 0)])
def test_a_window_grows_within_its_image(sides: Sides) -> None:
    """It would catch a window that begins elsewhere, or ends elsewhere, than what it holds."""
    grown = IMAGE.grown(sides)
    assert grown is not None
    top, left, bottom, right = sides
    assert (grown.pitch_h, grown.pitch_w) == (IMAGE.pitch_h, IMAGE.pitch_w)
    assert (grown.top, grown.top + grown.height) == (IMAGE.top - top, IMAGE.top + IMAGE.height + bottom)
    assert (grown.left, grown.left + grown.width) == (IMAGE.left - left, IMAGE.left + IMAGE.width + right)
    assert grown.around == tuple(there - more for there, more in zip(IMAGE.around, sides, strict=True))


@pytest.mark.parametrize("side", range(4))
def test_none_grows_beyond_its_image(side: int) -> None:
    sides = [0, 0, 0, 0]
    sides[side] = IMAGE.around[side] + 1
    assert IMAGE.grown((sides[0], sides[1], sides[2], sides[3])) is None
