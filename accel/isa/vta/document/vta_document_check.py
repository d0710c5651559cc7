"""Check of a VTA's document: what passes and kernels assume of one that agrees with itself; the rest is refused."""

from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import field_roles
from accel.accelerator.instructions import BitField, Compute, Copy, Finish, Instruction, Part, Sync
from accel.accelerator.memories import Memory
from accel.accelerator.require import require
from accel.accelerator.semantics import plain_copy
from accel.isa.vta.document.configuration_limits import (
    BUS_BYTES,
    MAX_LOG_BATCH,
    MAX_LOG_BLOCK,
    MAX_LOG_BYTES,
    MAX_TOTAL_BYTES,
)
from accel.isa.vta.document.instruction_fields import MICROOP_BITS, WORD_BITS
from accel.isa.vta.document.instruction_view import Alu, Vta, instructions_of
from accel.isa.vta.document.nameless_expressions import without_names
from accel.isa.vta.document.vta_parameters import parameters_of

_SIZES = ("rows", "columns", "row_stride")


def check_copies(accelerator: Accelerator, vta: Vta) -> None:
    """Refuse copies that no kernel does, and a document that lacks one that the passes need.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    wanted = [
        (vta.microops, "load", "uint32"),
        (vta.data, "load", "int8"),
        (vta.weights, "load", "int8"),
        (vta.results, "load", "int32"),
        (vta.results, "store", "int8"),
    ]
    left = [*wanted, (vta.results, "load", "int8")]
    for index, copy in enumerate(accelerator.instructions):
        if not isinstance(copy, Copy):
            continue
        at, what = f"instructions.{index}", (copy.memory, copy.direction, copy.dram_dtype)
        known = f"{copy.direction} of {copy.memory} as {copy.dram_dtype}"
        require(what in left, at, f"a second {known}, or one that no kernel has")
        left.remove(what)
        _check_copy(at, copy, accelerator)
    for memory, direction, dtype in wanted:
        missing = (memory, direction, dtype) in left
        need = f"there is no {direction} of {memory} as {dtype}; {vta.gemm.instruction.unit} needs it"
        require(not missing, "instructions", need)


def _check_copy(at: str, copy: Copy, accelerator: Accelerator) -> None:
    fields, memory = copy.copy_fields, accelerator.memory(copy.memory)
    for role in _SIZES:
        require(getattr(fields, role) is not None, f"{at}.copy_fields.{role}", "a VTA's copy has a field for it")
    pads = (fields.pad_top, fields.pad_bottom, fields.pad_left, fields.pad_right)
    require(not copy.operands, f"{at}.operands", "a store of the family vta reads no other element")
    require(copy.windows is None, f"{at}.windows", "a store of the family vta takes no windows")
    require(copy.direction == "load" or pads == (None,) * 4, f"{at}.copy_fields", "a store has no padding")
    require(copy.dram_unit == "element", f"{at}.dram_unit", f"{copy.dram_unit}; a VTA counts DRAM in elements")
    require(copy.max_rows is None, f"{at}.max_rows", "a VTA's copy has no limit but its field's")
    require(copy.blocks is None, f"{at}.blocks", "a VTA's copy takes the columns of each row as one")
    require(not copy.dimensions, f"{at}.dimensions", "a VTA's copy has rows and columns, and no more dimensions")
    bits = accelerator.bits(copy, fields.sram)
    deep = f"{bits} bits do not address the {memory.depth} elements of {memory.name}"
    require(memory.depth - 1 < 1 << bits, f"{at}.copy_fields.sram", deep)
    does = plain_copy(copy, memory).does
    require(len(copy.operations) <= 1, f"{at}.operations", "a VTA's copy does one thing")
    for index, operation in enumerate(copy.operations):
        same = without_names(operation.does).text == without_names(does).text
        require(same, f"{at}.operations.{index}.does", f"{operation.does!r}; no kernel does it, but one does {does!r}")
        require(not operation.when, f"{at}.operations.{index}.when", "a VTA's copy does one thing, without a choice")


_IMMEDIATE_BITS = 32
_OPCODE_BITS = 8


def check_compute(accelerator: Accelerator, vta: Vta) -> None:
    """Refuse what the kernels of GEMM and ALU cannot execute.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    gemm, alu = vta.gemm.instruction, vta.alu.instruction
    _check_tiles(accelerator, vta)
    for instruction in (gemm, alu):
        at = _path(accelerator, instruction)
        for name, operand in instruction.operands.items():
            shape = accelerator.memory(operand.memory).shape
            one = operand.shape is None or operand.shape == shape
            require(one, f"{at}.operands.{name}.shape", f"a VTA's operand is one element, {list(shape)}")
        others = sorted({operand.memory for operand in alu.operands.values()} - {vta.results})
        require(not others, f"{_path(accelerator, alu)}.operands", f"the ALU works on {vta.results} alone")
        _check_loops(at, instruction)
        _check_table(at, instruction, vta, accelerator)
    _check_indices(accelerator, vta)
    _check_choices(accelerator, vta.alu, _path(accelerator, alu))
    at, reset = f"{_path(accelerator, gemm)}.operations.0.when", vta.gemm.reset
    require(accelerator.bits(gemm, reset) == 1, at, f"{reset} must have one bit")


