"""Checks of tokens: each queue is sent to and waited for, and tokens order every memory that two units use."""

from collections.abc import Iterator

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import Compute, Copy, Instruction
from accel.accelerator.require import require, together
from accel.accelerator.semantics import semantics_of


def check_tokens(accelerator: Accelerator) -> None:
    """Refuses queues with one end, and units that use each other's data and cannot wait for it.

    Raises:
        InvalidAccelerator: ``field`` is the path of the tokens.
    """
    if not isinstance(accelerator.synchronisation, TokenSync):
        return
    with together() as apart:
        with apart():
            _check_both_ends(accelerator)
        for index, instruction in enumerate(accelerator.instructions):
            if isinstance(instruction, Copy | Compute):
                with apart():
                    _check_order(f"instructions.{index}.tokens", instruction, accelerator)
        _check_finish(accelerator)


def _check_both_ends(accelerator: Accelerator) -> None:
    """For each queue, from a unit to another, some instruction pushes and some pops."""
    pushed = {(i.unit, other) for i in accelerator.instructions for other in i.tokens.push}
    popped = {(other, i.unit) for i in accelerator.instructions for other in i.tokens.pop}
    with together() as apart:
        for index, instruction in enumerate(accelerator.instructions):
            path, name, unit = f"instructions.{index}.tokens", instruction.name, instruction.unit
            for other in instruction.tokens.pop:
                with apart():
                    forever = f"{name} would wait forever: no instruction of {other} pushes a token to {unit}"
                    require((other, unit) in pushed, f"{path}.pop.{other}", f"{forever}; one must")
            for other in instruction.tokens.push:
                with apart():
                    lost = f"nothing waits for the tokens of {name}: no instruction of {other} pops those of {unit}"
                    require((unit, other) in popped, f"{path}.push.{other}", f"{lost}; one must")


def _memories(instruction: Instruction) -> set[str]:
    if isinstance(instruction, Copy):
        return {instruction.memory}
    if isinstance(instruction, Compute):
        return {operand.memory for operand in instruction.operands.values()}
    return set()


def _partners(instruction: Copy | Compute, accelerator: Accelerator) -> Iterator[tuple[str, str]]:
    """The units that ``instruction`` hands data to or gets data from, each with the memory.

    Two copies have the contraction between them, and two computes wait for each other where one of them writes.
    """
    for other in accelerator.instructions:
        if other.unit == instruction.unit:
            continue
        shared = _memories(instruction) & _memories(other)
        if isinstance(instruction, Compute) and isinstance(other, Compute):
            shared &= _written(instruction, accelerator) | _written(other, accelerator)
        elif other.kind == instruction.kind:
            continue
        for memory in sorted(shared)[:1]:
            yield other.unit, memory


def _written(compute: Compute, accelerator: Accelerator) -> set[str]:
    targets = {meaning.typed.statement.target.name for meaning in semantics_of(accelerator, compute)}
    return {compute.operands[name].memory for name in targets}


def _check_order(path: str, instruction: Copy | Compute, accelerator: Accelerator) -> None:
    for unit, memory in _partners(instruction, accelerator):
        for direction, does in (("pop", "wait for a token of"), ("push", "send a token to")):
            both = f"{instruction.name} and unit {unit} use {memory}"
            need = f"{both}, so it must {does} {unit}; it needs a field for that"
            require(unit in getattr(instruction.tokens, direction), f"{path}.{direction}", need)


def _check_finish(accelerator: Accelerator) -> None:
    """A launch ends when the units that took results from the one of the last instruction say so."""
    finish = accelerator.finish
    if finish is None:
        return
    index = accelerator.instructions.index(finish)
    for other in accelerator.instructions:
        if isinstance(other, Copy) and other.direction == "store" and other.unit != finish.unit:
            need = f"{finish.name} must wait for a token of {other.unit}, which stores; it needs a field for that"
            require(other.unit in finish.tokens.pop, f"instructions.{index}.tokens.pop", need)
