"""Axes of vector programs cut where blocks end, so that a tensor that lies in blocks is loaded block by block.

A tensor of 64 channels in blocks of 32 lies [2, rows, columns, 32]. With one axis for its channels a program has them
side by side, and loads two pieces for each pixel, or walks them outermost, a number at a time. With two axes it has its
buffers as the tensor lies.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from accel.expression.syntax_tree import Access, Statement
from accel.lowering.vector.tiles.program_tiles import Parts
from accel.region.affine_view import AffineView, whole
from accel.region.kinds import VectorRegion
from accel.region.vector_program import UNIT, VectorProgram, VectorTensor, axis_name

_Pieces = Sequence[tuple[int, ...]]
"""Of each axis the extents that it is cut into, the outermost first; one of an axis that stays."""


def parts_of(region: VectorRegion) -> Parts:
    """Returns of each axis how many elements lie one behind the other in some tensor before it goes on elsewhere."""
    found: dict[int, tuple[int, ...]] = {}
    for tensor, view in zip(region.shape.in_dram, region.views, strict=False):
        for axis, atoms in zip(tensor.axes, view.atoms if view is not None else (), strict=False):
            inner = tuple(math.prod(atoms[place:]) for place in range(1, len(atoms)))
            found[axis] = (*found.get(axis, ()), *inner)
    found.pop(UNIT, None)
    return found


def with_split_axes(region: VectorRegion) -> VectorRegion | None:
    """Returns a region, uncut, whose axes end where blocks of its tensors do; None if none of them could."""
    program = region.shape
    if program.stream is not None or not all(map(_names_axes, program.parsed)):
        return None
    pieces = list(_pieces(region))
    if all(len(own) == 1 for own in pieces):
        return None
    places = [sum(map(len, pieces[:axis])) for axis in range(len(pieces))]
    numbers = {axis: tuple(range(place, place + len(pieces[axis]))) for axis, place in enumerate(places)}
    numbers[UNIT] = (UNIT,)
    extents = tuple(itertools.chain.from_iterable(pieces))
    made = replace(
        program,
        extents=extents,
        tile=extents,
        tensors=tuple(
            replace(tensor, axes=tuple(itertools.chain.from_iterable(numbers[axis] for axis in tensor.axes)))
            for tensor in program.tensors
        ),
        statements=tuple(_statements(program, numbers)),
        contexts=1,
        turned=(),
        loads_again=False,
    )
    known = [*region.views, *[None] * (len(program.in_dram) - len(region.views))]
    views = (_split(view, program, tensor, pieces) for tensor, view in zip(program.in_dram, known, strict=True))
    return VectorRegion(made, tuple(views))


def _names_axes(statement: Statement) -> bool:
    """Whether all that a statement reads and writes is there by the names of its axes, and nothing in a table."""
    every = (statement.target, *statement.accesses)
    return not statement.looked_up and all(isinstance(index, str) for access in every for index in access.indices)


def _pieces(region: VectorRegion) -> Iterator[tuple[int, ...]]:
    """The pieces of each axis: one of what is reduced, or has blocks that cut through one another."""
    program, parts = region.shape, parts_of(region)
    reduced = {int(axis[1:]) for statement in program.parsed for axis in statement.reduced}
    for axis, extent in enumerate(program.extents):
        ends = sorted({extent, 1, *parts.get(axis, ())}, reverse=True)
        fit = all(outer % inner == 0 for outer, inner in itertools.pairwise(ends))
        if len(ends) > 1 and fit and axis not in reduced:
            yield tuple(outer // inner for outer, inner in itertools.pairwise(ends))
        else:
            yield (extent,)


def _statements(program: VectorProgram, numbers: Mapping[int, tuple[int, ...]]) -> Iterator[str]:
    """The statements over the pieces of their axes."""
    names = {axis_name(axis): tuple(map(axis_name, own)) for axis, own in numbers.items() if axis != UNIT}

    def split(access: Access) -> Access:
        indices = itertools.chain.from_iterable(names[str(index)] for index in access.indices)
        return Access(access.name, tuple(indices))

    return (str(statement.with_accesses(split)) for statement in program.parsed)


def _split(view: AffineView | None, program: VectorProgram, tensor: VectorTensor, pieces: _Pieces) -> AffineView:
    """How a tensor lies, a dimension for each piece of its axes."""
    lying = whole(program.dram_shape(tensor)).view() if view is None else view
    inner, dimensions = list[tuple[int, ...]](), list[tuple[int, ...]]()
    for axis, atoms in zip(tensor.axes, lying.atoms, strict=True):
        own = () if axis == UNIT else pieces[axis]
        inner.append(own if len(own) > 1 else atoms)
        dimensions += [(piece,) for piece in own] if len(own) > 1 else [atoms]
    return replace(lying.cut(inner), atoms=tuple(dimensions))