def _path(accelerator: Accelerator, instruction: Compute) -> str:
    return f"instructions.{accelerator.instructions.index(instruction)}"


def _check_tiles(accelerator: Accelerator, vta: Vta) -> None:
    """Their axes agree, as the expression has them; the kernels take powers of two."""
    at = _path(accelerator, vta.gemm.instruction)
    (batch, out), (_, block) = (accelerator.memory(name).shape for name in (vta.results, vta.data))
    for what, size, most in (
        ("rows", batch, MAX_LOG_BATCH),
        ("output channels", out, MAX_LOG_BLOCK),
        ("input channels", block, MAX_LOG_BLOCK),
    ):
        fits = size <= 1 << most and not size & (size - 1)
        require(fits, at, f"a tile has {size} {what}; it must be a power of two up to {1 << most}")


def _check_loops(at: str, instruction: Compute) -> None:
    require(len(instruction.loops) == 2, f"{at}.loops", f"{len(instruction.loops)} loops; a VTA has two")
    for index, loop in enumerate(instruction.loops):
        known = ", ".join(instruction.operands)
        stepped = set(loop.factors) == set(instruction.operands)
        require(stepped, f"{at}.loops.{index}.factors", f"each of {known} needs the field of its step")
        plain = loop.limit is None and not loop.repeated_in
        require(plain, f"{at}.loops.{index}", "a VTA's loop has one extent and no limit but its field's")


def _check_table(at: str, instruction: Compute, vta: Vta, accelerator: Accelerator) -> None:
    table = instruction.microops
    require(table is not None, f"{at}.microops", "a VTA's instructions walk micro-ops")
    assert table is not None
    memory = accelerator.memory(table.memory)
    require(table.memory == vta.microops, f"{at}.microops.memory", "there is one memory of micro-ops")
    require(memory.shape == (1,), f"{at}.microops.memory", f"a micro-op is one word of {MICROOP_BITS} bits")
    for field in table.fields:
        plain = field.type == "unsigned" and field.value is None
        require(plain, f"{at}.microops.fields", f"{field.name} must be an unsigned field, not constant")
    _check_depth(f"{at}.microops.begin", memory, memory.depth - 1, accelerator.bits(instruction, table.begin))
    _check_depth(f"{at}.microops.end", memory, memory.depth, accelerator.bits(instruction, table.end))


def _places(instruction: Compute) -> dict[str, BitField]:
    """The field of a micro-op for each operand."""
    table = instruction.microops
    assert table is not None
    return {table.operands[field.name]: field for field in table.fields if field.name in table.operands}


