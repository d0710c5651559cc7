"""What VTA's passes and kernels assume of a document that agrees with itself; anything else is refused here."""

from accel.accelerator.check_roles import roles
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Finish, Instruction, Part, Sync
from accel.accelerator.require import require
from accel.isa.vta.check_compute import check_compute
from accel.isa.vta.check_copies import check_copies
from accel.isa.vta.encoding import WORD_BITS
from accel.isa.vta.fit import BUS_BYTES, MAX_LOG_BYTES, MAX_TOTAL_BYTES
from accel.isa.vta.parameters import parameters_of
from accel.isa.vta.view import Vta, view

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
    vta = view(accelerator)
    _check_memories(accelerator, vta)
    check_compute(accelerator, vta)
    check_copies(accelerator, vta)
    _check_units(accelerator, vta)
    for index, instruction in enumerate(accelerator.instructions):
        _check_bits(f"instructions.{index}", instruction, accelerator)
    _check_clockwork(accelerator)


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
    for role, name in roles(instruction):
        bits, last = accelerator.bits(instruction, name), role.split(".")[-1]
        step = ".factors." in role
        most = _COUNT_BITS if step else _WIDEST.get(last, _COUNT_BITS)
        least = 0 if step or last in ("begin", "sram") else 1
        require(least <= bits <= most, f"{path}.{role}", f"{name} has {bits} bits; {least} to {most} are possible")


def _check_clockwork(accelerator: Accelerator) -> None:
    dram, depths = accelerator.dram, parameters_of(accelerator).queue_depths
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
        "parameters.queue_depths",
        f"there must be a depth for each of {', '.join(accelerator.units)}; found {', '.join(depths)}",
    )
