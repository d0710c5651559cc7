"""Orders of a vector program: along which axis its buffers are dense, and how it is cut, by how its tensors lie."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from accel.accelerator.target import Target
from accel.expression.syntax_tree import Access
from accel.lowering.movement.split_axes import parts_of, with_split_axes
from accel.lowering.vector.tiles.program_tiles import BestTiles, Parts, suits
from accel.region.affine_view import AffineView
from accel.region.kinds import VectorRegion
from accel.region.vector_program import UNIT, VectorProgram, axis_name


def lying(region: VectorRegion) -> Iterator[tuple[int, ...]]:
    """Yields the axes of the program, outermost first, as each tensor lies that is not as the program has it."""
    program = region.shape
    for tensor, view in zip(program.in_dram, region.views, strict=False):
        if view is None:
            continue
        steps = dict(zip(tensor.axes, _steps(view), strict=True))
        steps.pop(UNIT, None)
        outside = [axis for axis in range(len(program.extents)) if axis not in steps]
        yield (*outside, *sorted(steps, key=lambda axis: -steps[axis]))


def result_orders(region: VectorRegion, place: int) -> Iterator[tuple[int, ...]]:
    """Yields orders of the dimensions of the result at ``place``, other than its own, in which operands lie."""
    axes = region.shape.in_dram[place].axes
    for order in dict.fromkeys(lying(region)):
        dimensions = sorted(range(len(axes)), key=lambda each: -1 if axes[each] == UNIT else order.index(axes[each]))
        if dimensions != sorted(dimensions):
            yield tuple(dimensions)


def orders_of(region: VectorRegion, target: Target) -> Iterator[VectorRegion]:
    """Yields a region in the orders in which its tensors lie; as it stands, if its tiles suit its views, first."""
    program, parts = region.shape, parts_of(region)
    if suits(program.tile, program.extents, parts):
        yield region
    else:
        natural = _in_order(region, None, parts, target)
        if natural is not None:
            yield replace(region, shape=natural)
    if any(target.accelerator.memory(tensor.memory).element_count > 1 for tensor in program.on_chip):
        return  # the numbers of an element lie along the last axis
    for order in dict.fromkeys(lying(region)):
        made = _in_order(region, order, parts, target)
        if made is not None and made != program:
            yield replace(region, shape=made)


def split_orders_of(region: VectorRegion, target: Target) -> Iterator[VectorRegion]:
    """Yields a region whose axes end where blocks do, in the orders in which its tensors lie; nothing of another."""
    if any(target.accelerator.memory(tensor.memory).element_count > 1 for tensor in region.shape.on_chip):
        return
    split = with_split_axes(region)
    for order in dict.fromkeys(lying(split)) if split is not None else ():
        assert split is not None
        made = _in_order(split, order, {}, target)
        if made is not None:
            yield replace(split, shape=made)


def _steps(view: AffineView) -> list[float]:
    """How far apart the nearest elements along each dimension are in the buffer; infinitely where they are one."""
    strides, found = iter(view.strides), []
    for atoms in view.atoms:
        own = [next(strides) for _ in atoms]
        found.append(min((float(stride) for stride in own if stride), default=math.inf))
    return found


def _in_order(region: VectorRegion, order: Sequence[int] | None, parts: Parts, target: Target) -> VectorProgram | None:
    """The program with its buffers dense along the last axes of ``order``, and cut along the first."""
    program = region.shape if order is None else _dense_along(region.shape, order)
    return target.derived(BestTiles).of(program, order, parts, region.views)


def _dense_along(program: VectorProgram, order: Sequence[int]) -> VectorProgram:
    """The program with the axes of its buffers in an order."""
    memories = {tensor.name: tensor for tensor in program.on_chip}

    def reordered(access: Access) -> Access:
        if access.name not in memories or not access.axes:
            return access
        axes = sorted(memories[access.name].axes, key=order.index)
        return Access(access.name, tuple(axis_name(axis) for axis in axes))

    tensors = [
        replace(tensor, axes=tuple(sorted(tensor.axes, key=order.index))) if tensor.memory else tensor
        for tensor in program.tensors
    ]
    statements = [str(statement.with_accesses(reordered)) for statement in program.parsed]
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))
