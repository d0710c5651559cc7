"""Share a nest's loops between the hardware loops of an instruction, its micro-op table, and loops around it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, HardwareLoop
from accel.lowering.ir.affine_nest import simplify


@dataclass(frozen=True)
class LoopAxis:
    """One loop: its variable, its extent, and for each operand its step in elements."""

    extent: int
    strides: tuple[int, ...]
    variable: tirx.Var | None = None


@dataclass(frozen=True)
class LoopAssignment:
    """Where the loops went: fields of the hardware loops, and the axes left, outermost first.

    ``pieces`` are the variables of those left that walk the pieces of a loop, of which the last is the shortest.
    """

    fields: dict[str, tirx.Expr] = field(default_factory=dict)
    left: tuple[LoopAxis, ...] = ()
    pieces: frozenset[tirx.Var] = frozenset()


def coalesce_axes(axes: Sequence[LoopAxis], limit: int | None) -> list[LoopAxis]:
    """Merge neighbours that every operand walks as one loop, of fewer than ``limit`` iterations if it is given."""
    merged: list[LoopAxis] = []
    for axis in axes:
        outer = merged[-1] if merged else None
        if (
            outer
            and (limit is None or outer.extent * axis.extent < limit)
            and all(o == i * axis.extent for o, i in zip(outer.strides, axis.strides, strict=True))
        ):
            merged[-1] = LoopAxis(outer.extent * axis.extent, axis.strides, axis.variable)
        else:
            merged.append(axis)
    return merged


def assign_hardware_loops(
    axes: Sequence[LoopAxis], instruction: Compute, operands: Sequence[str], accelerator: Accelerator
) -> LoopAssignment:
    """Choose the loops that run in hardware: the longest that fit, in the order of the nest.

    A hardware loop that nothing fits makes one iteration. Without micro-ops a loop that is too long for its field runs
    in pieces, and what is left becomes loops around the instruction.
    """
    loops = instruction.loops
    places = {name: number for number, name in enumerate(operands)}
    merged, chosen = hardware_loops(axes, instruction, operands, accelerator)
    fields: dict[str, tirx.Expr] = {}
    pieces: dict[int, LoopAxis] = {}
    for number, loop in enumerate(loops):
        axis = merged[chosen[number]] if number in chosen else LoopAxis(1, (0,) * len(operands))
        extent, piece = _pieces(axis, most_iterations(loop, instruction, accelerator))
        if piece is not None:
            pieces[chosen[number]] = piece
        fields |= dict.fromkeys((loop.extent, *loop.repeated_in), extent)
        for operand, name in loop.factors.items():
            step = axis.strides[places[operand]] if operand in places else 0
            fields[name] = tirx.const(step, "int32")
    kept = {number: axis for number, axis in enumerate(merged) if number not in chosen.values()} | pieces
    walked = frozenset(piece.variable for piece in pieces.values() if piece.variable is not None)
    return LoopAssignment(fields, tuple(axis for _, axis in sorted(kept.items())), walked)


def hardware_loops(
    axes: Sequence[LoopAxis], instruction: Compute, operands: Sequence[str], accelerator: Accelerator
) -> tuple[list[LoopAxis], dict[int, int]]:
    """Returns the axes, those merged that are one loop, and which of them each hardware loop runs, by their numbers."""
    loops = instruction.loops
    if instruction.microops is not None:
        merged = coalesce_axes(axes, 1 << min(accelerator.bits(instruction, loop.extent) for loop in loops))
    else:
        merged = coalesce_axes(axes, None)
    places = {name: number for number, name in enumerate(operands)}
    chosen: dict[int, int] = {}
    for group in _alike(loops):
        fitting = [
            number
            for number, axis in enumerate(merged)
            if number not in chosen.values() and _fits(axis, loops[group[0]], instruction, places, accelerator)
        ]
        longest = sorted(fitting, key=lambda number: -merged[number].extent)[: len(group)]
        # idle loops come first, so that the others keep the order of the nest
        chosen |= dict(zip(group[len(group) - len(longest) :], sorted(longest), strict=True))
    return merged, chosen


def _alike(loops: Sequence[HardwareLoop]) -> list[list[int]]:
    """Loops that ask the same of an axis, together; those that ask most come first."""
    groups: dict[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], list[int]] = {}
    for number, loop in enumerate(loops):
        groups.setdefault((tuple(sorted(loop.factors)), tuple(sorted(loop.steps.items()))), []).append(number)
    return [group for _, group in sorted(groups.items(), key=lambda item: len(item[0][0]))]


def _fits(
    axis: LoopAxis, loop: HardwareLoop, instruction: Compute, places: dict[str, int], accelerator: Accelerator
) -> bool:
    """Whether the loop can step as the axis does."""
    for operand, place in places.items():
        stride = axis.strides[place]
        if operand in loop.factors:
            if instruction.microops is None and not 0 <= stride < 1 << accelerator.bits(
                instruction, loop.factors[operand]
            ):
                return False
        elif stride != loop.steps.get(operand, 0):
            return False
    return True


def most_iterations(loop: HardwareLoop, instruction: Compute, accelerator: Accelerator) -> int:
    """Returns how many iterations a hardware loop makes at most."""
    most = (1 << accelerator.bits(instruction, loop.extent)) - 1
    return most if loop.limit is None else min(most, loop.limit)


def _pieces(axis: LoopAxis, limit: int) -> tuple[tirx.Expr, LoopAxis | None]:
    """The extent of a hardware loop, and the loop over its pieces if there must be more than one."""
    if axis.extent <= limit:
        return tirx.const(axis.extent, "int32"), None
    count = -(-axis.extent // limit)
    assert axis.variable is not None
    variable = tirx.Var(f"{axis.variable.name}_piece", "int32")
    extent = tirx.min(tirx.const(limit, "int32"), tirx.const(axis.extent, "int32") - variable * limit)
    if axis.extent % limit == 0:
        extent = tirx.const(limit, "int32")
    return simplify(extent), LoopAxis(count, tuple(stride * limit for stride in axis.strides), variable)
