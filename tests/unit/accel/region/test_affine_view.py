"""Views of random chains of movement, element by element what numpy makes of the same chains."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.region.affine_view import NotAffineError, ViewBuilder, pieces, whole


def factors(chance: random.Random, n: int) -> list[int]:
    """Extents whose product is ``n``, in any order, of which some may be 1."""
    found = []
    while n > 1 and chance.random() < 0.8:
        found.append(chance.choice([part for part in range(1, n + 1) if n % part == 0]))
        n //= found[-1]
    found.append(n)
    chance.shuffle(found)
    return found


def step(chance: random.Random, array: Any) -> tuple[Any, Any]:
    """A movement of an array, and what takes a view of its result back to one of the array."""
    kind, shape = chance.choice("prsbg"), array.shape
    if kind == "p":
        axes = list(range(array.ndim))
        chance.shuffle(axes)
        return array.transpose(axes), lambda view: view.permuted(axes)
    if kind == "r":
        return array.reshape(factors(chance, array.size)), lambda view: view.reshaped(shape)
    if kind == "b":
        wide = [chance.choice([1, 2]), *(extent if extent > 1 else chance.choice([1, 3]) for extent in shape)]
        return np.broadcast_to(array, wide), lambda view: view.broadcast(shape)
    if kind == "g" and array.ndim:
        axis = chance.randrange(array.ndim)
        room, counts, steps = shape[axis], list[int](), list[int]()
        for _ in range(chance.randint(1, 2)):
            counts.append(chance.randint(1, min(4, room)))
            steps.append(chance.randint(0, (room - 1) // max(1, counts[-1] - 1)))
            room -= steps[-1] * (counts[-1] - 1)
        first = chance.randrange(room)
        places = first + sum(np.ix_(*(np.arange(n) * apart for n, apart in zip(counts, steps, strict=True))))
        return array.take(places, axis), lambda view: view.gathered(axis, first, steps, shape)
    bounds = []
    for extent in shape:
        first = chance.randint(0, extent - 1)
        every = chance.random() < 0.6
        bounds.append((0, extent, 1) if every else (first, chance.randint(first + 1, extent), chance.randint(1, 2)))
    firsts, steps = [bound[0] for bound in bounds], [bound[2] for bound in bounds]
    return array[tuple(slice(*bound) for bound in bounds)], lambda view: view.sliced(shape, firsts, steps)


def test_random_chains() -> None:
    """It would catch a wrong stride, offset or split of an atom, and chains that are refused for nothing."""
    affine = 0
    for seed in range(600):
        chance = random.Random(seed)
        size = chance.choice([24, 30, 36, 48, 64]) * chance.choice([1, 2, 3])
        buffer = np.arange(size).reshape(factors(chance, size))
        array, backs = buffer, []
        for _ in range(chance.randint(1, 5)):
            array, back = step(chance, array)
            backs.append(back)
        view: ViewBuilder = whole(array.shape)
        try:
            for back in reversed(backs):
                view = back(view)
        except NotAffineError:
            continue
        found = view.view()
        assert found.tensor == array.shape
        assert found.shape == buffer.shape
        assert np.array_equal(found.of(buffer), array), seed
        parts = [list(atoms) for atoms in found.atoms]
        flat = [extent for own in parts for extent in own]
        assert np.array_equal(found.cut(parts).of(buffer), array.reshape(flat)), seed
        affine += 1
    assert affine > 400


def test_rows_that_cross_ends_are_no_view() -> None:
    """Four of each row of five, seen in a row: as rows of eight these are no steps of one size."""
    in_a_row = whole((3, 4)).reshaped((12,)).sliced((15,), (0,), (1,))
    with pytest.raises(NotAffineError):
        in_a_row.reshaped((3, 5))


def test_a_row_of_all_is_plain() -> None:
    plain = whole((4, 6)).reshaped((2, 2, 6)).view()
    assert plain.is_plain
    assert not whole((4, 6)).permuted((1, 0)).view().is_plain


@given(st.integers(1, 90), st.sampled_from([2, 8, 16, 32]), st.integers(0, 40))
def test_pieces_are_all_elements_once_and_cross_no_block(extent: int, tile: int, offset: int) -> None:
    """It would catch an element that no program moves, or two do, and a run that is in two blocks."""
    numbers, found = np.arange(3 * extent * 2).reshape(3, extent, 2), list[int]()
    parts = pieces(extent, 1, tile, offset)
    assert len(parts) <= 4
    for part in parts:
        piece = part.view(numbers.shape).view().of(numbers)
        runs = np.moveaxis(piece, 3, 0)[0, 0] // 2
        for starts in (0, offset):
            blocks = (runs + starts) // tile
            assert (blocks == blocks[:, :1]).all()
        found += piece.reshape(-1).tolist()
    assert sorted(found) == list(range(numbers.size))
