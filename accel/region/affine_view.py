"""Views: which element of a buffer in DRAM each element of a tensor is, as an affine map of indices.

Each dimension of the tensor is a product of atoms, and each index into the buffer a first one and so many steps for
each atom. Reshapes, transpositions, slices, splits and broadcasts only change these.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class NotAffineError(Exception):
    """A movement is no affine map of indices; the message is why."""


@dataclass(frozen=True)
class AffineView:
    """A tensor whose elements lie in a buffer of another shape.

    Attributes:
        atoms: of each dimension of the tensor the extents that it is a product of, outermost first; all above 1.
        shape: of the buffer.
        first: where the first element lies: an index for each dimension of the buffer.
        steps: how far the indices go with each atom: a row for each dimension of the buffer.
    """

    atoms: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    first: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]

    @property
    def tensor(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(math.prod(atoms) for atoms in self.atoms)

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart in the buffer neighbours along each atom are, in elements."""
        pitches = _pitches(self.shape)
        return tuple(
            sum(pitch * row[atom] for pitch, row in zip(pitches, self.steps, strict=True))
            for atom in range(sum(map(len, self.atoms)))
        )

    @property
    def is_plain(self) -> bool:
        """Whether the tensor is the buffer, in its order and of its size, maybe of another shape."""
        extents = [extent for atoms in self.atoms for extent in atoms]
        dense = tuple(math.prod(extents[atom + 1 :]) for atom in range(len(extents)))
        return math.prod(extents) == math.prod(self.shape) and self.strides == dense

    @property
    def has_dense_rows(self) -> bool:
        """Whether the elements along the last dimension are neighbours in the buffer."""
        last = self.atoms[-1] if self.atoms else ()
        return len(last) == 0 or (len(last) == 1 and self.strides[-1] == 1)

    def keeps_together(self, count: int) -> bool:
        """Returns whether so many elements of the tensor, from the last dimensions on, are neighbours in the buffer."""
        inner = 1
        extents = [extent for atoms in self.atoms for extent in atoms]
        for extent, stride in zip(reversed(extents), reversed(self.strides), strict=True):
            if inner >= count:
                break
            if stride != inner:
                return False
            inner *= extent
        return True

    @property
    def flat(self) -> "AffineView":
        """The view of the same addresses in a row of all elements of the buffer."""
        return AffineView(self.atoms, (math.prod(self.shape),), (self.begin,), (self.strides,))

    def cut(self, parts: Sequence[Sequence[int]]) -> "AffineView":
        """Returns the view of the tensor whose dimensions are ``parts`` of these, of which atoms are products."""
        atoms: list[tuple[int, ...]] = []
        rows: list[list[int]] = [[] for _ in self.steps]
        number = 0
        for own, given in zip(self.atoms, parts, strict=True):
            left = list(given)
            for extent in own:
                inner = extent
                while inner > 1:
                    part = left.pop(0)
                    inner //= part
                    atoms.append((part,))
                    for row, steps in zip(rows, self.steps, strict=True):
                        row.append(steps[number] * inner)
                number += 1
        return replace(self, atoms=tuple(atoms), steps=tuple(map(tuple, rows)))

    def lies_like(self, other: "AffineView") -> bool:
        """Returns whether each element has the address that it has in another view."""
        same = self.atoms == other.atoms and self.strides == other.strides and self.begin == other.begin
        return same and math.prod(self.shape) == math.prod(other.shape)

    @property
    def begin(self) -> int:
        """Where the first element is in a row of all of the buffer."""
        return sum(pitch * first for pitch, first in zip(_pitches(self.shape), self.first, strict=True))

    def of(self, buffer: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the tensor, a view of ``buffer``."""
        dense = np.ascontiguousarray(buffer)
        extents = [extent for atoms in self.atoms for extent in atoms]
        size = dense.itemsize
        found = np.lib.stride_tricks.as_strided(
            dense.reshape(-1)[self.begin :], extents, [stride * size for stride in self.strides], writeable=False
        )
        return found.reshape(self.tensor)


def whole(shape: Sequence[int]) -> "ViewBuilder":
    """Returns the view of a buffer that is the tensor itself, to be taken further from its buffer."""
    atoms = [_Atom(dimension, extent) for dimension, extent in enumerate(shape) if extent > 1]
    places = {atom.dimension: number for number, atom in enumerate(atoms)}
    lines = [_Line(0, {places[dimension]: 1} if extent > 1 else {}) for dimension, extent in enumerate(shape)]
    return ViewBuilder(tuple(shape), tuple(shape), atoms, lines)


class Piece(NamedTuple):
    """Runs of ``width`` elements of a tensor along an axis, so many ``apart``, the first of them at ``first``."""

    axis: int
    first: int
    width: int
    runs: int
    apart: int

    def view(self, shape: Sequence[int]) -> "ViewBuilder":
        """Returns the view of a tensor of that shape that is its piece, to be taken further from the tensor."""
        before, behind = shape[: self.axis], shape[self.axis + 1 :]
        first = [0] * len(before) + [self.first] + [0] * len(behind)
        rows = whole([*before, self.runs, self.width, *behind]).pitched(self.axis, self.apart)
        return rows.sliced(shape, first, [1] * len(shape))


def pieces(extent: int, axis: int, tile: int, offset: int) -> list[Piece]:
    """Returns the pieces of a tensor of which each run is within one block, whichever way blocks are counted.

    Blocks are of ``tile`` elements from the tensor's first one on, and where it lies ``offset`` elements behind the
    first of a block. There are four pieces at most, whatever the extent.
    """
    blocks, rest = divmod(extent, tile)
    cut, found = tile - offset % tile, list[Piece]()
    for low, high in ((0, cut), (cut, tile)):
        if blocks and low < high:
            found.append(Piece(axis, low, high - low, blocks, tile))
        if low < min(high, rest):
            found.append(Piece(axis, blocks * tile + low, min(high, rest) - low, 1, tile))
    return found


@dataclass(frozen=True)
class _Atom:
    dimension: int
    extent: int


@dataclass(frozen=True)
class _Line:
    """An index: ``first``, and a step for each atom by its number."""

    first: int
    steps: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewBuilder:
    """A view that goes on, operator by operator, from a tensor to what it comes of.

    Each method takes what the buffer so far is made of another tensor, and returns the view of that one.
    """

    tensor: tuple[int, ...]
    shape: tuple[int, ...]
    atoms: list[_Atom]  # those of a dimension one after the other, outermost first
    lines: list[_Line]

    def permuted(self, axes: Sequence[int]) -> "ViewBuilder":
        """The buffer is ``transpose(other, axes)``."""
        shape, lines = [0] * len(axes), [_Line(0)] * len(axes)
        for place, axis in enumerate(axes):
            shape[axis], lines[axis] = self.shape[place], self.lines[place]
        return replace(self, shape=tuple(shape), lines=lines)

    def sliced(self, shape: Sequence[int], first: Sequence[int], steps: Sequence[int]) -> "ViewBuilder":
        """The buffer is every so manieth element of another of ``shape``, from the ``first`` on."""
        lines = [
            _Line(begin + step * line.first, {atom: step * own for atom, own in line.steps.items()})
            for line, begin, step in zip(self.lines, first, steps, strict=True)
        ]
        return replace(self, shape=tuple(shape), lines=lines)

    def pitched(self, axis: int, apart: int) -> "ViewBuilder":
        """The buffer is rows, along ``axis`` and the next one, of another in which one axis has them ``apart``."""
        outer, inner = self.lines[axis : axis + 2]
        steps = {atom: apart * step for atom, step in outer.steps.items()}
        row = _Line(apart * outer.first + inner.first, steps | inner.steps)
        extent = apart * (self.shape[axis] - 1) + self.shape[axis + 1]
        shape = (*self.shape[:axis], extent, *self.shape[axis + 2 :])
        return replace(self, shape=shape, lines=[*self.lines[:axis], row, *self.lines[axis + 2 :]])

    def gathered(self, axis: int, first: int, steps: Sequence[int], shape: Sequence[int]) -> "ViewBuilder":
        """The buffer has axes for the places along ``axis`` of another of ``shape``: ``first``, and a step along each.

        Places may be read more than once, as those that windows share.
        """
        lines = self.lines[axis : axis + len(steps)]
        begin, own = first, dict[int, int]()
        for step, line in zip(steps, lines, strict=True):
            begin += step * line.first
            for atom, count in line.steps.items():
                own[atom] = own.get(atom, 0) + step * count
        made = [*self.lines[:axis], _Line(begin, own), *self.lines[axis + len(steps) :]]
        return replace(self, shape=tuple(shape), lines=made)

    def broadcast(self, shape: Sequence[int]) -> "ViewBuilder":
        """The buffer is another of ``shape``, repeated along dimensions where that has extent 1, or none.

        Raises:
            NotAffineError: its extents are others.
        """
        kept = len(self.shape) - len(shape)
        lines = []
        for extent, wanted, line in zip(shape, self.shape[kept:], self.lines[kept:], strict=True):
            if extent not in (1, wanted):
                raise NotAffineError("it repeats no whole elements")
            lines.append(line if extent == wanted else _Line(0))
        return replace(self, shape=tuple(shape), lines=lines)

    def reshaped(self, shape: Sequence[int]) -> "ViewBuilder":
        """The buffer is another of ``shape`` with the same elements in a row.

        Raises:
            NotAffineError: an index of that is no affine map.
        """
        found = replace(self, shape=tuple(shape), lines=[_Line(0)] * len(shape))
        atoms, lines = list(self.atoms), list(self.lines)
        for before, after in _groups(self.shape, shape):
            own = [place for place in before if self.shape[place] > 1]
            other = [place for place in after if shape[place] > 1]
            if len(own) == len(other) == 1:
                found.lines[other[0]] = lines[own[0]]
                continue
            flat = _flat([lines[place] for place in own], [self.shape[place] for place in own])
            atoms, lines, made = _Divided(atoms, [*lines, *found.lines]).of(flat, [shape[place] for place in other])
            lines, known = lines[: len(self.lines)], lines[len(self.lines) :]
            found.lines[:] = known
            for place, line in zip(other, made, strict=True):
                found.lines[place] = line
        return replace(found, atoms=atoms)

    def view(self) -> AffineView:
        """Returns the view, with as few atoms as may be."""
        atoms, lines = list(self.atoms), list(self.lines)
        number = 0
        while number + 1 < len(atoms):
            outer, inner = atoms[number], atoms[number + 1]
            one = all(line.steps.get(number, 0) == line.steps.get(number + 1, 0) * inner.extent for line in lines)
            if outer.dimension != inner.dimension or not one:
                number += 1
                continue
            atoms[number : number + 2] = [_Atom(outer.dimension, outer.extent * inner.extent)]
            lines = [_Line(line.first, _without(line.steps, number)) for line in lines]
        return AffineView(
            tuple(
                tuple(atom.extent for atom in atoms if atom.dimension == dimension)
                for dimension in range(len(self.tensor))
            ),
            self.shape,
            tuple(line.first for line in lines),
            tuple(tuple(line.steps.get(atom, 0) for atom in range(len(atoms))) for line in lines),
        )


class _Divided:
    """Indices of a dimension that is taken apart; an atom that spans several of the parts becomes several."""

    def __init__(self, atoms: list[_Atom], lines: list[_Line]) -> None:
        self._atoms, self._lines = atoms, lines

    def of(self, flat: _Line, shape: Sequence[int]) -> tuple[list[_Atom], list[_Line], list[_Line]]:
        """The atoms, the lines given with these, and those of ``shape`` that an index into all of it is.

        Raises:
            NotAffineError: it is none.
        """
        pitches, self._lines = _pitches(shape), [*self._lines, flat]
        firsts, rest = [], flat.first
        for pitch in pitches:
            firsts.append(rest // pitch)
            rest %= pitch
        steps: list[dict[int, int]] = [{} for _ in shape]
        number = 0
        while number < len(self._atoms):
            step = self._lines[-1].steps.get(number, 0)
            if step:
                place = next((place for place, pitch in enumerate(pitches) if pitch <= step), None)
                if step < 0 or place is None or step % pitches[place]:
                    raise NotAffineError("its steps fit no dimension")
                reach = pitches[place] * shape[place]
                if step * self._atoms[number].extent > reach and place:
                    self._split(number, reach // step if reach % step == 0 else 0, steps)
                    continue
                steps[place][number] = step // pitches[place]
            number += 1
        made = [_Line(first, own) for first, own in zip(firsts, steps, strict=True)]
        for line, extent in zip(made, shape, strict=True):
            if line.first + sum(step * (self._atoms[atom].extent - 1) for atom, step in line.steps.items()) >= extent:
                raise NotAffineError("its rows cross the ends of those that it is made of")
        return self._atoms, self._lines[:-1], made

    def _split(self, number: int, inner: int, made: list[dict[int, int]]) -> None:
        """Make an atom two, the inner one of the extent ``inner``."""
        atom = self._atoms[number]
        if inner < 2 or atom.extent % inner:
            raise NotAffineError("its rows are no whole parts of those that it is made of")
        self._atoms = [
            *self._atoms[:number],
            _Atom(atom.dimension, atom.extent // inner),
            _Atom(atom.dimension, inner),
            *self._atoms[number + 1 :],
        ]
        self._lines = [_Line(line.first, _with_two(line.steps, number, inner)) for line in self._lines]
        made[:] = [{at + (at > number): step for at, step in steps.items()} for steps in made]


def _with_two(steps: dict[int, int], number: int, inner: int) -> dict[int, int]:
    found = {atom + (atom > number): step for atom, step in steps.items() if atom != number}
    if number in steps:
        found |= {number: steps[number] * inner, number + 1: steps[number]}
    return found


def _without(steps: dict[int, int], number: int) -> dict[int, int]:
    """Steps without an atom, in whose place the one behind it comes."""
    return {atom - (atom > number): step for atom, step in steps.items() if atom != number}


def _flat(lines: Sequence[_Line], shape: Sequence[int]) -> _Line:
    """The index into a row of all elements."""
    first, steps = 0, dict[int, int]()
    for line, pitch in zip(lines, _pitches(shape), strict=True):
        first += pitch * line.first
        for atom, step in line.steps.items():
            steps[atom] = steps.get(atom, 0) + pitch * step
    return _Line(first, steps)


def _pitches(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The dimensions of two shapes that have the same elements, group by group; as small as may be."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        own, other, left, right = list[int](), list[int](), 1, 1
        while True:
            if left <= right and i < len(before) and (left < right or not own):
                own.append(i)
                left *= before[i]
                i += 1
            elif j < len(after) and (right < left or not other):
                other.append(j)
                right *= after[j]
                j += 1
            else:
                break
        if left != right:
            raise NotAffineError("its shapes have unlike numbers of elements")
        found.append((own, other))
    return found
