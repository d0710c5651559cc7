"""Costs of the family ``explicit``: each is a number that an instruction can have."""

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy, Instruction
from accel.accelerator.require import require
from accel.expression.cost import parse_cost
from accel.expression.errors import ExpressionError
from accel.isa.explicit import limits
from accel.isa.explicit.costs import cost_fields

_MOST = {"cycles": limits.MAX_CYCLES, "energy": None}


def check_costs(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Refuse costs of which the smallest instruction has none: a copy of one element, an execution of one iteration.

    Raises:
        InvalidAccelerator: the cost divides by zero there, is negative, or is beyond what is counted.
    """
    for role, most in _MOST.items():
        text = getattr(instruction, role)
        if text is None:
            continue
        at = f"{path}.{role}"
        try:
            value = float(parse_cost(text).evaluate(_smallest(instruction, accelerator)))
        except ExpressionError as error:
            require(condition=False, path=at, message=f"with every field 1, {error.detail}; a number from 0 is due")
        upper = "up" if most is None else f"to {most}"
        found = f"with every field 1, {text} is {value:g}; {role} must be from 0 {upper}"
        require(value >= 0 and (most is None or value <= most), at, found)


def _smallest(instruction: Instruction, accelerator: Accelerator) -> dict[str, float]:
    """What a cost may name, where every field that is not constant is 1."""
    values: dict[str, float] = {
        "bus_bytes": accelerator.dram.bus_bytes,
        "read_latency": accelerator.dram.read_latency,
    }
    if isinstance(instruction, Copy):
        values |= {"elements": 1, "bytes": instruction.dram_bytes(accelerator.memory(instruction.memory))}
    for name, field in cost_fields(accelerator, instruction).items():
        constant = accelerator.field(instruction, field).value
        values[name] = 1 if constant is None else constant
    return values
