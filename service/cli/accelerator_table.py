"""An accelerator as tables: memories, instructions, units."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accel.accelerator.contraction import contraction
from accel.accelerator.document import Accelerator, HazardSync, TokenSync
from accel.accelerator.instructions import AnyInstruction, Compute, Copy
from accel.catalog.load_accelerator import accelerator_id
from accel.errors import InvalidAccelerator


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
    yield f"units {', '.join(accelerator.units)}; {_synchronisation(accelerator)}"
    dram = accelerator.dram
    yield f"DRAM: {dram.bus_bytes} bytes a cycle, {dram.read_latency} cycles to the first"


def _synchronisation(accelerator: Accelerator) -> str:
    match accelerator.synchronisation:
        case TokenSync(limit=limit):
            return f"they wait for tokens, at most {limit} in a queue"
        case HazardSync(window=window):
            return f"they wait for addresses, in a window of {window} instructions"
        case _:
            return "instructions start in order"


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
        pragma = instruction.pragma if isinstance(instruction, Copy | Compute) else ""
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
    return []


def _contraction(accelerator: Accelerator) -> str:
    try:
        gemm = contraction(accelerator)
    except InvalidAccelerator as error:
        return f"it simulates programs, and models cannot be compiled for it: {error.detail}"
    tile = f"{gemm.rows} x {gemm.out_channels} x {gemm.in_channels}"
    return f"{gemm.instruction.name} contracts: {tile} (rows, output channels, input channels), {gemm.macs:,} MACs"
