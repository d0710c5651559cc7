"""What instructions of a document can do: one sort for each operation, with the tensors that it touches."""

import functools
import math
from dataclasses import dataclass

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, HardwareLoop
from accel.accelerator.meanings import Meaning, meanings, scalar_field
from accel.isa.explicit.limits import LOOPS


@dataclass(frozen=True)
class Tensor:
    """A tensor that an operation of a compute touches, as runs of ``span`` elements of a memory.

    ``memory`` is the number of the memory, ``address`` the field of its first element. ``steps`` has, for each
    hardware loop, the field of its step or the step itself, elements.
    """

    name: str
    memory: int
    reads: bool
    writes: bool
    address: str
    span: int
    steps: tuple[str | int, ...]


@dataclass(frozen=True)
class Sort:
    """One operation of one instruction of a document.

    ``code`` counts from 1. ``tensors`` are those of a compute; a copy has none here, as its fields say all.
    ``scalars`` are the names that the expression uses, each with its field.
    """

    code: int
    meaning: Meaning
    tensors: tuple[Tensor, ...]
    scalars: tuple[tuple[str, str], ...]

    @property
    def instruction(self) -> Copy | Compute:
        """The instruction that does it."""
        return self.meaning.instruction

    @property
    def points(self) -> int:
        """Values that one execution computes, or that a copy computes for one element."""
        return math.prod(self.meaning.typed.extents.values())


def sorts_of(accelerator: Accelerator) -> tuple[Sort, ...]:
    """Every sort of ``accelerator``, in the order of the document.

    Raises:
        ExpressionError: an expression that means nothing; :func:`check_document` would have refused it.
    """
    text = accelerator.model_dump_json(exclude={"source", "parameters", "composites"})
    return _sorts(text)


@functools.lru_cache(maxsize=32)
def _sorts(document: str) -> tuple[Sort, ...]:
    accelerator = Accelerator.model_validate_json(document)
    return tuple(_sort(code, meaning, accelerator) for code, meaning in enumerate(meanings(accelerator), 1))


def _sort(code: int, meaning: Meaning, accelerator: Accelerator) -> Sort:
    instruction = meaning.instruction
    scalars = tuple((name, scalar_field(accelerator, instruction, name)) for name in meaning.typed.scalars)
    tensors = _tensors(instruction, meaning, accelerator) if isinstance(instruction, Compute) else ()
    return Sort(code, meaning, tensors, scalars)


def _tensors(instruction: Compute, meaning: Meaning, accelerator: Accelerator) -> tuple[Tensor, ...]:
    """Those that the operation names, its target first."""
    statement = meaning.typed.statement
    memories = [memory.name for memory in accelerator.memories]
    found = []
    for name, tensor in meaning.typed.tensors.items():
        operand = instruction.operands[name]
        target = name == statement.target.name
        memory = memories.index(operand.memory)
        assert operand.address is not None  # check_explicit has seen to it
        found.append(
            Tensor(
                name=name,
                memory=memory,
                reads=not target or statement.accumulate or statement.reads_target,
                writes=target,
                address=operand.address,
                span=math.prod(tensor.shape) // accelerator.memories[memory].element_count,
                steps=tuple(_step(loop, name) for loop in instruction.loops),
            )
        )
    assert len(instruction.loops) <= LOOPS
    return tuple(found)


def _step(loop: HardwareLoop, operand: str) -> str | int:
    return loop.factors.get(operand, loop.steps.get(operand, 0))