def _check_indices(accelerator: Accelerator, vta: Vta) -> None:
    """The ALU's micro-ops are laid out as GEMM's, and both reach every element."""
    gemm, alu = _places(vta.gemm.instruction), _places(vta.alu.instruction)
    like = {vta.alu.dst: gemm[vta.gemm.dst], vta.alu.src: gemm[vta.gemm.data]}
    for instruction, places in ((vta.gemm.instruction, gemm), (vta.alu.instruction, alu)):
        at = f"{_path(accelerator, instruction)}.microops.fields"
        for name, field in places.items():
            memory = accelerator.memory(instruction.operands[name].memory)
            _check_depth(at, memory, memory.depth - 1, field.bits)
    at = f"{_path(accelerator, vta.alu.instruction)}.microops.fields"
    for name, field in alu.items():
        same = (like[name].lsb, like[name].bits) == (field.lsb, field.bits)
        require(same, at, f"{field.name} must lie where the matrix instruction's does")


def _check_depth(path: str, memory: Memory, largest: int, bits: int) -> None:
    require(largest < 1 << bits, path, f"{bits} bits do not address the {memory.depth} elements of {memory.name}")


def _check_choices(accelerator: Accelerator, alu: Alu, at: str) -> None:
    use, opcode = (accelerator.field(alu.instruction, name) for name in (alu.use_immediate, alu.opcode))
    require(use.bits == 1, f"{at}.operations.0.when", f"{use.name}, which chooses the immediate, must have one bit")
    plain = opcode.type == "unsigned" and opcode.value is None and 1 <= opcode.bits <= _OPCODE_BITS
    at_code = f"{at}.operations.0.when"
    require(plain, at_code, f"{opcode.name} must be unsigned, not constant, of 1 to {_OPCODE_BITS} bits")
    immediate = accelerator.field(alu.instruction, alu.immediate)
    plain = immediate.type == "signed" and 2 <= immediate.bits <= _IMMEDIATE_BITS
    require(plain, f"{at}.operations", f"{immediate.name} must be signed, of 2 to {_IMMEDIATE_BITS} bits")


_COUNT_BITS = 16  # most bits of an extent, a step, a size: products of them stay below 2^63
_ADDRESS_BITS = 32
_WIDEST = dict.fromkeys(("sram", "dram", "begin", "end"), _ADDRESS_BITS)  # bits of a field by its role's last name


