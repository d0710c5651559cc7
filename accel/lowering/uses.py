"""Where ``main`` calls the composites, and where their data come from."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tvm import ir

from accel.lowering.composite import is_composite_call


@dataclass(frozen=True)
class Use:
    """The call of a composite, and whether its first operand comes from the host."""

    call: ir.Call
    from_host: bool


def uses_of(module: ir.IRModule, operators: Collection[str]) -> dict[str, Use]:
    """The use of each composite of ``operators``, by its name; what none of them makes comes from the host."""
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    calls, made = [], set()
    for binding in bindings:
        value = binding.value
        if is_composite_call(module, value) and str(module[value.op].attrs["op"]) in operators:
            calls.append(value)
            made.add(binding.var)
        elif _joins(value) and made.issuperset(value.args[0]):
            made.add(binding.var)
    return {str(call.op.name_hint): Use(call, call.args[0] not in made) for call in calls}


def _joins(value: Any) -> bool:
    """Whether it puts tensors together, as they lie if they can be."""
    return isinstance(value, ir.Call) and value.op == ir.Op.get("relax.concat")
