"""Partition: which composites the accelerator runs, with their tiling, and why the others stay on the host."""

from collections.abc import Collection
from typing import Any

from tvm import ir, relax

from accel.accelerator.target import Target
from accel.frontend.integer_recovery.composite_functions import is_table
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import read_composite
from accel.lowering.analysis.dataflow import composite_uses, lower_bounds_of_operands
from accel.lowering.ir.function_attributes import HOST_REASON, JOINED, REGION, dump_region
from accel.lowering.kinds.region_kind import PlanRequest
from accel.lowering.kinds.registry import OPERATORS, plan_region
from accel.lowering.partition.autotune import Measure, autotune
from accel.lowering.partition.residual_fusion import fused_additions
from accel.region.tilings import TilingCost


def partition(
    module: ir.IRModule,
    target: Target,
    cost: TilingCost,
    measure: Measure | None = None,
    host_nodes: Collection[str] = (),
) -> ir.IRModule:
    """Mark every composite with its region, or with the reason why it has none.

    Args:
        module: the integer graph.
        target: what it is for.
        cost: prices tilings.
        measure: times regions, where prices lie close.
        host_nodes: nodes of the model that the host shall run, and with each all of its composite.
    """
    capabilities, lowest = Capabilities.of(target), lower_bounds_of_operands(module)
    uses = composite_uses(module, OPERATORS)
    reasons = _left_to_host(module, capabilities, host_nodes)
    options, joined = fused_additions(module, uses, reasons, capabilities, cost)
    for name, use in uses.items():
        if name not in reasons and name not in joined and name not in options:
            request = PlanRequest(read_composite(module[name]), use, lowest[name], capabilities, cost)
            found = plan_region(request)
            if isinstance(found, str):
                reasons[name] = found
            else:
                options[name] = found
    marks: dict[str, tuple[str, Any]] = {name: (HOST_REASON, reason) for name, reason in reasons.items()}
    marks |= {name: (JOINED, place) for name, place in joined.items()}
    marks |= {name: (REGION, dump_region(region)) for name, region in autotune(options, measure).items()}
    result = ir.IRModule(dict(module.functions.items()), attrs=module.attrs)
    for name, mark in marks.items():
        variable = module.get_global_var(name)
        result.update_func(variable, module[variable].with_attr(*mark))
    return result


def _left_to_host(module: ir.IRModule, capabilities: Capabilities, host_nodes: Collection[str]) -> dict[str, str]:
    """Why the host has composites that the accelerator might run, or that it cannot."""
    reasons = {}
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function) or function.attrs is None or "op" not in function.attrs:
            continue
        if is_table(function):
            title = capabilities.accelerator.title
            reasons[str(variable.name_hint)] = f"it is a table of 256 entries, which {title} has no instruction for"
        elif str(function.attrs["op"]) not in OPERATORS:
            reasons[str(variable.name_hint)] = f"{function.attrs['cause']}; {requantisation_text(capabilities)}"
        elif not {str(node) for node in function.attrs["nodes"]}.isdisjoint(host_nodes):
            reasons[str(variable.name_hint)] = "the job's options leave it to the host"
    return reasons


def requantisation_text(capabilities: Capabilities) -> str:
    """How the accelerator comes from int32 to int8, in words."""
    title = capabilities.accelerator.title
    if capabilities.scales:
        return f"{title} requantises to int8 by one float scale a tensor"
    if capabilities.store("int8") is None:
        return f"{title} leaves int32, which the host requantises"
    multiplying = "multiplying, " if capabilities.multiplies else ""
    return f"{title} requantises to int8 by {multiplying}adding and shifting"
