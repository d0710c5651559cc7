"""What VTA's kernels assume of the instructions that compute: tiles, loops, micro-ops."""

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField, Compute
from accel.accelerator.memories import Memory
from accel.accelerator.require import require
from accel.isa.vta.encoding import MICROOP_BITS
from accel.isa.vta.fit import MAX_LOG_BATCH, MAX_LOG_BLOCK
from accel.isa.vta.view import Alu, Vta

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
