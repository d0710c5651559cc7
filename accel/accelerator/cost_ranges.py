"""The fields and numbers that a cost may name, and the least and the greatest value of each."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import field_names, span
from accel.accelerator.instructions import BitField, Compute, Copy, Instruction, Layer
from accel.expression.cost_expression import Cost, parse_cost
from accel.expression.syntax_tree import Literal, walk
from accel.util.arrays import Float64

Range = tuple[int, int]

DEFAULT_CYCLES = "1"
BUS_CYCLES = "ceil(bytes / bus_bytes)"
"""Cycles of a copy on a bus that units share, where the document gives it no others."""

_ALL = 16  # a range of so many numbers is tried whole
_FLOAT32_MAX = int(np.finfo(np.float32).max)
_CORNERS = 10  # numbers of which every combination of least and most is tried


def cost_fields(accelerator: Accelerator, instruction: Instruction) -> dict[str, str]:
    """Returns the fields that a cost may name: every name of a field with the field's whole name.

    In a sequence the whole name is part.field; the field's own name is allowed where one part alone has it.
    """
    names = field_names(accelerator, instruction)
    plain = [name.rpartition(".")[2] for name in names]
    alone = {short: name for short, name in zip(plain, names, strict=True) if plain.count(short) == 1}
    return alone | {name: name for name in names}


def costs_of_dram(accelerator: Accelerator) -> dict[str, float]:
    """Returns what costs may name beside fields."""
    return {"bus_bytes": float(accelerator.dram.bus_bytes), "read_latency": float(accelerator.dram.read_latency)}


def cost_of_one(text: str, instruction: Instruction, accelerator: Accelerator, known: Mapping[str, float]) -> float:
    """Returns what a cost is for one instruction, given numbers by whole names of fields; what is not given is 0.

    Raises:
        ExpressionError: as :meth:`Cost.evaluate`.
    """
    cost, fields = parse_cost(text), cost_fields(accelerator, instruction)
    given = {**costs_of_dram(accelerator), **known}
    return float(cost.evaluate({name: float(given.get(fields.get(name, name), 0)) for name in cost.names}).max())


def depths_of_memories(accelerator: Accelerator) -> dict[str, float]:
    """Returns what ``uses`` of layers may name beside: each memory, for the number of its elements."""
    return {memory.name: float(memory.depth) for memory in accelerator.memories}


def cost_samples(cost: Cost, instruction: Instruction, accelerator: Accelerator) -> Iterator[dict[str, Float64]]:
    """Yields sample values of the names of ``cost`` for each operation: a column (n,) for each name.

    Samples combine the least and the greatest value of each field; one field at a time also takes values between:
    powers of two, the numbers of the cost and their neighbours. A copy moves at least one element, and no more than
    its memory holds.
    """
    fields, known = cost_fields(accelerator, instruction), cost_ranges(accelerator, instruction)
    own = [fields[name] for name in cost.names if name in fields]
    linked = linked_fields(instruction)
    free = list(dict.fromkeys(linked.get(name, name) for name in [*own, *cost_sizes(instruction)]))
    literals = [int(node.value) for node in walk(cost.tree) if isinstance(node, Literal)]
    for when in field_choices(instruction):
        values = _combined([(when[name], when[name]) if name in when else known[name] for name in free], literals)
        columns = dict(zip(free, values, strict=True))
        columns |= {name: columns[extent] for name, extent in linked.items() if extent in columns}
        one = np.ones(values.shape[1])
        found = {"bus_bytes": one * accelerator.dram.bus_bytes, "read_latency": one * accelerator.dram.read_latency}
        if isinstance(instruction, Copy):
            found |= _moved(instruction, columns, one, accelerator)
        yield {name: columns[fields[name]] if name in fields else found[name] for name in cost.names}


def cost_sizes(instruction: Instruction) -> list[str]:
    """Returns the fields of a copy's rows, columns, further dimensions and blocks; none for other instructions."""
    if not isinstance(instruction, Copy):
        return []
    found = [instruction.copy_fields.rows, instruction.copy_fields.columns]
    found += [dimension.extent for dimension in instruction.dimensions]
    found += [] if instruction.blocks is None else [instruction.blocks.scalars]
    if instruction.windows is not None:
        found += [instruction.windows.rows.count, instruction.windows.columns.count]
    return [name for name in found if name is not None]


def linked_fields(instruction: Instruction) -> dict[str, str]:
    """Returns fields that repeat the extent of a hardware loop, each with the field of the extent."""
    loops = instruction.loops if isinstance(instruction, Compute | Layer) else ()
    return {name: loop.extent for loop in loops for name in loop.repeated_in}


def field_choices(instruction: Instruction) -> list[dict[str, int]]:
    """Returns the fields that choose each operation; one empty choice for an instruction without operations."""
    operations = instruction.operations if isinstance(instruction, Copy | Compute | Layer) else ()
    return [operation.when for operation in operations] or [{}]


