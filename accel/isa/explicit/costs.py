"""What instructions cost: the document's expressions, for all instructions of a launch at once."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from accel.accelerator.checks.semantics_checks import COPY_COST_NAMES
from accel.accelerator.cost_ranges import cost_fields
from accel.accelerator.instructions import Copy, Instruction
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError
from accel.isa.decode import Decoded
from accel.isa.explicit.accesses import copying
from accel.isa.explicit.operations import MAX_CYCLES, ExecutedWords, executions_of, words_of
from accel.util.arrays import Float64, Int64

DEFAULT_CYCLES = "1"
DEFAULT_ENERGY = "0"
BUS_CYCLES = "ceil(bytes / bus_bytes)"
"""Cycles of a copy on a bus that units share, where the document gives it no others."""


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


def cycles_of(decoded: Decoded) -> Int64:
    """Cycles (n,) that each instruction keeps its unit: the cost, rounded up, and 1 at least.

    Raises:
        SimulationError: the first for which the cost is no number from 0 to 2^40.
    """
    costs = costs_of(decoded, "cycles")
    if (wrong := np.flatnonzero(costs > MAX_CYCLES)).size:
        at = int(wrong[0])
        raise decoded.error(at, "cost", f"its cycles are {costs[at]:g}; at most {MAX_CYCLES}")
    return np.maximum(np.ceil(costs), 1).astype(np.int64)


def bus_cycles_of(decoded: Decoded) -> Int64:
    """Cycles (n,) that each instruction keeps the bus that units share, rounded up; 0 of those that do not use it.

    Raises:
        SimulationError: the first for which the cost is no number from 0 to 2^40.
    """
    accelerator, found = decoded.accelerator, np.zeros(len(decoded))
    for instruction, words in doing(decoded) if accelerator.shares_bus else ():
        if isinstance(instruction, Copy) and instruction.unit in accelerator.dram.shared_by and len(words):
            found[words.rows] = _evaluate(instruction, words, instruction.bus_cycles or BUS_CYCLES, "bus_cycles")
    if (wrong := np.flatnonzero((found < 0) | (found > MAX_CYCLES))).size:
        at = int(wrong[0])
        raise decoded.error(at, "cost", f"its bus_cycles are {found[at]:g}; from 0 to {MAX_CYCLES} are due")
    return np.ceil(found).astype(np.int64)


def costs_of(decoded: Decoded, role: Literal["cycles", "energy"]) -> Float64:
    """The cost (n,) of each instruction: cycles, not rounded, or picojoules.

    Raises:
        SimulationError: the first that is negative; one whose expression divides by zero, or is no finite number.
    """
    costs = np.zeros(len(decoded))
    for instruction, words in doing(decoded):
        if len(words):
            text = getattr(instruction, role) or (DEFAULT_CYCLES if role == "cycles" else DEFAULT_ENERGY)
            costs[words.rows] = _evaluate(instruction, words, text, role)
    if (wrong := np.flatnonzero(costs < 0)).size:
        at = int(wrong[0])
        raise decoded.error(at, "cost", f"its {role} would be {costs[at]:g}; a number from 0 is due")
    return costs


def _evaluate(instruction: Instruction, words: ExecutedWords, text: str, role: str) -> Float64:
    accelerator, cost = words.decoded.accelerator, parse_cost(text)
    columns: dict[str, Int64 | float] = {
        "bus_bytes": accelerator.dram.bus_bytes,
        "read_latency": accelerator.dram.read_latency,
    }
    fields = cost_fields(accelerator, instruction)
    columns |= {name: words.column(fields[name]) for name in cost.names if name in fields}
    if isinstance(instruction, Copy) and not set(COPY_COST_NAMES).isdisjoint(cost.names):
        shape = copying(words, instruction)
        size = instruction.dram_bytes(accelerator.memory(instruction.memory))
        columns |= {"elements": shape.rows * shape.columns, "bytes": shape.rows * shape.columns * size}
    try:
        return np.asarray(cost.evaluate(columns))
    except ExpressionError as error:
        at = int(words.rows[error.row or 0])
        raise words.decoded.error(at, "cost", f"its {role}: {error.detail}") from error
