"""Composites of the integer graph, read: what each computes, in the terms of the accelerator's regions.

Small groups of a convolution are merged, so that each lot of them fills whole tiles: a depthwise convolution of 64
channels on tiles of 16 is four lots of sixteen groups, each a dense product whose weights are zero between channels of
different groups.
"""

import math
from dataclasses import dataclass
from typing import Any, get_args

import tvm
from tvm import ir, relax

from accel.accelerator.contraction import Contraction
from accel.region.elementwise import Combination
from accel.region.epilogue import EpilogueOp, Scaling


@dataclass(frozen=True)
class WeightedOperands:
    """A weight for each operand, and how many ``bindings`` of the composite there are before its epilogue."""

    combination: Combination
    weights: tuple[int, ...]

    @property
    def bindings(self) -> int:
        """A cast for each, a multiplication where the weight is not 1, and one less to combine them."""
        return 2 * len(self.weights) - 1 + sum(weight != 1 for weight in self.weights)


def weighted_operands_of(function: relax.Function) -> WeightedOperands:
    """Those of a composite ``elementwise``."""
    name = str(function.attrs["combination"])
    combination = next(known for known in get_args(Combination) if known == name)
    return WeightedOperands(combination, tuple(int(weight) for weight in function.attrs["weights"]))


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


@dataclass(frozen=True)
class Composite:
    """A composite, read.

    ``root`` is its contraction or its maximum (None for an addition). ``factors`` weigh the operands of an addition.
    ``steps`` follow the accumulation in order, then ``scaling`` if there is one; ``narrow``: the result is int8.
    ``average``: it is a depthwise convolution whose weights are all one.
    ``macs`` are the multiply-accumulates of the model, padding not counted.
    ``first_step`` is the place of the first binding after the accumulation, bias included.
    """

    op: str
    nodes: tuple[str, ...]
    root: ir.Call | None
    shapes: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    factors: tuple[int, int]
    has_bias: bool
    steps: tuple[tuple[EpilogueOp, int], ...]
    narrow: bool
    scaling: Scaling | None
    first_step: int
    average: bool
    macs: int
    operands: WeightedOperands

    @property
    def groups(self) -> int:
        """Groups of channels of a convolution; 1 of anything else."""
        return int(self.root.attrs.groups) if self.op == "conv2d" and self.root is not None else 1

    def lots(self, gemm: Contraction) -> MergedGroups:
        """How the groups of a convolution lie in the tiles of ``gemm``."""
        channels = self.shapes[0][1], self.shapes[1][0]
        return merged_groups_of(self.groups, *channels, (gemm.in_channels, gemm.out_channels))


_STEPS: dict[str, EpilogueOp] = {
    "relax.add": "add",
    "relax.multiply": "multiply",
    "relax.right_shift": "shift_right",
    "relax.maximum": "max",
    "relax.minimum": "min",
}


def read_composite(function: relax.Function) -> Composite:
    """Read one composite function whose ``op`` an accelerator may run."""
    op = str(function.attrs["op"])
    parameters = list(function.params)
    calls = [binding.value for block in function.body.blocks for binding in block.bindings]
    factors = [1, 1]
    if op == "add":
        names = [call.op.name for call in calls]
        body = names.index("relax.add")
        operand = -1
        for name, call in zip(names[:body], calls[:body], strict=True):
            operand += name == "relax.astype"
            if name == "relax.left_shift":
                factors[operand] = 1 << _constant(call.args[1])
            elif name == "relax.multiply":
                factors[operand] = _constant(call.args[1])
        root, rest = None, calls[body + 1 :]
    elif op == "elementwise":
        root, rest = None, calls[weighted_operands_of(function).bindings :]
    else:
        root, rest = calls[0], calls[1:]
    has_bias = bool(rest) and rest[0].op.name == "relax.add" and isinstance(rest[0].args[1], relax.Var)
    rest = rest[int(has_bias) :]
    cut = next((at for at, call in enumerate(rest) if _is_float(call)), len(rest))
    scaling = _scaling(rest[cut:])
    steps = [_step(call) for call in rest[:cut] if call.op.name != "relax.astype"]
    return Composite(
        op=op,
        nodes=tuple(str(node) for node in function.attrs["nodes"]),
        root=root,
        shapes=tuple(shape_of(parameter) for parameter in parameters),
        result=shape_of(function.body.body),
        factors=(factors[0], factors[1]),
        has_bias=has_bias,
        steps=tuple(steps),
        narrow=bool(rest),
        scaling=scaling,
        first_step=len(calls) - len(rest),
        average="average" in function.attrs,
        macs=int(function.attrs.get("macs", 0)),
        operands=weighted_operands_of(function) if op == "elementwise" else WeightedOperands("sum", tuple(factors)),
    )


def _scaling(rest: list[ir.Call]) -> Scaling | None:
    """The scaling of an epilogue that begins with a cast to float32."""
    if not rest:
        return None
    clip = next(call for call in rest if call.op.name == "relax.clip")
    low, high = (int(bound.value) for bound in clip.args[1:3])
    return Scaling(float(rest[1].args[1].value.numpy()), low, high)


def _is_float(call: ir.Call) -> bool:
    return bool(call.op.name == "relax.astype" and str(call.attrs.dtype) == "float32")


def _step(call: ir.Call) -> tuple[EpilogueOp, int]:
    if call.op.name == "relax.left_shift":
        return "shift_right", -_constant(call.args[1])
    if call.op.name == "relax.multiply" and isinstance(call.args[1], relax.Var):
        return "multiply_tensor", 0
    return _STEPS[call.op.name], _constant(call.args[1])


def _constant(expr: Any) -> int:
    return int(expr.value.numpy())


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


def clip_bounds(composite: Composite) -> tuple[int, int]:
    """What a narrow result is clipped to."""
    if composite.scaling is not None:
        return composite.scaling.low, composite.scaling.high
    values = dict(composite.steps)
    return values["max"], values["min"]
