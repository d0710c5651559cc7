"""What VTA's passes and kernels assume of a document that agrees with itself; anything else is refused here."""

from collections.abc import Sequence

from accel.accelerator.check import require, roles
from accel.accelerator.document import Accelerator, Contract, Copy, Finish, Instruction, Map, Memory, Sync
from accel.isa.vta.encoding import MICROOP_BITS, WORD_BITS
from accel.isa.vta.fit import BUS_BYTES, MAX_LOG_BATCH, MAX_LOG_BLOCK, MAX_LOG_BYTES, MAX_TOTAL_BYTES

_COUNT_BITS = 16  # most bits of an extent, a step, a size: products of them stay below 2^63
_ADDRESS_BITS = 32
_IMMEDIATE_BITS = 32
_OPCODE_BITS = 8
_WIDEST = {  # bits of a field by its role's last names
    "sram": _ADDRESS_BITS,
    "dram": _ADDRESS_BITS,
    "begin": _ADDRESS_BITS,
    "end": _ADDRESS_BITS,
    "immediate": _IMMEDIATE_BITS,
    "opcode": _OPCODE_BITS,
}


def check_vta(accelerator: Accelerator) -> None:
    """Refuse a document that VTA's passes and kernels cannot execute.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    require(accelerator.word_bits == WORD_BITS, "word_bits", f"{accelerator.word_bits}; a VTA has {WORD_BITS}")
    require(len(accelerator.units) == 3, "units", f"{len(accelerator.units)} units; a VTA has three")
    gemm, alu = _check_instructions(accelerator)
    _check_memories(accelerator, gemm)
    _check_compute(accelerator, gemm, alu)
    _check_copies(accelerator, gemm)
    _check_units(accelerator, gemm)
    for index, instruction in enumerate(accelerator.instructions):
        _check_bits(f"instructions.{index}", instruction)
    _check_clockwork(accelerator)


def _check_instructions(accelerator: Accelerator) -> tuple[Contract, Map]:
    for kind, what in ((Contract, "contraction"), (Map, "map"), (Finish, "finish")):
        count = sum(isinstance(instruction, kind) for instruction in accelerator.instructions)
        require(count == 1, "instructions", f"there must be one {what}; there are {count}")
    gemm, alu = accelerator.contraction, accelerator.map
    pragmas = {"contraction": {gemm.pragma}, "map": {alu.pragma}}
    pragmas["copy"] = {i.pragma for i in accelerator.instructions if isinstance(i, Copy)}
    distinct = len(set.union(*pragmas.values())) == sum(map(len, pragmas.values()))
    require(distinct, "instructions", "a contraction, a map and a copy must have pragmas of their own")
    return gemm, alu


def _index(accelerator: Accelerator, instruction: Instruction) -> str:
    return f"instructions.{accelerator.instructions.index(instruction)}"


def _check_memories(accelerator: Accelerator, gemm: Contract) -> None:
    names = (gemm.microops.memory, gemm.data.memory, gemm.weights.memory, gemm.dst.memory)
    found = [memory.name for memory in accelerator.memories]
    require(
        sorted(names) == sorted(found),
        "memories",
        f"there must be four: for micro-ops, data, weights and results; the contraction has {', '.join(names)} "
        f"and the document {', '.join(found)}",
    )
    for name, dtype in zip(names, ("uint32", "int8", "int8", "int32"), strict=True):
        memory = accelerator.memory(name)
        at = f"memories.{found.index(name)}"
        require(memory.dtype == dtype, f"{at}.dtype", f"{memory.dtype}; the kernels take {dtype} here")
        nbytes = memory.depth * memory.element_bytes
        require(nbytes <= 1 << MAX_LOG_BYTES, f"{at}.depth", f"{nbytes} bytes; at most {1 << MAX_LOG_BYTES}")
    total = sum(memory.depth * memory.element_bytes for memory in accelerator.memories)
    require(total <= MAX_TOTAL_BYTES, "memories", f"{total} bytes together; at most {MAX_TOTAL_BYTES}")


def _check_compute(accelerator: Accelerator, gemm: Contract, alu: Map) -> None:
    at, other = _index(accelerator, gemm), _index(accelerator, alu)
    dst, data, weights = gemm.dst.axes, gemm.data.axes, gemm.weights.axes
    fits = len(dst) == len(data) == len(weights) == 2 and len({*dst, *data, *weights}) == 3
    fits = fits and (dst[0], dst[1], data[1]) == (data[0], weights[0], weights[1])
    require(fits, at, "the axes must be dst[b, o], data[b, i], weights[o, i]")
    extents: dict[str, int] = {}
    for operand in (gemm.dst, gemm.data, gemm.weights):
        shape = accelerator.memory(operand.memory).shape
        for axis, extent in zip(operand.axes, shape, strict=True):
            same = extents.setdefault(axis, extent) == extent
            require(same, at, f"axis {axis} has {extents[axis]} elements and, in {operand.memory}, {extent}")
    for axis, most in zip((*dst, data[1]), (MAX_LOG_BATCH, MAX_LOG_BLOCK, MAX_LOG_BLOCK), strict=True):
        size = extents[axis]
        fits = size <= 1 << most and not size & (size - 1)
        require(fits, at, f"axis {axis} has {size} elements; it must be a power of two up to {1 << most}")
    same = alu.dst.memory == alu.src.memory == gemm.dst.memory and alu.dst.axes == alu.src.axes
    require(same and len(set(alu.dst.axes)) == 2, other, f"a map works on {gemm.dst.memory}, element by element")
    _check_tables(accelerator, gemm, alu)


def _check_tables(accelerator: Accelerator, gemm: Contract, alu: Map) -> None:
    for instruction in (gemm, alu):
        at, table = _index(accelerator, instruction), instruction.microops
        require(len(instruction.loops) == 2, f"{at}.loops", f"{len(instruction.loops)} loops; a VTA has two")
        memory = accelerator.memory(table.memory)
        require(table.memory == gemm.microops.memory, f"{at}.microops.memory", "there is one memory of micro-ops")
        require(memory.shape == (1,), f"{at}.microops.memory", "a micro-op is one 32-bit word")
        for field in table.fields:
            plain = not field.signed and field.value is None and field.lsb + field.bits <= MICROOP_BITS
            require(plain, f"{at}.microops.fields", f"{field.name} must be an unsigned field of 32 bits, not constant")
        _check_depth(f"{at}.microops.begin", memory, memory.depth - 1, instruction.bits(table.begin))
        _check_depth(f"{at}.microops.end", memory, memory.depth, instruction.bits(table.end))
    places = {table.operands[f.name]: f for table in (gemm.microops,) for f in table.fields if f.name in table.operands}
    for operand in (gemm.dst, gemm.data, gemm.weights):
        memory = accelerator.memory(operand.memory)
        at = f"{_index(accelerator, gemm)}.microops.fields"
        _check_depth(at, memory, memory.depth - 1, places[operand.name].bits)
    for field in alu.microops.fields:
        name = alu.microops.operands.get(field.name)
        like = {alu.dst.name: places[gemm.dst.name], alu.src.name: places[gemm.data.name]}.get(name or "")
        same = like is None or (like.lsb, like.bits) == (field.lsb, field.bits)
        at = f"{_index(accelerator, alu)}.microops.fields"
        require(same, at, f"{field.name} must lie where the contraction's does")
        if like is not None:
            memory = accelerator.memory(alu.dst.memory)
            _check_depth(at, memory, memory.depth - 1, field.bits)


def _check_depth(path: str, memory: Memory, largest: int, bits: int) -> None:
    require(largest < 1 << bits, path, f"{bits} bits do not address the {memory.depth} elements of {memory.name}")


def _check_copies(accelerator: Accelerator, gemm: Contract) -> None:
    results, compute = gemm.dst.memory, gemm.unit
    wanted = [
        (gemm.microops.memory, "load", "uint32"),
        (gemm.data.memory, "load", "int8"),
        (gemm.weights.memory, "load", "int8"),
        (results, "load", "int32"),
        (results, "store", "int8"),
    ]
    left = [*wanted, (results, "load", "int8")]
    for index, copy in enumerate(accelerator.instructions):
        if not isinstance(copy, Copy):
            continue
        at, what = f"instructions.{index}", (copy.memory, copy.direction, copy.dram_dtype)
        known = f"{copy.direction} of {copy.memory} as {copy.dram_dtype}"
        require(what in left, at, f"a second {known}, or one that no kernel has")
        left.remove(what)
        fields = copy.copy_fields
        pads = (fields.pad_top, fields.pad_bottom, fields.pad_left, fields.pad_right)
        require(copy.direction == "load" or pads == (None,) * 4, f"{at}.copy_fields", "a store has no padding")
        memory = accelerator.memory(copy.memory)
        _check_depth(f"{at}.copy_fields.sram", memory, memory.depth - 1, copy.bits(fields.sram))
    for memory_name, direction, dtype in wanted:
        missing = (memory_name, direction, dtype) in left
        require(not missing, "instructions", f"there is no {direction} of {memory_name} as {dtype}; {compute} needs it")


def _check_units(accelerator: Accelerator, gemm: Contract) -> None:
    """One unit loads data and weights, one computes and loads for itself, one stores; tokens join neighbours."""
    unit_of: dict[str, str] = {"compute": gemm.unit}
    for instruction in accelerator.instructions:
        if isinstance(instruction, Sync):
            continue
        role = "compute"
        if isinstance(instruction, Copy):
            loads = instruction.memory in (gemm.data.memory, gemm.weights.memory)
            role = "store" if instruction.direction == "store" else "load" if loads else "compute"
        same = unit_of.setdefault(role, instruction.unit) == instruction.unit
        at = f"{_index(accelerator, instruction)}.unit"
        require(same, at, f"{instruction.unit}; the others of its kind are done by {unit_of[role]}")
    require(len(set(unit_of.values())) == 3, "instructions", "loading, computing and storing need a unit each")
    load, compute, store = unit_of["load"], unit_of["compute"], unit_of["store"]
    neighbours = {load: {compute}, compute: {load, store}, store: {compute}}
    for index, instruction in enumerate(accelerator.instructions):
        for direction in ("pop", "push"):
            others = set(getattr(instruction.tokens, direction))
            at = f"instructions.{index}.tokens.{direction}"
            named = _join(sorted(neighbours[instruction.unit]))
            require(others == neighbours[instruction.unit], at, f"tokens join {instruction.unit} with {named}")


def _join(names: Sequence[str]) -> str:
    return " and ".join(names)


def _check_bits(path: str, instruction: Instruction) -> None:
    """Fields wide enough to say something, and narrow enough that products of them are exact."""
    for role, name in roles(instruction):
        bits, last = instruction.bits(name), role.split(".")[-1]
        optional = ".factors." in role or last == "begin"
        most = _WIDEST.get(last if ".factors." not in role else "", _COUNT_BITS)
        least = 0 if optional or last == "sram" else 2 if last == "immediate" else 1
        require(least <= bits <= most, f"{path}.{role}", f"{name} has {bits} bits; {least} to {most} are possible")


def _check_clockwork(accelerator: Accelerator) -> None:
    dram, depths = accelerator.dram, accelerator.timing.queue_depths
    widths = ", ".join(map(str, BUS_BYTES))
    require(dram.bus_bytes in BUS_BYTES, "dram.bus_bytes", f"{dram.bus_bytes}; it is one of {widths}")
    for name, value, least in (
        ("burst_boundary_bytes", dram.burst_boundary_bytes, max(64, dram.bus_bytes)),
        ("alignment_bytes", dram.alignment_bytes, 64),
    ):
        fits = value >= least and not value & (value - 1)
        require(fits, f"dram.{name}", f"{value}; it must be a power of two, at least {least}")
    require(dram.burst_beats >= 4, "dram.burst_beats", f"{dram.burst_beats}; at least 4")
    require(
        sorted(depths) == sorted(accelerator.units),
        "timing.queue_depths",
        f"there must be a depth for each of {', '.join(accelerator.units)}; found {', '.join(depths)}",
    )
