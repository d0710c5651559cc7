"""Places of launches' buffers among those of the launches before."""

import numpy as np

from accel.isa.vta.vta_buffer_places import BufferPlaces, Footprint, Part

USES = frozenset({(1, True)})


def contexts(size: int, *spans: tuple[int, int]) -> list[Part]:
    """Contexts one behind the other, each with when it is touched first and for the last time."""
    return [Part(at * size, (at + 1) * size, first, last, USES) for at, (first, last) in enumerate(spans)]


def begins(parts: list[Part], places: BufferPlaces) -> list[int]:
    """Where a launch's parts begin; they are taken."""
    moves = places.place(parts)
    at = np.array([part.begin for part in parts])
    places.take(Footprint((), 100, 100), parts, moves)
    return (at + moves.of(at)).tolist()


def test_the_first_tile_waits_for_none_that_is_still_stored() -> None:
    """Catches contexts that only move together: either place of both has the first tile on the last one before."""
    places = BufferPlaces(2048, loaded=False)
    first = begins(contexts(900, (0, 160), (10, 90)), places)  # an odd number of tiles: the first context is the last
    second = begins(contexts(900, (0, 80), (50, 160)), places)
    assert abs(second[0] - first[0]) >= 900
    assert max(second) - min(second) >= 900
    assert max(second) + 900 <= 2048


def test_a_launch_leaves_room_beside_its_last_tile() -> None:
    """Catches a last tile in the middle of the memory, with no room on either side for a whole tile."""
    places = BufferPlaces(2048, loaded=False)
    begins(contexts(100, (0, 90)), places)
    begin = begins(contexts(784, (0, 90), (50, 160)), places)[1]
    assert max(begin, 2048 - begin - 784) >= 1264


def test_what_is_loaded_lies_beside_the_last_launches_where_there_is_room() -> None:
    """Catches weights that cannot be loaded before the launch before is done with its own, and what room() leaves."""
    places = BufferPlaces(1024, loaded=True)
    (one,), (other,) = (begins(contexts(300, (0, 100)), places) for _ in range(2))
    assert abs(one - other) >= 300
    assert places.room() == 424
