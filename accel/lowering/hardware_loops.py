"""Share a nest's loops between the hardware loops of an instruction and its micro-op table."""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from accel.accelerator.document import Contract, Map


@dataclass(frozen=True)
class Axis:
    """One loop: its extent, and for each operand its step in elements."""

    extent: int
    strides: tuple[int, ...]


def coalesce(axes: Sequence[Axis], limit: int) -> list[Axis]:
    """Merge neighbours that every operand walks as one loop of fewer than ``limit`` iterations."""
    merged: list[Axis] = []
    for axis in axes:
        outer = merged[-1] if merged else None
        if (
            outer
            and outer.extent * axis.extent < limit
            and all(o == i * axis.extent for o, i in zip(outer.strides, axis.strides, strict=True))
        ):
            merged[-1] = Axis(outer.extent * axis.extent, axis.strides)
        else:
            merged.append(axis)
    return merged


def assign(
    axes: Sequence[Axis], instruction: Contract | Map, operands: Sequence[str]
) -> tuple[dict[str, tirx.Expr], list[tuple[int, ...]]]:
    """The fields of the hardware loops, and the loops left for the micro-op table, outermost first.

    The longest loops run in hardware, which keeps the table short; a nest with fewer loops leaves extents of 1.
    """
    loops = instruction.loops
    merged = coalesce(axes, 1 << min(instruction.bits(loop.extent) for loop in loops))
    longest = sorted(range(len(merged)), key=lambda i: -merged[i].extent)[: len(loops)]
    fields: dict[str, tirx.Expr] = {}
    chosen = [merged[i] for i in sorted(longest)]
    idle = Axis(1, (0,) * len(operands))
    for loop, axis in zip(loops, [idle] * (len(loops) - len(chosen)) + chosen, strict=True):
        fields[loop.extent] = tirx.const(axis.extent, "int32")
        for operand, stride in zip(operands, axis.strides, strict=True):
            if operand in loop.factors:
                fields[loop.factors[operand]] = tirx.const(stride, "int32")
    rest = [(axis.extent, *axis.strides) for i, axis in enumerate(merged) if i not in longest]
    return fields, rest
