"""Direct moves: instructions that leave in a memory what a store to DRAM and a load from there would leave in it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.memories import DTYPE_BYTES
from accel.expression.syntax_tree import (
    Access,
    Binary,
    Call,
    Cast,
    Expression,
    Index,
    Literal,
    Lookup,
    Scalar,
    Select,
    Statement,
    children,
    walk,
    with_leaves,
)
from accel.isa.explicit.operations import InstructionOperation, Tensor, sorts_of


@dataclass(frozen=True)
class DirectMove:
    """A compute that does at once what a store does, and a load of what that has stored.

    Attributes:
        compute: the operation; its tensors are the one that it fills, and the one that it reads.
        store: the store's operation, which reads the same memory.
        load: the load's operation; it fills the same memory.
        target: what the compute fills, and
        source: what it reads.
        scalars: of the compute's scalars the field, and the field of the store that has its value.
    """

    compute: InstructionOperation
    store: InstructionOperation
    load: InstructionOperation
    target: Tensor
    source: Tensor
    scalars: tuple[tuple[str, str], ...]

    @property
    def element_bytes(self) -> int:
        """What an element takes in DRAM."""
        assert isinstance(self.store.instruction, Copy)
        shape = self.store.meaning.typed.tensors["dram"].shape
        return math.prod(shape) * DTYPE_BYTES[self.store.instruction.dram_dtype]


def direct_moves(accelerator: Accelerator) -> tuple[DirectMove, ...]:
    """Returns the direct moves of a document, one for each store's operation and load of a memory, if it has any."""
    sorts = [sort for sort in sorts_of(accelerator) if not sort.instruction.sequence]
    stores, loads = (
        [each for each in sorts if isinstance(each.instruction, Copy) and each.instruction.direction == direction]
        for direction in ("store", "load")
    )
    computes = [each for each in sorts if isinstance(each.instruction, Compute) and len(each.tensors) == 2]
    found = []
    for store in stores:
        for load in loads:
            moves = (_move(accelerator, compute, store, load) for compute in computes)
            first = next((move for move in moves if move is not None), None)
            found += [] if first is None else [first]
    return tuple(found)


def _move(
    accelerator: Accelerator, compute: InstructionOperation, store: InstructionOperation, load: InstructionOperation
) -> DirectMove | None:
    if not _between(accelerator, compute, store, load):
        return None
    composed, match = _composed(store.meaning.typed.statement, load.meaning.typed.statement), _Match()
    if composed is None or not match.equal(compute.meaning.typed.statement, composed):
        return None
    fields, theirs = dict(compute.scalars), dict(store.scalars)
    types, others = compute.meaning.typed.scalars, store.meaning.typed.scalars
    if any(types[ours] != others[other] for ours, other in match.scalars.items()):
        return None
    scalars = tuple((fields[ours], theirs[other]) for ours, other in match.scalars.items())
    target, source = compute.tensors
    return DirectMove(compute, store, load, target, source, scalars)


def _between(
    accelerator: Accelerator, compute: InstructionOperation, store: InstructionOperation, load: InstructionOperation
) -> bool:
    """Whether they are between the same memories, element by element, and DRAM holds what it is read as."""
    kept, brought = store.instruction, load.instruction
    assert isinstance(kept, Copy)
    assert isinstance(brought, Copy)
    target, source = compute.tensors
    memories = accelerator.memories
    statements = [each.meaning.typed.statement for each in (compute, store, load)]
    return (
        (memories[target.memory].name, memories[source.memory].name) == (brought.memory, kept.memory)
        and memories[target.memory].shape == memories[source.memory].shape
        and kept.dram_dtype == brought.dram_dtype
        and (target.span, source.span) == (1, 1)
        and not (target.reads or source.writes or load.scalars)
        and all(statement.combiner is None for statement in statements)
    )


