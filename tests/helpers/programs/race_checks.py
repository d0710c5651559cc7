"""Whether a program's tokens order its units: happens-before by vector clocks, over every scratchpad element.

And whether a program of a VTA would be right on a design whose stores read a memory that loads do not write, and whose
ALU has no bypass, as the Chisel RTL's: all that we compile for any VTA is.

An engine that runs instructions in program order would pass a program whose tokens are missing. Here an access
must be ordered after every earlier access of the same element by another unit (if either writes), and FINISH after
everything. Python loops over instructions: for programs of a few thousand.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Finish
from accel.isa.decode import Decoded, decode
from accel.isa.vta.document.instruction_view import instructions_of
from accel.program.program_model import HostStep, Program, joined_steps

Elements = npt.NDArray[np.int64]
Access = tuple[str, Elements, bool]  # memory, elements, written
_DRAM = "DRAM"  # among the memories
STALE_CYCLES = 2  # of the Chisel RTL's ALU


def assert_ordered(program: Program) -> None:
    """Every launch of the program is free of races, and of reads of what was there before; so are joined ones."""
    for steps in joined_steps(program.steps):
        if isinstance(steps, HostStep):
            continue
        tables = [program.image[step.inputs[-1]].astype(np.int64) for step in steps]
        counts = [step.count for step in steps]
        begin = steps[0].begin
        decoded = decode(program.accelerator, program.words[begin : begin + sum(counts)])
        race = find_race(program.accelerator, decoded, tables, counts, program.dram_bytes)
        assert race is None, (steps[0].name, race)
        for step, table in zip(steps, tables, strict=True):
            own = decoded.slice(step.begin - begin, step.begin - begin + step.count)
            assert program.accelerator.family != "vta" or not find_stale(own, table, STALE_CYCLES), step.name


def find_race(
    accelerator: Accelerator,
    decoded: Decoded,
    microops: Elements | list[Elements],
    counts: list[int] | None = None,
    dram_bytes: int = 0,
) -> str | None:
    """The first race, or None.

    ``microops`` are the tables that the launches load, of so many instructions each. With ``dram_bytes`` accesses of
    DRAM are looked at too.
    """
    tables = microops if isinstance(microops, list) else [microops]
    table_of = np.repeat(np.arange(len(tables)), counts or [len(decoded)])
    depths = {memory.name: memory.depth for memory in accelerator.memories} | {_DRAM: dram_bytes}
    clocks = _clocks(accelerator, decoded)
    units = accelerator.units
    last = {
        (memory, unit, written): np.full(depth, -1, np.int64)
        for memory, depth in depths.items()
        for unit in units
        for written in (True, False)
    }
    for row in range(len(decoded)):
        instruction = accelerator.instructions[decoded.kind[row]]
        accesses = _accesses(accelerator, decoded, row, tables[table_of[row]])
        for memory, elements, written in [*accesses, *(_in_dram(accelerator, decoded, row) if dram_bytes else ())]:
            for number, other in enumerate(units):
                if other == instruction.unit:
                    continue
                for kind in (True, False) if written else (True,):
                    latest = int(last[memory, other, kind][elements].max(initial=-1))
                    if latest > clocks[row, number]:
                        return f"{instruction.name} {row} and {other} {latest} on {memory}"
            last[memory, instruction.unit, written][elements] = row
        if isinstance(instruction, Finish):
            for number, unit in enumerate(units):
                members = [i for i in range(row) if accelerator.instructions[decoded.kind[i]].unit == unit]
                if members and unit != instruction.unit and max(members) > clocks[row, number]:
                    return f"finish does not wait for {unit}"
    return None


def _clocks(accelerator: Accelerator, decoded: Decoded) -> npt.NDArray[np.int64]:
    """For each instruction the latest instruction of each unit that is known to have ended before it starts."""
    units = accelerator.units
    clocks = np.full((len(decoded), len(units)), -1, np.int64)
    queues: dict[tuple[str, str], deque[npt.NDArray[np.int64]]] = {
        (a, b): deque() for a in units for b in units if a != b
    }
    waiting = {
        unit: deque(i for i in range(len(decoded)) if accelerator.instructions[decoded.kind[i]].unit == unit)
        for unit in units
    }
    known = {unit: np.full(len(units), -1, np.int64) for unit in units}
    while any(waiting.values()):
        moved = False
        for number, unit in enumerate(units):
            while waiting[unit]:
                row = waiting[unit][0]
                tokens = accelerator.instructions[decoded.kind[row]].tokens
                pops = [other for other, name in tokens.pop.items() if decoded.column(name)[row]]
                if any(not queues[other, unit] for other in pops):
                    break
                waiting[unit].popleft()
                for other in pops:
                    known[unit] = np.maximum(known[unit], queues[other, unit].popleft())
                clocks[row] = known[unit]
                known[unit] = known[unit].copy()
                known[unit][number] = row
                for other, name in tokens.push.items():
                    if decoded.column(name)[row]:
                        queues[unit, other].append(known[unit].copy())
                moved = True
        assert moved, "deadlock"
    return clocks


def _in_dram(accelerator: Accelerator, decoded: Decoded, row: int) -> list[Access]:
    """The bytes of DRAM that a copy reads or writes."""
    instruction = accelerator.instructions[decoded.kind[row]]
    if not isinstance(instruction, Copy):
        return []
    names, size = instruction.copy_fields, instruction.dram_bytes(accelerator.memory(instruction.memory))
    begin, rows, columns, stride = (
        int(decoded.column(name)[row]) for name in (names.dram, names.rows, names.columns, names.row_stride)
    )
    first = (begin + np.arange(rows) * stride) * size
    return [(_DRAM, (first[:, None] + np.arange(columns * size)).reshape(-1), instruction.direction == "store")]


def _accesses(accelerator: Accelerator, decoded: Decoded, row: int, microops: Elements) -> list[Access]:
    instruction = accelerator.instructions[decoded.kind[row]]
    if isinstance(instruction, Copy):
        names = instruction.copy_fields

        def value(name: str | None) -> int:
            return int(decoded.column(name)[row]) if name else 0

        height = value(names.rows) + value(names.pad_top) + value(names.pad_bottom)
        width = value(names.columns) + value(names.pad_left) + value(names.pad_right)
        elements = value(names.sram) + np.arange(height * width)
        return [(instruction.memory, elements, instruction.direction == "load")]
    if isinstance(instruction, Compute):
        return _walked(accelerator, instruction, decoded, row, microops)
    return []


def _walked(
    accelerator: Accelerator, instruction: Compute, decoded: Decoded, row: int, microops: Elements
) -> list[Access]:
    table = instruction.microops
    begin, end = int(decoded.column(table.begin)[row]), int(decoded.column(table.end)[row])
    entries = microops[begin:end]
    operands = ["dst"]
    if instruction.name == "gemm":
        operands += [] if decoded.column("reset_reg")[row] else ["data", "weights"]
    else:
        operands += [] if decoded.column("use_imm")[row] else ["src"]
    found: list[Access] = [(table.memory, np.arange(begin, end), False)]
    for operand in operands:
        field = next(f for f in table.fields if table.operands.get(f.name) == operand)
        elements = entries >> field.lsb & (1 << field.bits) - 1
        for loop in instruction.loops:
            steps = np.arange(int(decoded.column(loop.extent)[row])) * int(decoded.column(loop.factors[operand])[row])
            elements = (elements[..., None] + steps).reshape(-1)
        found.append((instruction.operands[operand].memory, np.unique(elements), operand == "dst"))
    return found


def find_stale(decoded: Decoded, microops: Elements, cycles: int) -> list[tuple[str, int, int, int]]:
    """Stale reads of a VTA's launch that the compiler's names are in: kind, instruction, first and last element.

    The accumulator's elements belong to loads and resets or to products and the ALU, in the order of the program; a
    pass of the ALU reads src in its first cycle and dst in its last.
    """
    accelerator = decoded.accelerator
    loaded = np.zeros(accelerator.memory("acc").depth, np.bool_)
    found = []
    for row in range(len(decoded)):
        instruction = accelerator.instructions[decoded.kind[row]]
        if instruction.name == "alu":
            early = _read_early(decoded, row, microops, cycles)
            if len(early):
                found.append(("stale-accumulator", row, int(early.min()), int(early.max())))
        for memory, elements, written in _accesses(accelerator, decoded, row, microops):
            if memory == "acc" and instruction.name == "store_out" and loaded[elements].any():
                stale = elements[loaded[elements]]
                found.append(("stale-out", row, int(stale.min()), int(stale.max())))
            elif memory == "acc" and written:
                reset = instruction.name == "gemm" and decoded.column("reset_reg")[row] != 0
                loaded[elements] = isinstance(instruction, Copy) or reset
    return found


def _read_early(decoded: Decoded, row: int, microops: Elements, cycles: int) -> Elements:
    """The elements that passes of ALU instruction ``row`` read within so many cycles after a pass that writes them."""
    field = {name: int(column[row]) for name, column in decoded.columns.items()}
    entries = microops[field["uop_bgn"] : field["uop_end"]]
    outer, inner = np.arange(field["iter_out"]), np.arange(field["iter_in"])
    (alu,) = (i for i in decoded.accelerator.instructions if i.name == "alu")
    walked = {}
    for name in ("dst", "src"):
        at = next(f for f in alu.microops.fields if alu.microops.operands.get(f.name) == name)
        base = entries >> at.lsb & (1 << at.bits) - 1
        steps = outer[:, None] * field[f"{name}_factor_out"] + inner * field[f"{name}_factor_in"]
        walked[name] = (steps[..., None] + base).reshape(-1)  # a pass is a micro-op in a turn of both loops
    a_pass = 1 if field["use_imm"] else 2
    early = [np.zeros(0, np.int64)]
    for back in range(1, len(walked["dst"])):
        if back * a_pass - (a_pass - 1) > cycles:
            break
        written = walked["dst"][:-back]
        reads = {"src": back * a_pass - (a_pass - 1), "dst": back * a_pass}
        for name, distance in reads.items():
            reads_it = not field["use_imm"] or name == ("src" if _with_src(decoded) else "dst")
            if reads_it and distance <= cycles:
                early.append(walked[name][back:][walked[name][back:] == written])
    return np.concatenate(early)


def _with_src(decoded: Decoded) -> bool:
    return instructions_of(decoded.accelerator).alu.immediate_with == "src"
