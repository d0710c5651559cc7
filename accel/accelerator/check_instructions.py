"""What instructions name: units, memories, operands, loops and micro-ops."""

import math

from accel.accelerator.check_fields import check_fields
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, HardwareLoop, Instruction, MicroOps, Operand
from accel.accelerator.require import require, require_distinct, require_known


def check_instruction(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Every name names something, and shapes and limits fit.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    require_known(instruction.unit, accelerator.units, f"{path}.unit", "unit")
    tokens = instruction.tokens.model_dump()
    for direction, fields in tokens.items():
        at = f"{path}.tokens.{direction}"
        by_tokens = accelerator.synchronisation.kind == "tokens"
        require(by_tokens or not fields, at, f"units wait by {accelerator.synchronisation.kind}; there are no tokens")
        for unit in fields:
            others = [name for name in accelerator.units if name != instruction.unit]
            require_known(unit, others, at, "other unit")
    if isinstance(instruction, Copy):
        _check_copy(path, instruction, accelerator)
    if isinstance(instruction, Compute):
        _check_compute(path, instruction, accelerator)


def _check_copy(path: str, copy: Copy, accelerator: Accelerator) -> None:
    require_known(copy.memory, [memory.name for memory in accelerator.memories], f"{path}.memory", "memory")
    fields = copy.copy_fields
    for role in ("pad_top", "pad_bottom", "pad_left", "pad_right"):
        stores = copy.direction == "store" and getattr(fields, role) is not None
        require(not stores, f"{path}.copy_fields.{role}", "a store has no padding")
    if copy.max_rows is not None:
        require(fields.rows is not None, f"{path}.max_rows", "the copy has no field of rows")
        assert fields.rows is not None
        _check_limit(f"{path}.max_rows", copy.max_rows, accelerator.bits(copy, fields.rows))


def _check_limit(path: str, limit: int, bits: int) -> None:
    most = (1 << bits) - 1
    require(limit <= most, path, f"{limit}; its field of {bits} bits holds {most} at most")


def _check_compute(path: str, compute: Compute, accelerator: Accelerator) -> None:
    given = set(compute.microops.operands.values()) if compute.microops is not None else set()
    for name, operand in compute.operands.items():
        at = f"{path}.operands.{name}"
        _check_operand(at, operand, accelerator)
        ways = (operand.address is not None) + (name in given)
        require(ways == 1, at, "its address must stand in a field (address) or in the micro-ops, one of the two")
    if compute.microops is not None:
        _check_microops(f"{path}.microops", compute.microops, compute, accelerator)
    for index, loop in enumerate(compute.loops):
        _check_loop(f"{path}.loops.{index}", loop, compute, accelerator)


def _check_operand(path: str, operand: Operand, accelerator: Accelerator) -> None:
    require_known(operand.memory, [memory.name for memory in accelerator.memories], f"{path}.memory", "memory")
    memory = accelerator.memory(operand.memory)
    if operand.shape is None:
        return
    element, shape = list(memory.shape), list(operand.shape)
    last = f"the last axes must be those of an element of {memory.name}, {element}; found {shape}"
    require(shape[-len(element) :] == element, f"{path}.shape", last)
    steps = math.prod(shape[: len(shape) - len(element)])
    require(steps <= memory.depth, f"{path}.shape", f"{steps} elements of {memory.name}, which has {memory.depth}")


def _check_loop(path: str, loop: HardwareLoop, compute: Compute, accelerator: Accelerator) -> None:
    for role, names in (("factors", loop.factors), ("steps", loop.steps)):
        for name in names:
            require_known(name, compute.operands, f"{path}.{role}", "operand")
    both = sorted(loop.factors.keys() & loop.steps.keys())
    require(not both, f"{path}.steps", f"{', '.join(both)} has its step in a field already (factors)")
    if loop.limit is not None:
        _check_limit(f"{path}.limit", loop.limit, accelerator.bits(compute, loop.extent))


def _check_microops(path: str, table: MicroOps, compute: Compute, accelerator: Accelerator) -> None:
    require_known(table.memory, [memory.name for memory in accelerator.memories], f"{path}.memory", "memory")
    bits = min(8 * accelerator.memory(table.memory).element_bytes, 64)
    check_fields(f"{path}.fields", table.fields, bits)
    at = f"{path}.operands"
    names = [field.name for field in table.fields]
    for name, operand in table.operands.items():
        require_known(name, names, at, "field of a micro-op")
        require_known(operand, compute.operands, at, "operand")
        field = table.fields[names.index(name)]
        plain = field.type == "unsigned" and field.value is None
        require(plain, f"{path}.fields", f"{field.name} must be unsigned and not constant")
    require_distinct(list(table.operands.values()), at)
