"""Whether costs are numbers that an instruction can have, whatever its fields hold."""

from collections.abc import Mapping

import numpy as np

from accel.accelerator.cost_numbers import Float64, samples
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Instruction
from accel.accelerator.require import require
from accel.expression.cost import Cost, parse_cost
from accel.expression.errors import ExpressionError


def check_energy(accelerator: Accelerator) -> None:
    """Refuse energies that :func:`check_cost` refuses.

    Raises:
        InvalidAccelerator: ``field`` is the path of the energy.
    """
    for index, instruction in enumerate(accelerator.instructions):
        if instruction.energy is not None:
            check_cost(f"instructions.{index}.energy", instruction.energy, instruction, accelerator)


def check_cost(
    path: str, text: str, instruction: Instruction, accelerator: Accelerator, most: int | None = None
) -> None:
    """Refuse a cost that divides by zero, is negative or infinite for fields that the instruction can hold.

    ``most`` bounds the cost of the smallest instruction.

    Raises:
        InvalidAccelerator: ``field`` is ``path``; the message has the fields for which it fails.
    """
    cost = parse_cost(text)
    for columns in samples(cost, instruction, accelerator):
        wrong = _wrong(cost, columns, path.rpartition(".")[2], most)
        require(wrong is None, path, str(wrong))


def _wrong(cost: Cost, columns: Mapping[str, Float64], role: str, most: int | None) -> str | None:
    try:
        values = np.atleast_1d(cost.evaluate(columns))
    except ExpressionError as error:
        return f"{_given(columns, error.row or 0)}{error.detail}; a number from 0 is due"
    row = int((values < 0).argmax())
    if values[row] >= 0 and (most is None or values[row] <= most):
        return None
    upper = "up" if most is None else f"to {most}"
    return f"{_given(columns, row)}{cost} is {values[row]:g}; {role} must be from 0 {upper}"


def _given(columns: Mapping[str, Float64], row: int) -> str:
    """The values of what the cost names."""
    told = [f"{name} = {int(column[row])}" for name, column in columns.items()]
    return f"with {', '.join(told)}, " if told else ""
