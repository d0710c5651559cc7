"""An accelerator as tables: memories, instructions, units."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import AnyInstruction, Compute, Copy, Layer
from accel.catalog.load_accelerator import accelerator_id
from service.web.figures.document_words import bus_words, contracted, host_words, waiting_words


def print_accelerator(accelerator: Accelerator, console: Console) -> None:
    """Print its family, memories, units and instructions, and what contracts."""
    for line in _head(accelerator):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(_memories(accelerator))
    console.print(_instructions(accelerator))
    console.print(_contraction(accelerator), markup=False, highlight=False, soft_wrap=True)


def print_listing(accelerators: list[Accelerator], console: Console) -> None:
    """Print a line for each."""
    table = Table("name", "family", "title")
    for accelerator in accelerators:
        table.add_row(accelerator.name, accelerator.family, Text(accelerator.title))
    console.print(table)


def _head(accelerator: Accelerator) -> Iterator[str]:
    yield f"{accelerator.name}: {accelerator.title}"
    yield (
        f"family {accelerator.family}, {accelerator.clock_mhz:g} MHz, instructions of {accelerator.word_bits} bits, "
        f"id {accelerator_id(accelerator)}"
    )
    yield f"units {', '.join(accelerator.units)}; {waiting_words(accelerator)}"
    yield f"DRAM: {', '.join(bus_words(accelerator))}"
    yield f"host: {host_words(accelerator)}"


def _memories(accelerator: Accelerator) -> Table:
    table = Table("memory", "elements", "of", "bytes", "ports")
    for column in table.columns[1:]:
        column.justify = "right"
    for memory in accelerator.memories:
        element = f"{memory.dtype} {' x '.join(map(str, memory.shape))}"
        size = memory.depth * memory.element_bytes
        table.add_row(memory.name, f"{memory.depth:,}", element, f"{size:,}", str(memory.ports))
    return table


def _instructions(accelerator: Accelerator) -> Table:
    table = Table("instruction", "unit", "kind", "pragma", "does")
    for instruction in accelerator.instructions:
        pragma = instruction.pragma if isinstance(instruction, Copy | Compute | Layer) else ""
        does = Text("\n".join(_semantics(instruction)))
        table.add_row(instruction.name, instruction.unit, instruction.kind, pragma, does)
    return table


def _semantics(instruction: AnyInstruction) -> list[str]:
    if isinstance(instruction, Copy):
        way = "from" if instruction.direction == "load" else "to"
        moves = f"{instruction.direction}s {instruction.memory} {way} {instruction.dram_dtype} in DRAM"
        return [moves, *(f"{operation.name}: {operation.does}" for operation in instruction.operations)]
    if isinstance(instruction, Compute):
        return [f"{operation.name}: {operation.does}" for operation in instruction.operations]
    if isinstance(instruction, Layer):
        return [f"{operation.name}: {'; '.join(operation.statements)}" for operation in instruction.operations]
    return []


def _contraction(accelerator: Accelerator) -> str:
    tile = contracted(accelerator)
    if isinstance(tile, str):
        return f"it simulates programs, and models cannot be compiled for it: {tile}"
    return f"{tile.instruction} contracts: {tile.tile}, {tile.macs:,} MACs"
