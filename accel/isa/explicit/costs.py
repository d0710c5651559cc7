"""What instructions cost: the document's expressions, for all instructions of a launch at once."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from accel.accelerator.checks.semantics_checks import COPY_COST_NAMES
from accel.accelerator.cost_ranges import BUS_CYCLES, DEFAULT_CYCLES, cost_fields
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy, Instruction
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError
from accel.isa.decode import Decoded
from accel.isa.explicit.hazards.accesses import copying
from accel.isa.explicit.operations import MAX_CYCLES, ExecutedWords, executions_of, words_of
from accel.util.arrays import Float64, Int64

DEFAULT_ENERGY = "0"


def doing(decoded: Decoded) -> Iterator[tuple[Instruction, ExecutedWords]]:
    """Every word of a launch once, with the instruction whose unit, costs and tokens count there.

    Of a sequence that is its last part. The others stand for themselves.

    Raises:
        SimulationError: see :func:`executions_of`.
    """
    accelerator = decoded.accelerator
    for executions in executions_of(decoded):
        yield executions.sort.instruction, executions.words
    ends = {instruction.sequence[-1] for instruction in accelerator.instructions if instruction.sequence}
    for instruction in accelerator.instructions:
        if instruction.kind in ("part", "sync", "finish") and instruction.name not in ends:
            yield instruction, words_of(decoded, instruction)


_Role = Literal["cycles", "energy", "bus_cycles"]


class LaunchCosts:
    """The costs of a launch's instructions, on its document and on others that differ in costs, bus or memories alone.

    What an expression gives is kept: documents that change one resource at a time give most of it again.

    Raises:
        SimulationError: see :func:`executions_of`.
    """

    def __init__(self, decoded: Decoded) -> None:
        self._decoded = decoded
        places = {each.name: place for place, each in enumerate(decoded.accelerator.instructions)}
        self._doing = [(places[instruction.name], words) for instruction, words in doing(decoded) if len(words)]
        self._known: dict[tuple[int, str, int, int], Float64] = {}

    def cycles(self, accelerator: Accelerator) -> Int64:
        """Returns cycles (n,) that each instruction keeps its unit: the cost, rounded up, and 1 at least.

        Raises:
            SimulationError: the first for which the cost is no number from 0 to 2^40.
        """
        costs = self.costs(accelerator, "cycles")
        if (wrong := np.flatnonzero(costs > MAX_CYCLES)).size:
            at = int(wrong[0])
            raise self._decoded.error(at, "cost", f"its cycles are {costs[at]:g}; at most {MAX_CYCLES}")
        return np.maximum(np.ceil(costs), 1).astype(np.int64)

    def bus_cycles(self, accelerator: Accelerator) -> Int64:
        """Returns cycles (n,) that each keeps the bus that units share, rounded up; 0 of those that do not use it.

        Raises:
            SimulationError: the first for which the cost is no number from 0 to 2^40.
        """
        found = np.zeros(len(self._decoded))
        for place, (number, words) in enumerate(self._doing) if accelerator.shares_bus else ():
            instruction = accelerator.instructions[number]
            if isinstance(instruction, Copy) and instruction.unit in accelerator.dram.shared_by:
                text = instruction.bus_cycles or BUS_CYCLES
                found[words.rows] = self._evaluated(place, accelerator, text, "bus_cycles")
        if (wrong := np.flatnonzero((found < 0) | (found > MAX_CYCLES))).size:
            at = int(wrong[0])
            raise self._decoded.error(at, "cost", f"its bus_cycles are {found[at]:g}; from 0 to {MAX_CYCLES} are due")
        return np.ceil(found).astype(np.int64)

    def costs(self, accelerator: Accelerator, role: Literal["cycles", "energy"]) -> Float64:
        """Returns the cost (n,) of each instruction: cycles, not rounded, or picojoules.

        Raises:
            SimulationError: the first that is negative; one whose expression divides by zero, or is no finite number.
        """
        costs = np.zeros(len(self._decoded))
        for place, (number, words) in enumerate(self._doing):
            text = getattr(accelerator.instructions[number], role)
            text = text or (DEFAULT_CYCLES if role == "cycles" else DEFAULT_ENERGY)
            costs[words.rows] = self._evaluated(place, accelerator, text, role)
        if (wrong := np.flatnonzero(costs < 0)).size:
            at = int(wrong[0])
            raise self._decoded.error(at, "cost", f"its {role} would be {costs[at]:g}; a number from 0 is due")
        return costs

    def _evaluated(self, place: int, accelerator: Accelerator, text: str, role: _Role) -> Float64:
        """The cost of the executions at ``place``."""
        names, dram = parse_cost(text).names, accelerator.dram
        bus, latency = dram.bus_bytes * ("bus_bytes" in names), dram.read_latency * ("read_latency" in names)
        key = place, text, bus, latency
        if key not in self._known:
            number, words = self._doing[place]
            self._known[key] = _evaluate(accelerator, accelerator.instructions[number], words, text, role)
        return self._known[key]


def cycles_of(decoded: Decoded) -> Int64:
    """Returns :meth:`LaunchCosts.cycles` of a launch on its own document."""
    return decoded.derived(LaunchCosts).cycles(decoded.accelerator)


def bus_cycles_of(decoded: Decoded) -> Int64:
    """Returns :meth:`LaunchCosts.bus_cycles` of a launch on its own document."""
    return decoded.derived(LaunchCosts).bus_cycles(decoded.accelerator)


def costs_of(decoded: Decoded, role: Literal["cycles", "energy"]) -> Float64:
    """Returns :meth:`LaunchCosts.costs` of a launch on its own document."""
    return decoded.derived(LaunchCosts).costs(decoded.accelerator, role)


def _evaluate(
    accelerator: Accelerator, instruction: Instruction, words: ExecutedWords, text: str, role: str
) -> Float64:
    cost = parse_cost(text)
    columns: dict[str, Int64 | float] = {
        "bus_bytes": accelerator.dram.bus_bytes,
        "read_latency": accelerator.dram.read_latency,
    }
    fields = cost_fields(accelerator, instruction)
    columns |= {name: words.column(fields[name]) for name in cost.names if name in fields}
    if isinstance(instruction, Copy) and not set(COPY_COST_NAMES).isdisjoint(cost.names):
        shape = copying(words, instruction)
        size = instruction.dram_bytes(accelerator.memory(instruction.memory))
        columns |= {"elements": shape.moved, "bytes": shape.moved * size}
    try:
        return np.asarray(cost.evaluate(columns))
    except ExpressionError as error:
        at = int(words.rows[error.row or 0])
        raise words.decoded.error(at, "cost", f"its {role}: {error.detail}") from error
