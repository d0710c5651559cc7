"""Operations of a document, one sort for each with the tensors that it touches, and their executions in a launch.

Limits are sizes at which all arithmetic is exact and memory bounded.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, HardwareLoop, Instruction, Layer, Part
from accel.accelerator.memories import Memory
from accel.accelerator.semantics import LayerSemantics, Semantics, all_layers, all_semantics, scalar_field
from accel.errors import SimulationError
from accel.expression.syntax_tree import AffineIndex, index_terms
from accel.isa.decode import Decoded
from accel.util.arrays import Bools, Int64
from accel.util.same_object import SameObject

LOOPS = 3  # hardware loops of an instruction
MAX_CHIP_BYTES = 1 << 30
MAX_ELEMENT_BYTES = 1 << 16
MAX_POINTS = 1 << 24  # values that one execution computes
MAX_SORTS = 512  # operations of all instructions together; each is compiled

ADDRESS_BITS = 48  # a DRAM address or stride, and an address in a memory
COUNT_BITS = 20  # an extent, rows, columns, padding
STEP_BITS = 32
MAX_CYCLES = 1 << 40  # of one instruction


@dataclass(frozen=True)
class Tensor:
    """A tensor that an operation of a compute touches, as runs of ``span`` elements of a memory.

    ``memory`` is the number of the memory, ``address`` the field of its first element. ``steps`` has, for each
    hardware loop, the field of its step or the step itself, elements. Where indices step by fields, a run is longer by
    so many elements for each 1 in a field, as ``longer`` says.
    """

    name: str
    memory: int
    reads: bool
    writes: bool
    address: str
    span: int
    steps: tuple[str | int, ...]
    longer: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class InstructionOperation:
    """One operation of one instruction of a document.

    ``code`` counts from 1. ``tensors`` are those of a compute; of a copy, whose fields say where its ends lie, what it
    reads beside. ``scalars`` are the names that the expressions use, each with its field. Of a layer ``meaning`` is
    what it does at every point, and ``layer`` all of it.
    """

    code: int
    meaning: Semantics
    tensors: tuple[Tensor, ...]
    scalars: tuple[tuple[str, str], ...]
    layer: LayerSemantics | None = None

    @property
    def instruction(self) -> Copy | Compute | Layer:
        """The instruction that does it."""
        return self.meaning.instruction

    @property
    def points(self) -> int:
        """Values that one execution computes, or that a copy computes for one element."""
        return math.prod(self.meaning.typed.extents.values())


def sorts_of(accelerator: Accelerator) -> tuple[InstructionOperation, ...]:
    """Every sort of ``accelerator``, in the order of the document.

    Raises:
        ExpressionError: an expression that means nothing; :func:`check_document` would have refused it.
    """
    return _sorts_of(SameObject(accelerator))


@functools.lru_cache(maxsize=32)
def _sorts_of(same: SameObject[Accelerator]) -> tuple[InstructionOperation, ...]:
    """Of the same object: equal ones have the same."""
    return _sorts(same.value.model_dump_json(exclude={"source", "parameters", "composites"}))


@functools.lru_cache(maxsize=32)
def _sorts(document: str) -> tuple[InstructionOperation, ...]:
    accelerator = Accelerator.model_validate_json(document)
    sorts = [_sort(code, meaning, accelerator) for code, meaning in enumerate(all_semantics(accelerator), 1)]
    layers = enumerate(all_layers(accelerator), len(sorts) + 1)
    return (*sorts, *(_layer_sort(code, layer, accelerator) for code, layer in layers))


def _layer_sort(code: int, layer: LayerSemantics, accelerator: Accelerator) -> InstructionOperation:
    names = dict.fromkeys(name for each in layer.statements for name in each.typed.scalars)
    scalars = tuple((name, scalar_field(accelerator, layer.instruction, name)) for name in names)
    return InstructionOperation(code, layer.does, (), scalars, layer)


def _sort(code: int, meaning: Semantics, accelerator: Accelerator) -> InstructionOperation:
    instruction = meaning.instruction
    scalars = tuple((name, scalar_field(accelerator, instruction, name)) for name in meaning.typed.scalars)
    tensors = () if isinstance(instruction, Layer) else _tensors(instruction, meaning, accelerator)
    return InstructionOperation(code, meaning, tensors, scalars)


def _tensors(instruction: Compute | Copy, meaning: Semantics, accelerator: Accelerator) -> tuple[Tensor, ...]:
    """Returns the tensors that the operation names, its target first."""
    statement = meaning.typed.statement
    memories = [memory.name for memory in accelerator.memories]
    found = []
    loops = instruction.loops if isinstance(instruction, Compute) else ()
    for name in (name for name in meaning.typed.tensors if name in instruction.operands):
        operand = instruction.operands[name]
        target = name == statement.target.name
        memory = memories.index(operand.memory)
        assert operand.address is not None  # check_explicit has seen to it
        span, longer = _span(name, meaning, accelerator.memories[memory])
        found.append(
            Tensor(
                name=name,
                memory=memory,
                reads=not target or statement.updates or statement.reads_target,
                writes=target,
                address=operand.address,
                span=span,
                steps=tuple(_step(loop, name) for loop in loops),
                longer=tuple((scalar_field(accelerator, instruction, step), more) for step, more in longer),
            )
        )
    assert len(loops) <= LOOPS
    return tuple(found)


def _span(name: str, meaning: Semantics, memory: Memory) -> tuple[int, list[tuple[str, int]]]:
    """The elements that an operation touches of an operand, and how many more for each 1 in fields that are steps.

    That is the whole operand, but where it slides: then from the first element to the last that it comes to.
    """
    statement, shape = meaning.typed.statement, meaning.typed.tensors[name].shape
    access = next(each for each in (statement.target, *statement.accesses) if each.name == name)
    if not access.slides:
        return math.prod(shape) // memory.element_count, []
    last, longer, stride = 0, [], 1
    for index, extent in reversed(list(zip(access.indices, shape, strict=True))[: len(shape) - len(memory.shape)]):
        last += stride * (index if isinstance(index, int) else index.offset if isinstance(index, AffineIndex) else 0)
        for axis, step in index_terms(index):
            steps = stride * (meaning.typed.extents[axis] - 1)
            if isinstance(step, str):
                longer.append((step, steps))
            else:
                last += steps * step
        stride *= extent
    return last + 1, longer


def _step(loop: HardwareLoop, operand: str) -> str | int:
    return loop.factors.get(operand, loop.steps.get(operand, 0))


@dataclass(frozen=True)
class ExecutedWords:
    """m executions of an instruction: ``rows`` (m,) where it stands in the launch, its last part if it has parts.

    ``at`` maps each part to the word (m,) whose fields count; it is empty where the instruction is one word.
    """

    decoded: Decoded
    rows: Int64
    at: Mapping[str, Int64]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str | None) -> Int64:
        """The values (m,) of a field, called part.field in a sequence; zeros where ``name`` is None."""
        if name is None:
            return np.zeros(len(self.rows), np.int64)
        part, _, plain = name.rpartition(".")
        return self.decoded.column(plain)[self.at[part] if part else self.rows]

    def where(self, keep: Bools) -> "ExecutedWords":
        """Returns the executions for which ``keep`` (m,) is true."""
        return ExecutedWords(self.decoded, self.rows[keep], {part: rows[keep] for part, rows in self.at.items()})


@dataclass(frozen=True)
class Executions:
    """All executions of one sort in a launch."""

    sort: InstructionOperation
    words: ExecutedWords


def executions_of(decoded: Decoded) -> list[Executions]:
    """What a launch does, sort by sort of what it has; parts that end no sequence, syncs and finishes are not among it.

    Raises:
        SimulationError: the first instruction whose fields choose none of its operations, or that lacks a part.
    """
    return decoded.derived(_executions)


def _executions(decoded: Decoded) -> list[Executions]:
    accelerator, found = decoded.accelerator, []
    for sort, words in _all(decoded, accelerator):
        if not len(words):
            continue
        chosen = np.ones(len(words), np.bool_)
        for name, value in sort.meaning.operation.when.items():
            chosen &= words.column(name) == value
        if chosen.any():
            found.append(Executions(sort, words.where(chosen)))
    _refuse_undefined(decoded, found)
    return found


def _all(decoded: Decoded, accelerator: Accelerator) -> Iterator[tuple[InstructionOperation, ExecutedWords]]:
    """Every sort with the executions of its instruction."""
    words: dict[str, ExecutedWords] = {}
    for sort in sorts_of(accelerator):
        name = sort.instruction.name
        if name not in words:
            words[name] = words_of(decoded, accelerator.instruction(name))
        yield sort, words[name]


def words_of(decoded: Decoded, instruction: Instruction) -> ExecutedWords:
    """Where ``instruction`` stands in a launch; if it has parts, where its last one stands behind the others."""
    if not instruction.sequence:
        return ExecutedWords(decoded, decoded.rows(instruction), {})
    parts = decoded.accelerator.parts(instruction)
    rows = decoded.rows(parts[-1])
    whole = np.ones(len(rows), np.bool_)
    before, at = rows, {parts[-1].name: rows}
    for part in reversed(parts[:-1]):
        assert isinstance(part, Part)
        before, value, there = _part_before(decoded, part, before)
        whole &= there
        at[part.name] = value
    return ExecutedWords(decoded, rows, at).where(whole)


def _part_before(decoded: Decoded, part: Part, before: Int64) -> tuple[Int64, Int64, Bools]:
    """The word of ``part`` for each that stands directly before, or where it is sticky anywhere before, ``before``.

    Returns where the parts in front of it must end, where its words are, and whether they are there.
    """
    number = decoded.accelerator.instructions.index(part)
    next_to: Bools = (before > 0) & (decoded.kind[np.maximum(before - 1, 0)] == number)
    moved: Int64 = np.where(next_to, before - 1, before)
    if not part.sticky:
        return moved, moved, next_to
    rows = decoded.rows(part)
    latest = np.searchsorted(rows, before) - 1
    there = latest >= 0
    value = rows[np.maximum(latest, 0)] if len(rows) else np.zeros_like(before)
    return moved, value, there


def _refuse_undefined(decoded: Decoded, found: list[Executions]) -> None:
    """Every word that should do something does."""
    does = np.zeros(len(decoded), np.bool_)
    for executions in found:
        does[executions.words.rows] = True
    ends = {i.sequence[-1] for i in decoded.accelerator.instructions if i.sequence}
    acts = [
        (isinstance(i, Copy | Compute | Layer) and not i.sequence) or i.name in ends
        for i in decoded.accelerator.instructions
    ]
    wrong = np.flatnonzero(np.array(acts, np.bool_)[decoded.kind] & ~does)
    if len(wrong):
        raise _undefined(decoded, int(wrong[0]))


def _undefined(decoded: Decoded, index: int) -> SimulationError:
    """Why an instruction does nothing."""
    accelerator = decoded.accelerator
    word = accelerator.instructions[decoded.kind[index]]
    meant = [i for i in accelerator.instructions if i.sequence and i.sequence[-1] == word.name] or [word]
    there = [i for i in meant if not i.sequence or index in words_of(decoded, i).rows]
    if not there:
        whole = " or ".join(" + ".join(i.sequence) for i in meant)
        return decoded.error(index, "undefined-opcode", f"it ends {whole}, and not all of that stands before it")
    choices = [sort for sort in sorts_of(accelerator) if any(sort.instruction.name == i.name for i in there)]
    names = dict.fromkeys(name for sort in choices for name in sort.meaning.operation.when)
    values = words_of(decoded, there[0])
    at = int(np.searchsorted(values.rows, index))
    held = ", ".join(f"{name} = {int(values.column(name)[at])}" for name in names) if len(there) == 1 else ""
    known = "; ".join(_described(sort) for sort in choices)
    return decoded.error(index, "undefined-opcode", f"{held or 'its fields'} chooses no operation; there are {known}")


def _described(sort: InstructionOperation) -> str:
    when = ", ".join(f"{name} = {value}" for name, value in sort.meaning.operation.when.items())
    return f"{sort.meaning.operation.name} ({when})"
