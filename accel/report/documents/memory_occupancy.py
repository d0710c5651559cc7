"""How full each on-chip memory is over time, by a memory plan."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.report.documents.memory_documents import Allocation, MemoryPlan, OnChipMemory
from accel.util.step_function import StepFunction


@dataclass(frozen=True)
class MemoryOccupancy:
    """A memory, and how many of its elements hold something at each cycle of the program's clock.

    An element of a buffer holds something from when the first instruction that touches the buffer starts until the
    last one has ended.
    """

    memory: OnChipMemory
    held: StepFunction

    @property
    def bytes(self) -> int:
        """What the memory holds at most, in bytes."""
        return self.memory.elements * self.memory.element_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that is ever held at a time, in bytes."""
        return self.held.peak * self.memory.element_bytes


def memory_occupancy(plan: MemoryPlan) -> tuple[MemoryOccupancy, ...]:
    """Returns the occupancy of each memory of a plan, in the plan's order."""
    found: dict[str, list[Allocation]] = {memory.name: [] for memory in plan.memories}
    for layer in plan.layers:
        for allocation in layer.allocations:
            found[allocation.memory].append(allocation)
    return tuple(MemoryOccupancy(memory, _held(found[memory.name])) for memory in plan.memories)


def _held(allocations: Sequence[Allocation]) -> StepFunction:
    touched = [
        (each.begin_cycle, each.end_cycle, each.end - each.begin)
        for each in allocations
        if each.begin_cycle is not None and each.end_cycle is not None
    ]
    begin, end, elements = np.array(touched, np.int64).reshape(-1, 3).T
    return StepFunction.of_spans(begin, end, elements)
