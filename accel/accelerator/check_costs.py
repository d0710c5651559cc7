"""Whether costs are numbers that an instruction can have, whatever its fields hold."""

from collections.abc import Mapping

import numpy as np

from accel.accelerator.cost_numbers import Float64, samples
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Instruction
from accel.accelerator.prove_costs import proven
from accel.accelerator.require import require
from accel.expression.cost import Cost, parse_cost
from accel.expression.errors import ExpressionError

_EXACT = 1 << 53  # beyond, doubles are no longer every integer

MOST_ENERGY = 1e30
"""Picojoules of one instruction; sums over a program are finite then."""


def check_energy(accelerator: Accelerator) -> None:
    """Refuse energies that :func:`check_cost` refuses.

    Raises:
        InvalidAccelerator: ``field`` is the path of the energy.
    """
    for index, instruction in enumerate(accelerator.instructions):
        if instruction.energy is not None:
            check_cost(f"instructions.{index}.energy", instruction.energy, instruction, accelerator, MOST_ENERGY)


def check_cost(path: str, text: str, instruction: Instruction, accelerator: Accelerator, most: float) -> None:
    """Refuse a cost that is not a number from 0 to ``most`` for all that the instruction's fields can hold together.

    What fails at numbers that are tried is refused with those. The rest is shown by arithmetic on ranges, and what
    that cannot show is refused as well.

    Raises:
        InvalidAccelerator: ``field`` is ``path``; the message has the fields for which it fails, if they are known.
    """
    cost, role = parse_cost(text), path.rpartition(".")[2]
    for columns in samples(cost, instruction, accelerator):
        wrong = _wrong(cost, columns, role, most)
        require(wrong is None, path, str(wrong))
    unsure = (
        f"{cost} may be below 0 or above {most:g}, or divide by zero, for some of what its fields can hold, as far as "
        f"their ranges show; {role} must be from 0 to {most:g}: hold it by min and max, and a divisor by max(..., 1)"
    )
    require(proven(cost, instruction, accelerator, most), path, unsure)


def _wrong(cost: Cost, columns: Mapping[str, Float64], role: str, most: float) -> str | None:
    try:
        values = np.atleast_1d(cost.evaluate(columns))
    except ExpressionError as error:
        return f"{_given(columns, error.row or 0)}{error.detail}; a number from 0 is due"
    row = int(((values < 0) | (values > most)).argmax())
    if 0 <= values[row] <= most:
        return None
    return f"{_given(columns, row)}{cost} is {values[row]:g}; {role} must be from 0 to {most}"


def _given(columns: Mapping[str, Float64], row: int) -> str:
    """The values of what the cost names."""
    told = [f"{name} = {_shown(column[row])}" for name, column in columns.items()]
    return f"with {', '.join(told)}, " if told else ""


def _shown(value: float) -> str:
    return f"{int(value)}" if abs(value) <= _EXACT else f"{value:g}"
