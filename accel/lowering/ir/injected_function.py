"""Injected function as a list: its call sites in program order with their loops, and its buffers with theirs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.errors import CompileError
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA


@dataclass(frozen=True)
class Loop:
    """A loop around a call or an allocation; ``contexts`` is its pragma's value, 1 without."""

    variable: tirx.Var
    extent: int
    contexts: int = 1


def instance_count(loops: Sequence[Loop]) -> int:
    """How often the body of all the loops runs."""
    return math.prod(loop.extent for loop in loops)


def linear_index(loops: Sequence[Loop]) -> tirx.Expr:
    """The number of the current iteration of all the loops, counted from 0."""
    index: tirx.Expr = tirx.const(0, "int32")
    for loop in loops:
        index = index * loop.extent + loop.variable
    return index


@dataclass(frozen=True)
class BufferAllocation:
    """A scratchpad buffer and the loops around its allocation: each iteration has a buffer of its own."""

    buffer: tirx.Var
    loops: tuple[Loop, ...]

    @property
    def contexts(self) -> int:
        """Copies of the buffer, if another unit writes or reads it."""
        return self.loops[-1].contexts if self.loops else 1


@dataclass(frozen=True)
class InjectedCall:
    """One call of an instruction: where it stands, and which scratchpad buffers it touches."""

    index: int
    name: str
    unit: str
    loops: tuple[Loop, ...]
    buffers: tuple[tirx.Var, ...]


@dataclass
class InjectedFunction:
    """All calls and allocations of a function, in program order."""

    sites: list[InjectedCall] = field(default_factory=list)
    allocations: dict[tirx.Var, BufferAllocation] = field(default_factory=dict)


def injected_function_of(function: tirx.PrimFunc, accelerator: Accelerator) -> InjectedFunction:
    """Survey an injected function.

    Raises:
        CompileError: a statement that no stage leaves behind, such as a store outside every pragma.
    """
    result = InjectedFunction()
    for kind, loops, statement in _flat(function.body, (), 1):
        if kind == "allocation":
            result.allocations[statement.buffer] = BufferAllocation(statement.buffer, loops)
        else:
            name, fields, _ = instruction_calls.parse(statement)
            buffers = [instruction_calls.buffer_of(value) for value in fields.values()]
            result.sites.append(
                InjectedCall(
                    index=len(result.sites),
                    name=name,
                    unit=accelerator.instruction(name).unit,
                    loops=loops,
                    buffers=tuple(buffer for buffer in buffers if buffer is not None),
                )
            )
    return result


def _flat(statement: Any, loops: tuple[Loop, ...], contexts: int) -> Iterator[tuple[str, tuple[Loop, ...], Any]]:
    if isinstance(statement, tirx.SeqStmt):
        for child in statement.seq:
            yield from _flat(child, loops, 1)
    elif isinstance(statement, tirx.For):
        loop = Loop(statement.loop_var, int(statement.extent), contexts)
        yield from _flat(statement.body, (*loops, loop), 1)
    elif isinstance(statement, tirx.AttrStmt) and statement.attr_key == CONTEXTS_PRAGMA:
        yield from _flat(statement.body, loops, int(statement.value))
    elif isinstance(statement, tirx.AllocBuffer):
        yield "allocation", loops, statement
    elif instruction_calls.is_call(statement):
        yield "call", loops, statement
    elif not isinstance(statement, tirx.DeclBuffer):
        raise CompileError(f"no pragma covers this statement: {statement}", field=INSTRUCTIONS)


def buffer_contexts(allocation: BufferAllocation, view: InjectedFunction) -> int:
    """Contexts of a buffer: they are for units that work at the same time; one unit alone needs one copy."""
    units = {site.unit for site in view.sites if allocation.buffer in site.buffers}
    return min(allocation.contexts, instance_count(allocation.loops)) if len(units) > 1 else 1


def writes_scratchpad(site: InjectedCall, accelerator: Accelerator) -> bool:
    """Whether the call writes a scratchpad, as against storing from one."""
    instruction = accelerator.instruction(site.name)
    return isinstance(instruction, Compute) or (isinstance(instruction, Copy) and instruction.direction == "load")
