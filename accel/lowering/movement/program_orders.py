"""Orders of a vector program: along which axis its buffers are dense, and how it is cut, by how its tensors lie."""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from accel.accelerator.target import Target
from accel.expression.syntax_tree import Access, Statement
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
    if _has_lanes(region, target):
        return
    for order in dict.fromkeys(lying(region)):
        made = _in_order(region, order, parts, target)
        if made is not None and made != program:
            yield replace(region, shape=made)


def split_orders_of(region: VectorRegion, target: Target) -> Iterator[VectorRegion]:
    """Yields a region whose axes end where blocks do, in the orders in which its tensors lie; nothing of another."""
    split = None if _has_lanes(region, target) else with_split_axes(region)
    for order in dict.fromkeys(lying(split)) if split is not None else ():
        assert split is not None
        made = _in_order(split, order, {}, target)
        if made is not None:
            yield replace(split, shape=made)


def mixed_orders_of(region: VectorRegion, target: Target) -> Iterator[VectorRegion]:
    """Yields a region each of whose buffers lies as what it is loaded from; nothing where all lie alike.

    Such buffers take one load each, but more instructions that compute. Buffers in which is computed are others then,
    which lie as the result is stored.
    """
    split = None if _has_lanes(region, target) else with_split_axes(region) or region
    if split is not None and any(view is not None for view in split.views):
        for made in dict.fromkeys(_each_as_it_lies(split, target)):
            yield replace(split, shape=made)


def _has_lanes(region: VectorRegion, target: Target) -> bool:
    """Whether elements of a memory are several numbers, which lie along the last axis."""
    return any(target.accelerator.memory(tensor.memory).element_count > 1 for tensor in region.shape.on_chip)


def _each_as_it_lies(region: VectorRegion, target: Target) -> Iterator[VectorProgram]:
    """Yields the program with each buffer dense as the tensor lies that it is loaded from, others as the last result.

    It is cut along the first axis of that, or of one that is loaded.
    """
    program, axes = region.shape, range(len(region.shape.extents))
    views = [*region.views, *[None] * (len(program.in_dram) - len(region.views))]
    orders = {
        tensor.name: next(lying(VectorRegion(replace(program, tensors=(tensor,)), (view,))), tuple(axes))
        for tensor, view in zip(program.in_dram, views, strict=True)
    }
    last = orders[program.in_dram[-1].name]
    program = _computed_apart(program, {name for name, order in orders.items() if order != last})
    found: dict[str, tuple[int, ...]] = {}
    for statement in program.parsed:
        for name in statement.operands:
            if name in orders and program.tensor(statement.target.name).memory:
                found.setdefault(statement.target.name, orders[name])
    if len({*found.values(), last}) < 2:
        return
    made = _dense_along(program, {tensor.name: found.get(tensor.name, last) for tensor in program.on_chip})
    for order in dict.fromkeys([last, *found.values()]):
        cut = target.derived(BestTiles).of(made, order, parts_of(region), region.views)
        if cut is not None:
            yield cut


def _computed_apart(program: VectorProgram, given: Container[str]) -> VectorProgram:
    """The program with what is computed in buffers that are loaded from any of ``given`` in buffers of their own."""
    tensors, renamed, loaded = {tensor.name: tensor for tensor in program.tensors}, dict[str, str](), set[str]()
    statements = list[Statement]()
    for statement in program.parsed:
        name = statement.target.name
        in_place = statement.combiner is None and statement.target in statement.accesses
        made = statement.with_accesses(lambda each: replace(each, name=renamed.get(each.name, each.name)))
        if in_place and name in loaded - {*renamed}:
            renamed[name] = next(new for number in count() if (new := f"b{number}") not in tensors)
            tensors[renamed[name]] = replace(tensors[name], name=renamed[name])
            made = Statement(replace(statement.target, name=renamed[name]), None, made.value)
        elif tensors[name].memory and any(operand in given for operand in statement.operands):
            loaded.add(name)
        statements.append(made)
    return replace(program, tensors=tuple(tensors.values()), statements=tuple(map(str, statements)))


def _steps(view: AffineView) -> list[float]:
    """How far apart the nearest elements along each dimension are in the buffer; infinitely where they are one."""
    strides, found = iter(view.strides), []
    for atoms in view.atoms:
        own = [next(strides) for _ in atoms]
        found.append(min((float(stride) for stride in own if stride), default=math.inf))
    return found


def _in_order(region: VectorRegion, order: Sequence[int] | None, parts: Parts, target: Target) -> VectorProgram | None:
    """The program with its buffers dense along the last axes of ``order``, and cut along the first."""
    program = region.shape
    if order is not None:
        program = _dense_along(program, {tensor.name: order for tensor in program.on_chip})
    return target.derived(BestTiles).of(program, order, parts, region.views)


def _dense_along(program: VectorProgram, orders: Mapping[str, Sequence[int]]) -> VectorProgram:
    """The program with the axes of each buffer in its order."""
    memories = {tensor.name: tensor for tensor in program.on_chip}

    def reordered(access: Access) -> Access:
        if access.name not in memories or not access.axes:
            return access
        axes = sorted(memories[access.name].axes, key=orders[access.name].index)
        return Access(access.name, tuple(axis_name(axis) for axis in axes))

    tensors = [
        replace(tensor, axes=tuple(sorted(tensor.axes, key=orders[tensor.name].index))) if tensor.memory else tensor
        for tensor in program.tensors
    ]
    statements = [str(statement.with_accesses(reordered)) for statement in program.parsed]
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))
