"""Dataflow of ``main``: where composites are called, where their data come from, and lower bounds of int8 values."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tvm import ir, relax

from accel.frontend.integer_recovery.dataflow_block import MAX_POOLINGS
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import is_composite_call, read_composite
from accel.lowering.analysis.image_padding import padding_of
from accel.region.epilogue import INT8

_SUMS_OF_TENSORS = ("add", "elementwise")

Padded = Literal["never", "unless loads do", "by all"]
"""Whether readers of a result want something around it."""


@dataclass(frozen=True)
class CompositeUse:
    """The call of a composite: whether its first operand comes from the host, and what it is given as a bias.

    ``bias`` is the largest magnitude of that; 0 where it has none. ``padded``: what reads its result pads it, or loads
    do where they can. ``operands`` are the composites whose results its own are, by name; "" of all else, where it is
    ``parted`` from those before: the host makes an operand of results of theirs.
    """

    from_host: bool
    bias: int
    padded: Padded = "never"
    operands: tuple[str, ...] = ()
    parted: bool = False

    def wants_border(self, capabilities: Capabilities) -> bool:
        """Whether readers want something around the result in DRAM, and can read it there."""
        if not capabilities.gemm.results_are_data:
            return False
        return self.padded == "by all" or (self.padded == "unless loads do" and not capabilities.loads_pad)


def composite_uses(
    module: ir.IRModule, operators: Collection[str], lowest: Mapping[str, int], *, by_programs: bool
) -> dict[str, CompositeUse]:
    """The use of each composite of ``operators``, by its name; what none of them makes comes from the host.

    Args:
        module: the integer graph.
        operators: those that regions do.
        lowest: lower bounds of first operands, see :func:`lower_bounds_of_operands`.
        by_programs: whether programs do what else is done to results, so that this comes from the accelerator too.
    """
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    calls: dict[relax.Var, ir.Call] = {}
    made, enclosed = set[relax.Var](), dict[relax.Var, relax.Var]()
    padded: dict[relax.Var, Padded] = {}
    hosted = set[relax.Var]()  # what the host makes of results
    reached = set[relax.Var]()  # what comes of them in any way
    for binding in bindings:
        value = binding.value
        if any(var in reached or var in calls for var in relax.analysis.free_vars(value)):
            reached.add(binding.var)
        if is_composite_call(module, value) and str(module[value.op].attrs["op"]) in operators:
            calls[binding.var] = value
            made.add(binding.var)
            padded |= {enclosed[operand]: "by all" for operand in value.args if operand in enclosed}
            wanted = _padding_of_data(module, value, lowest)
            if wanted != "never" and padded.get(value.args[0]) != "by all":
                padded[value.args[0]] = wanted
        elif _joins(value) and made.issuperset(value.args[0]):
            made.add(binding.var)
        elif padding_of(value) is not None and value.args[0] in calls:
            enclosed[binding.var] = value.args[0]
            made.add(binding.var)
        elif isinstance(value, ir.Call) and not hosted.union(calls).isdisjoint(_operands(value)):
            hosted.add(binding.var)
    return {
        str(call.op.name_hint): CompositeUse(
            call.args[0] not in made and not (by_programs and call.args[0] in reached),
            _largest_bias(module[call.op], call),
            padded.get(var, "never"),
            tuple(_maker(operand, calls, enclosed) for operand in call.args if _is_activation(operand)),
            not hosted.isdisjoint(call.args),
        )
        for var, call in calls.items()
    }


def composite_calls(module: ir.IRModule) -> tuple[dict[relax.Var, ir.Call], dict[relax.Var, int]]:
    """Returns the calls of composites by what they make, in their order, and how often ``main`` reads each variable."""
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    calls = {binding.var: binding.value for binding in bindings if is_composite_call(module, binding.value)}
    reads: dict[relax.Var, int] = {}
    for value in (*(binding.value for binding in bindings), module["main"].body.body):
        for var in relax.analysis.free_vars(value):
            reads[var] = reads.get(var, 0) + 1
    return calls, reads


def _operands(call: ir.Call) -> list[relax.Var]:
    """The variables that an operator takes, those of a tuple too."""
    found = [each for argument in call.args for each in (argument if isinstance(argument, relax.Tuple) else [argument])]
    return [each for each in found if isinstance(each, relax.Var)]


def _is_activation(operand: relax.Expr) -> bool:
    return isinstance(operand, relax.Var)


def _maker(operand: relax.Var, calls: Mapping[relax.Var, ir.Call], enclosed: Mapping[relax.Var, relax.Var]) -> str:
    """The composite that makes an operand, by its name; "" if none does by itself."""
    call = calls.get(enclosed.get(operand, operand))
    return "" if call is None else str(call.op.name_hint)


def _padding_of_data(module: ir.IRModule, call: ir.Call, lowest: Mapping[str, int]) -> Padded:
    """Whether the windows of a composite pad its data, and whether loads may: by zeros, if no datum is below."""
    composite = read_composite(module[call.op])
    if composite.window is None or not any(composite.window.padding):
        return "never"
    below = composite.op == "max_pool" and lowest[str(call.op.name_hint)] < 0
    return "by all" if below else "unless loads do"


def _largest_bias(function: relax.Function, call: ir.Call) -> int:
    """The largest magnitude of the bias of a contraction or average; an addition's only rounds, by less than one.

    That of a product of activations may be one itself, of any magnitude.
    """
    composite = read_composite(function)
    if composite.op == "matmul":
        return int(np.iinfo(np.int32).max)
    if not composite.has_bias or composite.op in _SUMS_OF_TENSORS:
        return 0
    return int(np.abs(composite.argument(call, "b").value.numpy().astype(np.int64)).max(initial=0))


def _joins(value: Any) -> bool:
    """Whether it puts tensors together, as they lie if they can be."""
    return isinstance(value, ir.Call) and value.op == ir.Op.get("relax.concat")


_KEEPING = (
    "relax.expand_dims", "relax.flatten", "relax.permute_dims", "relax.reshape", "relax.squeeze", "relax.strided_slice",
    *MAX_POOLINGS,
)  # fmt: skip


def lower_bounds_of_operands(module: ir.IRModule) -> dict[str, int]:
    """For each function that ``main`` calls, the least value that its first argument can have; -128 where unknown."""
    lowest: dict[relax.Var, int] = {}
    found: dict[str, int] = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, ir.Call) and isinstance(value.op, ir.GlobalVar):
                found[str(value.op.name_hint)] = _lower_bound(value.args[0], lowest)
            lowest[binding.var] = _lower_bound_of_value(module, value, lowest)
    return found


def _lower_bound(value: Any, lowest: dict[relax.Var, int]) -> int:
    return lowest.get(value, INT8[0]) if isinstance(value, relax.Var) else INT8[0]


def _lower_bound_of_value(module: ir.IRModule, value: Any, lowest: dict[relax.Var, int]) -> int:
    if isinstance(value, relax.Var):
        return _lower_bound(value, lowest)
    if not isinstance(value, ir.Call):
        return INT8[0]
    if isinstance(value.op, ir.GlobalVar):
        return _lower_bound_of_call(module[value.op], _lower_bound(value.args[0], lowest))
    name = value.op.name
    if name == "relax.concat":
        return min((_lower_bound(field, lowest) for field in value.args[0].fields), default=INT8[0])
    first = _lower_bound(value.args[0], lowest) if value.args else INT8[0]
    clipped = {"relax.maximum": max, "relax.minimum": min}.get(name)
    bound = value.args[1] if clipped is not None else None
    if clipped is not None and isinstance(bound, ir.GenericConst) and str(bound.value.dtype) == "int8":
        return clipped(first, int(bound.value.numpy().min()))
    return first if name in _KEEPING else INT8[0]


def _lower_bound_of_call(function: relax.Function, first: int) -> int:
    """The lower bound of a composite's clip or table, and of a maximum's operand."""
    if not isinstance(function, relax.Function) or str(function.ret_ty.dtype.dtype) != "int8":
        return INT8[0]
    bound = INT8[0]
    for block in function.body.blocks:
        for binding in block.bindings:
            call = binding.value
            if call.op.name == "relax.maximum" and isinstance(call.args[1], ir.GenericConst):
                bound = max(bound, int(call.args[1].value.numpy()))
            elif call.op.name == "relax.clip":
                bound = max(bound, int(call.args[1].value))
            elif call.op.name == "relax.take":  # of a table
                bound = max(bound, int(call.args[0].value.numpy().min()))
    return max(bound, first) if str(function.attrs["op"]) == "max_pool" else bound