def _moved(copy: Copy, columns: dict[str, Float64], one: Float64, accelerator: Accelerator) -> dict[str, Float64]:
    """Elements and bytes of a copy; its extents, but for the rows, are cut in ``columns`` to what the memory holds."""
    memory, fields = accelerator.memory(copy.memory), copy.copy_fields
    rows = columns[fields.rows] if fields.rows is not None else one
    for dimension in copy.dimensions:
        columns[dimension.extent] = np.minimum(columns[dimension.extent], np.maximum(memory.depth // rows, 1))
        rows = rows * columns[dimension.extent]
    wide = columns[fields.columns] if fields.columns is not None else one
    if copy.blocks is not None:
        wide = columns[copy.blocks.scalars] / memory.element_count
    if copy.windows is not None:
        rows, wide = columns[copy.windows.rows.count], columns[copy.windows.columns.count]
    wide = np.minimum(wide, np.maximum(memory.depth // rows, 1))
    if fields.columns is not None:
        columns[fields.columns] = wide
    if copy.windows is not None:
        columns[copy.windows.columns.count] = wide
    return {"elements": rows * wide, "bytes": rows * wide * copy.dram_bytes(memory)}


def cost_ranges(accelerator: Accelerator, instruction: Instruction) -> dict[str, Range]:
    """Returns the least and the greatest value of each field by its whole name; counts are 1 at least."""
    found = {
        name: _field_range(accelerator.field(instruction, name)) for name in field_names(accelerator, instruction)
    } | _bounded(accelerator, instruction)
    return {name: (low, max(low, high)) for name, (low, high) in found.items()}


def _field_range(field: BitField) -> Range:
    if field.value is not None:
        return field.value, field.value
    if field.type == "float32":
        return -_FLOAT32_MAX, _FLOAT32_MAX
    if field.type == "signed":
        return -(1 << field.bits - 1), (1 << field.bits - 1) - 1
    return 0, (1 << field.bits) - 1


def _bounded(accelerator: Accelerator, instruction: Instruction) -> dict[str, Range]:
    """Counts and addresses."""

    def most(name: str, limit: int | None) -> int:
        largest = (1 << accelerator.bits(instruction, name)) - 1
        return largest if limit is None else min(largest, limit)

    found: dict[str, Range] = {}
    if isinstance(instruction, Copy):
        found |= _bounded_copy(accelerator, instruction, most)
    if isinstance(instruction, Compute):
        for operand in instruction.operands.values():
            if operand.address is not None:
                memory = accelerator.memory(operand.memory)
                found[operand.address] = (0, most(operand.address, memory.depth - span(operand, memory)))
    if isinstance(instruction, Compute | Layer):
        found |= {loop.extent: (1, most(loop.extent, loop.limit)) for loop in instruction.loops}
    if isinstance(instruction, Layer):
        windows = (window for operand in instruction.operands.values() for window in operand.windows)
        found |= {window.extent: (1, most(window.extent, None)) for window in windows}
    return found


def _bounded_copy(accelerator: Accelerator, copy: Copy, most: Callable[[str, int | None], int]) -> dict[str, Range]:
    fields, memory = copy.copy_fields, accelerator.memory(copy.memory)
    found: dict[str, Range] = {fields.sram: (0, most(fields.sram, memory.depth - 1))}
    if fields.rows is not None:
        found[fields.rows] = (1, most(fields.rows, min(memory.depth, copy.max_rows or memory.depth)))
    if fields.columns is not None:
        found[fields.columns] = (1, most(fields.columns, memory.depth))
    for dimension in copy.dimensions:
        found[dimension.extent] = (1, most(dimension.extent, min(memory.depth, dimension.limit or memory.depth)))
    if copy.blocks is not None:
        found[copy.blocks.scalars] = (memory.element_count, memory.element_count * copy.blocks.most)
    for axis in () if copy.windows is None else (copy.windows.rows, copy.windows.columns):
        found |= {name: (1, most(name, memory.depth)) for name in (axis.size, axis.stride, axis.count, axis.extent)}
    return found


def _combined(known: Sequence[Range], literals: Sequence[int]) -> Float64:
    """Columns (ranges, n): the corners, then each range in turn at every sample, the others at one end."""
    ends = list(itertools.product(*known[:_CORNERS]))
    rows = [(*corner, *(low for low, _ in known[_CORNERS:])) for corner in ends]
    for base in ([low for low, _ in known], [high for _, high in known]):
        rows += [
            (*base[:at], value, *base[at + 1 :]) for at, one in enumerate(known) for value in _tried(one, literals)
        ]
    return np.array(rows, np.float64).reshape(len(rows), len(known)).T


def _tried(known: Range, literals: Sequence[int]) -> list[int]:
    low, high = known
    if high - low < _ALL:
        return list(range(low, high + 1))
    near = {number + step for number in literals for step in (-1, 0, 1)}
    powers = {sign << bit for bit in range(high.bit_length()) for sign in (1, -1)}
    return [low, low + 1, *sorted(number for number in near | powers if low < number < high), high]
