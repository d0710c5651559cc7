"""What instructions cost by the expressions of their document: ``cycles`` and ``energy``."""

from collections.abc import Callable

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import field_names
from accel.accelerator.instructions import Copy, Instruction
from accel.accelerator.semantics import scalar_field
from accel.errors import SimulationError
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError
from accel.isa.decode import Decoded
from accel.util.arrays import Float64, Int64

Columns = Callable[[str], Int64]


def evaluate_cost(text: str, accelerator: Accelerator, instruction: Instruction, columns: Columns) -> Float64:
    """The value of a cost for n executions of ``instruction``.

    Args:
        text: arithmetic over the instruction's fields, ``bus_bytes``, ``read_latency`` (cycles) and, in a copy,
            ``bytes`` of DRAM and ``elements`` moved.
        accelerator: the document, which :func:`accel.accelerator.checks.document_checks.check_document` takes.
        instruction: one of its instructions.
        columns: gives the values (n,) of a field by its name, which is part.field in a sequence.

    Raises:
        ExpressionError: the text is no cost, divides by zero, or is no finite number.
    """
    cost = parse_cost(text)
    values = {name: _value(name, accelerator, instruction, columns) for name in cost.names}
    return np.asarray(cost.evaluate(values), np.float64)


def energy_of(decoded: Decoded) -> float | None:
    """Picojoules of a launch: of those instructions for which the document says, None if it says of none.

    Raises:
        SimulationError: the document's expression divides by zero, or is no finite number.
    """
    accelerator = decoded.accelerator
    total: float | None = None
    for instruction in accelerator.instructions:
        if instruction.energy is not None:
            rows = decoded.rows(instruction)
            try:
                each = evaluate_cost(instruction.energy, accelerator, instruction, _columns_of(decoded, rows))
            except ExpressionError as error:
                raise SimulationError(
                    f"energy of {instruction.name}: {error.detail}", field="accelerator", kind="cost"
                ) from error
            total = (total or 0.0) + float(np.broadcast_to(each, len(rows)).sum())
    return total


def _columns_of(decoded: Decoded, rows: Int64) -> Columns:
    return lambda name: decoded.column(name)[rows]


def _value(name: str, accelerator: Accelerator, instruction: Instruction, columns: Columns) -> Float64 | float:
    if name == "bus_bytes":
        return float(accelerator.dram.bus_bytes)
    if name == "read_latency":
        return float(accelerator.dram.read_latency)
    if isinstance(instruction, Copy) and name in ("elements", "bytes"):
        fields = instruction.copy_fields
        counts = (fields.rows, fields.columns, *(dimension.extent for dimension in instruction.dimensions))
        moved = np.prod([columns(field) for field in counts if field is not None], axis=0)
        if instruction.windows is not None:
            moved = columns(instruction.windows.rows.count) * columns(instruction.windows.columns.count)
        if instruction.blocks is not None:
            moved = moved * columns(instruction.blocks.scalars) / accelerator.memory(instruction.memory).element_count
        size = instruction.dram_bytes(accelerator.memory(instruction.memory)) if name == "bytes" else 1
        return np.asarray(moved * size, np.float64)
    known = name if name in field_names(accelerator, instruction) else scalar_field(accelerator, instruction, name)
    values = columns(known)
    kind = accelerator.field(instruction, known)
    if kind.type == "float32":
        return values.astype(np.uint32).view(np.float32).astype(np.float64)
    return values.astype(np.uint64 if kind.bits == 64 and kind.type == "unsigned" else np.int64).astype(np.float64)