def check_vta(accelerator: Accelerator) -> None:
    """Refuse a document that VTA's passes and kernels cannot execute.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    require(accelerator.word_bits == WORD_BITS, "word_bits", f"{accelerator.word_bits}; a VTA has {WORD_BITS}")
    require(len(accelerator.units) == 3, "units", f"{len(accelerator.units)} units; a VTA has three")
    kind = accelerator.synchronisation.kind
    require(kind == "tokens", "synchronisation.kind", f"{kind}; the units of a VTA wait for tokens")
    _check_kinds(accelerator)
    vta = instructions_of(accelerator)
    _check_memories(accelerator, vta)
    check_compute(accelerator, vta)
    check_copies(accelerator, vta)
    _check_units(accelerator, vta)
    for index, instruction in enumerate(accelerator.instructions):
        _check_bits(f"instructions.{index}", instruction, accelerator)
    _check_timing(accelerator)


def _check_kinds(accelerator: Accelerator) -> None:
    count = sum(isinstance(instruction, Finish) for instruction in accelerator.instructions)
    require(count == 1, "instructions", f"there must be one finish; there are {count}")
    copies, computes = [], []
    for index, instruction in enumerate(accelerator.instructions):
        require(not isinstance(instruction, Part), f"instructions.{index}.kind", "a VTA's instructions have no parts")
        require(not instruction.sequence, f"instructions.{index}.sequence", "a VTA's instructions have no parts")
        if isinstance(instruction, Copy):
            copies.append(instruction.pragma)
        elif isinstance(instruction, Compute):
            computes.append(instruction.pragma)
    distinct = len({*copies, *computes}) == len({*copies}) + len(computes)
    require(distinct, "instructions", "the matrix instruction, the ALU and the copies must have pragmas of their own")


def _check_memories(accelerator: Accelerator, vta: Vta) -> None:
    found = [memory.name for memory in accelerator.memories]
    require(
        sorted(vta.memories) == sorted(found),
        "memories",
        f"there must be four: for micro-ops, data, weights and results; the matrix instruction has "
        f"{', '.join(vta.memories)} and the document {', '.join(found)}",
    )
    for name, dtype in zip(vta.memories, ("uint32", "int8", "int8", "int32"), strict=True):
        memory = accelerator.memory(name)
        at = f"memories.{found.index(name)}"
        require(memory.view_of is None, f"{at}.view_of", "a VTA's memories have bytes of their own; leave it out")
        require(memory.dtype == dtype, f"{at}.dtype", f"{memory.dtype}; the kernels take {dtype} here")
        nbytes = memory.depth * memory.element_bytes
        require(nbytes <= 1 << MAX_LOG_BYTES, f"{at}.depth", f"{nbytes} bytes; at most {1 << MAX_LOG_BYTES}")
    total = sum(memory.depth * memory.element_bytes for memory in accelerator.memories)
    require(total <= MAX_TOTAL_BYTES, "memories", f"{total} bytes together; at most {MAX_TOTAL_BYTES}")


def _check_units(accelerator: Accelerator, vta: Vta) -> None:
    """One unit loads data and weights, one computes and loads for itself, one stores; tokens join neighbours."""
    unit_of: dict[str, str] = {"compute": vta.gemm.instruction.unit}
    for index, instruction in enumerate(accelerator.instructions):
        if isinstance(instruction, Sync):
            continue
        role = "compute"
        if isinstance(instruction, Copy):
            loads = instruction.memory in (vta.data, vta.weights)
            role = "store" if instruction.direction == "store" else "load" if loads else "compute"
        same = unit_of.setdefault(role, instruction.unit) == instruction.unit
        of = f"{instruction.unit}; the others of its kind are done by {unit_of[role]}"
        require(same, f"instructions.{index}.unit", of)
    require(len(set(unit_of.values())) == 3, "instructions", "loading, computing and storing need a unit each")
    load, compute, store = unit_of["load"], unit_of["compute"], unit_of["store"]
    neighbours = {load: {compute}, compute: {load, store}, store: {compute}}
    for index, instruction in enumerate(accelerator.instructions):
        for direction in ("pop", "push"):
            others = set(getattr(instruction.tokens, direction))
            at = f"instructions.{index}.tokens.{direction}"
            named = " and ".join(sorted(neighbours[instruction.unit]))
            require(others == neighbours[instruction.unit], at, f"tokens join {instruction.unit} with {named}")


def _check_bits(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Fields wide enough to say something, and narrow enough that products of them are exact."""
    for role, name in field_roles(instruction):
        bits, last = accelerator.bits(instruction, name), role.split(".")[-1]
        step = ".factors." in role
        most = _COUNT_BITS if step else _WIDEST.get(last, _COUNT_BITS)
        least = 0 if step or last in ("begin", "sram") else 1
        require(least <= bits <= most, f"{path}.{role}", f"{name} has {bits} bits; {least} to {most} are possible")


def _check_timing(accelerator: Accelerator) -> None:
    dram, depths = accelerator.dram, parameters_of(accelerator).queue_depths
    widths = ", ".join(map(str, BUS_BYTES))
    require(dram.bus_bytes in BUS_BYTES, "dram.bus_bytes", f"{dram.bus_bytes}; it is one of {widths}")
    for name, value, least in (
        ("burst_boundary_bytes", dram.burst_boundary_bytes, max(64, dram.bus_bytes)),
        ("alignment_bytes", dram.alignment_bytes, 64),
    ):
        fits = value >= least and not value & (value - 1)
        require(fits, f"dram.{name}", f"{value}; it must be a power of two, at least {least}")
    apart = "a VTA's reads and its writes have a channel each; leave it out"
    require(not accelerator.shares_bus, "dram.shared_by", apart)
    require(not accelerator.tables, "tables", "a VTA has no tables; leave them out")
    require(dram.burst_beats >= 4, "dram.burst_beats", f"{dram.burst_beats}; at least 4")
    require(
        sorted(depths) == sorted(accelerator.units),
        "parameters.queue_depths",
        f"there must be a depth for each of {', '.join(accelerator.units)}; found {', '.join(depths)}",
    )
