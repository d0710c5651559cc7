"""Checks of costs: whatever its fields hold, a cost of an instruction is a finite number within its limits.

The bounds are proven over boxes of field values. A box is halved until its bounds are proven or refuted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from accel.accelerator.cost_ranges import (
    Range,
    cost_fields,
    cost_ranges,
    cost_samples,
    cost_sizes,
    field_choices,
    linked_fields,
)
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy, Instruction
from accel.accelerator.require import require, together
from accel.expression.cost_expression import Cost, Ends, bounds, parse_cost
from accel.expression.syntax_tree import ExpressionError
from accel.util.arrays import Bools, Float64

_MOST_BOXES = 1 << 13  # looked at, of one choice of fields
_ROUNDS = 200


@dataclass(frozen=True)
class _Space:
    """The variables of a cost and their ranges; boxes are two arrays (variables, n), the lower and the upper ends."""

    cost: Cost
    instruction: Instruction
    accelerator: Accelerator
    free: tuple[str, ...]
    whole: tuple[bool, ...]

    def names(self, low: Float64, high: Float64) -> dict[str, Ends]:
        """Returns the lower and upper ends (n,) of every name of the cost, over n boxes."""
        fields, linked = cost_fields(self.accelerator, self.instruction), linked_fields(self.instruction)
        one, dram = np.ones(low.shape[1]), self.accelerator.dram
        ends = {name: (low[at], high[at]) for at, name in enumerate(self.free)}
        found: dict[str, Ends] = {
            "bus_bytes": (one * dram.bus_bytes, one * dram.bus_bytes),
            "read_latency": (one * dram.read_latency, one * dram.read_latency),
        }
        if isinstance(self.instruction, Copy):
            memory = self.accelerator.memory(self.instruction.memory)
            least, most = self.moved_elements(low), np.minimum(self.moved_elements(high), memory.depth)
            found["elements"] = (least, np.maximum(least, most))
            size = self.instruction.dram_bytes(memory)
            found["bytes"] = (found["elements"][0] * size, found["elements"][1] * size)
        return {
            name: ends[linked.get(fields[name], fields[name])] if name in fields else found[name]
            for name in self.cost.names
        }

    def moved_elements(self, ends: Float64) -> Float64:
        """Returns the elements (n,) that a copy moves, given its rows and columns."""
        found = np.ones(ends.shape[1])
        for name in cost_sizes(self.instruction):
            found = found * ends[self.free.index(name)]
        return found

    def possible(self, low: Float64) -> Bools:
        """Returns which boxes (n,) hold a possible instruction: a copy moves no more than its memory holds."""
        if not isinstance(self.instruction, Copy):
            return np.ones(low.shape[1], np.bool_)
        return np.asarray(self.moved_elements(low) <= self.accelerator.memory(self.instruction.memory).depth)


def is_proven(cost: Cost, instruction: Instruction, accelerator: Accelerator, most: float) -> bool:
    """Returns whether ``cost`` is proven to lie in 0 to ``most`` for all values of the instruction's fields."""
    return all(_proven(space, low, high, most) for space, low, high in _spaces(cost, instruction, accelerator))


def _spaces(
    cost: Cost, instruction: Instruction, accelerator: Accelerator
) -> Iterator[tuple[_Space, Float64, Float64]]:
    """All that the cost's names can be, for each choice of those fields that it names: one box each."""
    fields, known, linked = (
        cost_fields(accelerator, instruction),
        cost_ranges(accelerator, instruction),
        linked_fields(instruction),
    )
    own = [linked.get(fields[name], fields[name]) for name in cost.names if name in fields]
    free = tuple(dict.fromkeys([*own, *cost_sizes(instruction)]))
    whole = tuple(accelerator.field(instruction, name).type != "float32" for name in free)
    seen: set[tuple[Range, ...]] = set()
    for when in field_choices(instruction):
        box = tuple((when[name], when[name]) if name in when else known[name] for name in free)
        if box not in seen:
            seen.add(box)
            ends = np.array(box, np.float64).reshape(len(box), 2)
            yield _Space(cost, instruction, accelerator, free, whole), ends[:, :1], ends[:, 1:]


def _proven(space: _Space, low: Float64, high: Float64, most: float) -> bool:
    looked = 0
    for _ in range(_ROUNDS):
        looked += low.shape[1]
        found = bounds(space.cost, space.names(low, high), low.shape[1])
        undecided = ~(found.finite & (found.low >= 0) & (found.high <= most)) & space.possible(low)
        if not undecided.any():
            return True
        low, high = low[:, undecided], high[:, undecided]
        if looked > _MOST_BOXES or not len(low) or (low == high).all(axis=0).any():
            return False
        low, high = _halved(low, high, np.array(space.whole))
    return False


def _halved(low: Float64, high: Float64, whole: Bools) -> tuple[Float64, Float64]:
    """Each box cut in two where it is widest, by the ratio of its ends."""
    at = np.argmax((high - low) / np.maximum(np.minimum(np.abs(low), np.abs(high)), 1), axis=0)
    column = np.arange(low.shape[1])
    begin, end = low[at, column], high[at, column]
    middle = np.where(whole[at], np.floor((begin + end) / 2), (begin + end) / 2)
    lower, upper = high.copy(), low.copy()
    lower[at, column] = middle
    upper[at, column] = middle + whole[at]
    return np.concatenate([low, upper], axis=1), np.concatenate([lower, high], axis=1)


_EXACT = 1 << 53  # beyond, doubles are no longer every integer

MOST_ENERGY = 1e30
"""The most picojoules of one instruction; it keeps sums over a program finite."""


def check_energy(accelerator: Accelerator) -> None:
    """Refuses an energy that is not a number from 0 to ``MOST_ENERGY`` for all values of its fields.

    Raises:
        InvalidAccelerator: ``field`` is the path of the energy.
    """
    with together() as apart:
        for index, instruction in enumerate(accelerator.instructions):
            if instruction.energy is not None:
                with apart():
                    check_cost(
                        f"instructions.{index}.energy", instruction.energy, instruction, accelerator, MOST_ENERGY
                    )


def check_cost(path: str, text: str, instruction: Instruction, accelerator: Accelerator, most: float) -> None:
    """Refuses a cost that is not a number from 0 to ``most`` for all values of the instruction's fields.

    First sample values are tried; a failure is reported with the values. The rest is proven by interval arithmetic,
    and a cost for which the proof fails is refused as well.

    Raises:
        InvalidAccelerator: ``field`` is ``path``; the message has the field values for which it fails, if known.
    """
    cost, role = parse_cost(text), path.rpartition(".")[2]
    for columns in cost_samples(cost, instruction, accelerator):
        wrong = _wrong(cost, columns, role, most)
        require(wrong is None, path, str(wrong))
    unsure = (
        f"{cost} may be below 0 or above {most:g}, or divide by zero, for some values of its fields, as far as "
        f"their ranges show; {role} must be from 0 to {most:g}: bound it by min and max, and a divisor by max(..., 1)"
    )
    require(is_proven(cost, instruction, accelerator, most), path, unsure)


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
    assignments = [f"{name} = {_shown(column[row])}" for name, column in columns.items()]
    return f"with {', '.join(assignments)}, " if assignments else ""


def _shown(value: float) -> str:
    return f"{int(value)}" if abs(value) <= _EXACT else f"{value:g}"
