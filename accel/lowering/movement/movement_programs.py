"""Programs that do nothing but move a tensor: loads, maybe a copy on the chip, and stores.

They are vector programs of two or three statements. The copy turns rows into columns where DMA would move each element
by itself.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.accelerator.memories import Memory
from accel.accelerator.target import Target
from accel.expression.element_types import CAST_TO, limits
from accel.expression.syntax_tree import Access, Call, Cast, Expression, Literal, Statement
from accel.lowering.vector.tiles.program_tiles import BestTiles
from accel.region.affine_view import AffineView
from accel.region.kinds import VectorRegion
from accel.region.vector_program import VectorProgram, VectorTensor, axis_name

_HELD = ("int8", "uint8", "int16")  # integers that a float32 holds


def movement_programs(source: AffineView, result: AffineView, dtype: str, target: Target) -> Iterator[VectorRegion]:
    """Yields the programs that may move a tensor.

    Args:
        source: how it lies where it is.
        result: how it shall lie.
        dtype: of its elements.
        target: what it is for.
    """
    parts = _common(source, result)
    if parts is None:
        return
    views = source.cut(parts), result.cut(parts)
    extents = tuple(atom for dimension in parts for atom in dimension)
    if not extents:
        return
    there, here = (_order(view) for view in views)
    for memory in target.accelerator.memories:
        for narrow in _narrowings(dtype, memory, target.accelerator):
            orders = dict.fromkeys([(there, here), (there, there), (here, here)])
            for loaded, stored in orders:
                program = _program(extents, dtype, memory, (loaded, stored), narrow)
                cut = target.derived(BestTiles).of(program, stored, {}, views)
                if cut is not None:
                    yield VectorRegion(cut, views)


def may_move(dtype: str, accelerator: Accelerator) -> bool:
    """Returns whether loads and stores of one memory take elements of a type as they are."""
    return any(_narrowings(dtype, memory, accelerator) for memory in accelerator.memories)


def _common(source: AffineView, result: AffineView) -> tuple[tuple[int, ...], ...] | None:
    """The atoms of each dimension that both views are made of; None where one cuts through another's."""
    found = []
    for one, other in zip(source.atoms, result.atoms, strict=True):
        inner = sorted(
            {math.prod(atoms[place:]) for atoms in (one, other) for place in range(len(atoms))}, reverse=True
        )
        steps = [*inner, 1]
        if any(outer % part for outer, part in itertools.pairwise(steps)):
            return None
        found.append(tuple(outer // part for outer, part in itertools.pairwise(steps)))
    return tuple(found)


def _order(view: AffineView) -> tuple[int, ...]:
    """The axes, outermost first, as they lie; those of repeated elements are outside."""
    return tuple(sorted(range(len(view.strides)), key=lambda axis: -(view.strides[axis] or math.inf)))


def _narrowings(dtype: str, memory: Memory, accelerator: Accelerator) -> list[str]:
    """How a memory's elements may become those of a tensor again without a change; none where it cannot hold them."""
    ways = {
        each.direction
        for each in accelerator.instructions
        if isinstance(each, Copy) and each.memory == memory.name and each.dram_dtype == dtype
    }
    if ways != {"load", "store"}:
        return []
    if memory.dtype == dtype:
        return [""]
    return ["cast", "clip", "round"] if memory.dtype == "float32" and dtype in _HELD else []


def _program(
    extents: tuple[int, ...],
    dtype: str,
    memory: Memory,
    orders: tuple[tuple[int, ...], tuple[int, ...]],
    narrow: str,
) -> VectorProgram:
    """The program, uncut, that loads in the first order and stores from the second."""
    axes = tuple(range(len(extents)))
    loaded, stored = orders
    source, target = Access("x0", _names(axes)), Access("y0", _names(axes))
    first, last = Access("b0", _names(loaded)), Access("b0" if loaded == stored else "b1", _names(stored))
    statements = [Statement(first, None, source if not narrow else Cast(CAST_TO[memory.dtype], source))]
    chip = [VectorTensor("b0", memory.dtype, loaded, memory.name)]
    if loaded != stored:
        statements.append(Statement(last, None, first))
        chip.append(VectorTensor("b1", memory.dtype, stored, memory.name))
    statements.append(Statement(target, None, _narrowed(last, dtype, narrow)))
    return VectorProgram(
        extents=extents,
        tile=extents,
        tensors=(VectorTensor("x0", dtype, axes), VectorTensor("y0", dtype, axes), *chip),
        results=1,
        statements=tuple(map(str, statements)),
        contexts=1,
    )


def _narrowed(value: Expression, dtype: str, narrow: str) -> Expression:
    if not narrow:
        return value
    if narrow != "cast":
        low, high = limits(dtype)
        whole = Call("rint", (value,)) if narrow == "round" else value
        value = Call("clip", (whole, Literal(low), Literal(high)))
    return Cast(CAST_TO[dtype], value)


def _names(axes: Sequence[int]) -> tuple[str, ...]:
    return tuple(axis_name(axis) for axis in axes)