def _composed(store: Statement, load: Statement) -> Statement | None:
    """What a load leaves of what a store has stored, over the store's memory; None where an index is no axis."""
    inner = next((access for access in _accesses(load.value) if access.name == "dram"), None)
    if inner is None or not all(isinstance(index, str) for index in (*inner.indices, *store.target.indices)):
        return None
    axes = dict(zip(store.target.indices, inner.indices, strict=True))

    def renamed(leaf: Literal | Scalar | Access) -> Expression:
        if not isinstance(leaf, Access):
            return leaf
        return Access(leaf.name, tuple(axes.get(index, index) for index in leaf.indices))

    value = with_leaves(store.value, renamed)

    def stored(leaf: Literal | Scalar | Access) -> Expression:
        return value if isinstance(leaf, Access) and leaf.name == "dram" else leaf

    return Statement(load.target, None, with_leaves(load.value, stored))


def _accesses(expression: Expression) -> list[Access]:
    return [node for node in walk(expression) if isinstance(node, Access)]


class _Match:
    """Whether two statements are the same but for the names of tensors, axes and scalars; each name has one other."""

    def __init__(self) -> None:
        self.scalars: dict[str, str] = {}
        self._tensors: dict[str, str] = {}
        self._axes: dict[str, str] = {}

    def equal(self, one: Statement, other: Statement) -> bool:
        """Whether they are; then ``scalars`` has the names of the other's scalars."""
        tensors = {one.target.name: "to", **{each.name: "from" for each in _accesses(one.value)}}
        others = {**{each.name: "from" for each in _accesses(other.value)}}
        return (
            len(tensors) == 2
            and len(others) == 1
            and self._indices(one.target.indices, other.target.indices)
            and self._same(one.value, other.value)
        )

    def _same(self, one: Expression, other: Expression) -> bool:
        if type(one) is not type(other):
            return False
        match one, other:
            case Access(), Access():
                return self._bound(self._tensors, one.name, other.name) and self._indices(one.indices, other.indices)
            case Scalar(), Scalar():
                return self._bound(self.scalars, one.name, other.name)
            case Literal(), Literal():
                return type(one.value) is type(other.value) and one.value == other.value
            case (
                (Binary(), Binary()) | (Call(), Call()) | (Cast(), Cast()) | (Select(), Select()) | (Lookup(), Lookup())
            ):
                if _head(one) != _head(other):
                    return False
        below, beside = children(one), children(other)
        return len(below) == len(beside) and all(self._same(*pair) for pair in zip(below, beside, strict=True))

    def _indices(self, one: tuple[Index, ...], other: tuple[Index, ...]) -> bool:
        return len(one) == len(other) and all(
            isinstance(mine, str) and isinstance(its, str) and self._bound(self._axes, mine, its)
            for mine, its in zip(one, other, strict=True)
        )

    def _bound(self, names: dict[str, str], one: str, other: str) -> bool:
        if one not in names and other in names.values():
            return False
        return names.setdefault(one, other) == other


def _head(expression: Expression) -> object:
    """What an operation is, without what it works on."""
    match expression:
        case Binary(operator):
            return operator
        case Call(function):
            return function
        case Cast(to):
            return to
        case Select(comparison):
            return comparison
        case Lookup(table):
            return table if isinstance(table, str) else None
    return None


def with_free_loads(accelerator: Accelerator) -> Accelerator:
    """Returns a document in which the loads that direct moves make needless take a cycle, and nothing of the bus."""
    free = {move.load.instruction.name for move in direct_moves(accelerator)}
    instructions = [
        each.model_copy(update={"cycles": "1", "bus_cycles": "0"}) if each.name in free else each
        for each in accelerator.instructions
    ]
    return accelerator.model_copy(update={"instructions": tuple(instructions)})


def moves_by_store(moves: tuple[DirectMove, ...], memory: int) -> Mapping[int, DirectMove]:
    """Returns those that fill a memory, by the code of the store's operation."""
    return {move.store.code: move for move in reversed(moves) if move.target.memory == memory}
