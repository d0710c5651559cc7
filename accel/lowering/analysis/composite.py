"""Composites of the integer graph, read: what each computes, in the terms of the accelerator's regions.

Small groups of a convolution are merged, so that each lot of them fills whole tiles: a depthwise convolution of 64
channels on tiles of 16 is four lots of sixteen groups, each a dense product whose weights are zero between channels of
different groups.
"""

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, relax

from accel.accelerator.contraction import Contraction
from accel.lowering.ir.function_attributes import region_of
from accel.region.composite_attributes import COMPOSITE, CompositeAttributes, load_attributes
from accel.region.kinds import Region

_OF_SOFTMAX = 5  # operations of an element
_OF_NORM = 6


@dataclass(frozen=True)
class MergedGroups:
    """``count`` lots of ``merged`` groups, each of ``inputs`` and ``outputs`` channels; the last may have fewer.

    With more than one lot both fill whole tiles.
    """

    count: int
    merged: int
    inputs: int
    outputs: int


def merged_groups_of(groups: int, inputs: int, outputs: int, tile: tuple[int, int]) -> MergedGroups:
    """The fewest groups a lot, given all input and output channels, and those of a tile (k, n)."""
    each = inputs // groups, outputs // groups
    merged = math.lcm(*(channels // math.gcd(size, channels) for size, channels in zip(each, tile, strict=True)))
    merged = min(merged, groups)
    return MergedGroups(-(-groups // merged), merged, merged * each[0], merged * each[1])


@dataclass(frozen=True, kw_only=True)
class CompositeRegion(CompositeAttributes):
    """A composite, read: its attributes, and what its function says beside.

    ``parameters`` are their names in the function, ``shapes`` their shapes, and ``result`` is that of its result.
    ``macs`` are the multiply-accumulates of the model, padding not counted.
    """

    op: str
    nodes: tuple[str, ...]
    parameters: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    macs: int

    @property
    def operations(self) -> int:
        """The arithmetic of the model: two operations of each multiply-accumulate, and those of each result.

        These are the elements of its window where it multiplies nothing, the combinations of its operands, one of a
        bias, and one of its requantisation; of a softmax a comparison, a difference, an exponential, a sum and a
        product; and of a layer norm those of any norm.
        """
        window = 0 if self.macs or self.window is None else math.prod(self.window.kernel)
        each = window + max(len(self.weights) - 1, 0) + int(self.has_bias and not self.bias_rounds) + int(self.narrow)
        each += (0 if self.softmax is None else _OF_SOFTMAX) + (0 if self.norm is None else _OF_NORM)
        return 2 * self.macs + each * math.prod(self.result)

    def argument(self, call: ir.Call, parameter: str) -> relax.Expr:
        """What a call of the composite gives a parameter."""
        return call.args[self.parameters.index(parameter)]

    def lots(self, gemm: Contraction) -> MergedGroups:
        """How the groups of a convolution lie in the tiles of ``gemm``."""
        channels = self.shapes[0][1], self.shapes[1][0]
        return merged_groups_of(self.groups, *channels, (gemm.in_channels, gemm.out_channels))


def read_composite(function: relax.Function) -> CompositeRegion:
    """Read one composite function whose ``op`` an accelerator may run."""
    return CompositeRegion(
        op=str(function.attrs["op"]),
        nodes=tuple(str(node) for node in function.attrs["nodes"]),
        parameters=tuple(str(parameter.name) for parameter in function.params),
        shapes=tuple(shape_of(parameter) for parameter in function.params),
        result=shape_of(function.body.body),
        macs=int(function.attrs.get("macs", 0)),
        **vars(load_attributes(str(function.attrs[COMPOSITE]))),
    )


def shape_of(expr: relax.Expr) -> tuple[int, ...]:
    """The static shape of a Relax expression, elements."""
    return tuple(int(extent) for extent in expr.ty.shape)


def is_composite_call(module: tvm.IRModule, value: Any) -> bool:
    """Whether a binding's value calls a composite function of the module."""
    return (
        isinstance(value, ir.Call)
        and isinstance(value.op, ir.GlobalVar)
        and isinstance(module[value.op], relax.Function)
        and "op" in module[value.op].attrs
    )


def called_region(module: tvm.IRModule, value: Any) -> Region | None:
    """The region of the composite that a binding's value calls; None if it calls none, or one of the host's."""
    region = region_of(module[value.op]) if is_composite_call(module, value) else None
    return region if isinstance(region, Region) else None


def largest_addend(composite: CompositeRegion) -> int:
    """The largest magnitude of a number that the steps add to the sums."""
    names = [name for name, _ in composite.steps]
    sums = composite.steps[: names.index("widen")] if "widen" in names else composite.steps
    return max((abs(immediate) for name, immediate in sums if name == "add"), default=0)


def clip_bounds(composite: CompositeRegion) -> tuple[int, int]:
    """What a narrow result is clipped to."""
    if composite.scaling is not None:
        return composite.scaling.low, composite.scaling.high
    values = dict(composite.steps)
    return values["max"], values["min"]
