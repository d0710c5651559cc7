"""Matching of operations: which operation of the accelerator does what a store does, and the numbers of its fields."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tvm import tirx
from tvm.ir import TensorLoad

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.accelerator.semantics import Semantics, scalar_field
from accel.expression.syntax_tree import Binary, Scalar, walk, with_scalars
from accel.expression.typecheck import Typed, check_statement
from accel.expression.unify import Binding, Mismatch, bindings, unify
from accel.lowering.ir.affine_nest import constant_value
from accel.lowering.ir.tir_walk import collect, scope_of

DRAM = "global"
"""The scope of buffers that lie in it."""


@dataclass(frozen=True)
class OperationMatch:
    """An operation, the loads that are its operands, and the values of its scalars.

    ``target_read`` is the load of the target itself, where the operation reads it.
    """

    meaning: Semantics
    operands: dict[str, TensorLoad]
    scalars: dict[str, tirx.Expr]

    @property
    def target_read(self) -> TensorLoad | None:
        """The load of the target, or None where it is not read."""
        return self.operands.get(self.meaning.typed.statement.target.name)


@dataclass
class MatchFailures:
    """Why operations do not do what a store does.

    ``near``: they do the same, but not with these numbers or in these loops; ``others`` do something else.
    """

    near: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    @property
    def nearest(self) -> str:
        """The reason of the operation that comes nearest; empty where none was tried."""
        return next(iter([*self.near, *self.others]), "")


def matching_operations(
    store: tirx.BufferStore, known: Iterable[Semantics], accelerator: Accelerator, refused: MatchFailures | None = None
) -> Iterator[OperationMatch]:
    """Every operation of ``known`` that does what ``store`` does, in order; why others do not goes to ``refused``."""
    refused = MatchFailures() if refused is None else refused
    elsewhere: list[str] = []
    for meaning in known:
        name = meaning.instruction.name
        scope = operand_scope(meaning, meaning.typed.statement.target.name, accelerator)
        if scope_of(store.buffer) != scope:
            elsewhere.append(f"{name} writes {scope}")
            continue
        found = False
        for binding in _bindings(meaning, store, accelerator):
            if binding.accumulates != meaning.typed.statement.accumulate:
                continue  # it sums what it is given, and adds nothing to what is there
            found = True
            wrong = _overflow(meaning, binding, accelerator)
            if wrong is None:
                yield OperationMatch(meaning, binding.operands, binding.scalars)
            else:
                refused.near.append(wrong)
        if not found:
            mismatch = unify(meaning.typed, store, _acceptor(meaning, accelerator))
            reason = mismatch.reason if isinstance(mismatch, Mismatch) else "it does something else"
            told = reason.removeprefix(f"{meaning.typed.statement}: ")
            refused.others.append(f"{name} does {meaning.typed.statement}: {told}")
    refused.others += elsewhere


def _bindings(meaning: Semantics, store: tirx.BufferStore, accelerator: Accelerator) -> Iterator[Binding]:
    """Those of the matcher; if there are none, with the amounts of shifts taken from the store beforehand.

    Of ``x + (1 << n - 1) >> n`` the sum alone does not tell n.
    """
    accept, found = _acceptor(meaning, accelerator), False
    for binding in bindings(meaning.typed, store, accept):
        found = True
        yield binding
    if found:
        return
    amounts = {n for shift in collect(store.value, tirx.RShift) if (n := constant_value(shift.b)) is not None}
    for name in sorted(_shift_amounts(meaning.typed) - set(meaning.typed.extents)):
        for amount in sorted(amounts):
            typed = _with_amount(meaning.typed, name, amount)
            for binding in bindings(typed, store, accept):
                yield replace(binding, scalars={**binding.scalars, name: tirx.const(amount, "int32")})


def _shift_amounts(typed: Typed) -> set[str]:
    """Returns the scalars by which a statement shifts to the right."""
    shifts = (node for node in walk(typed.statement.value) if isinstance(node, Binary) and node.operator == ">>")
    return {node.name for shift in shifts for node in walk(shift.right) if isinstance(node, Scalar)}


def _with_amount(typed: Typed, name: str, amount: int) -> Typed:
    """Returns the statement with a number for a scalar."""
    statement = replace(typed.statement, value=with_scalars(typed.statement.value, {name: amount}))
    return check_statement(
        statement, typed.tensors, {other: kind for other, kind in typed.scalars.items() if other != name}
    )


def operand_scope(meaning: Semantics, name: str, accelerator: Accelerator) -> str:
    """The storage scope where an operand of an operation lies."""
    instruction = meaning.instruction
    if isinstance(instruction, Copy):
        return DRAM if name == "dram" else accelerator.memory(instruction.memory).scope
    return accelerator.memory(instruction.operands[name].memory).scope


def _acceptor(meaning: Semantics, accelerator: Accelerator) -> Callable[[str, TensorLoad], bool]:
    def accept(name: str, load: TensorLoad) -> bool:
        return scope_of(load.source) == operand_scope(meaning, name, accelerator)

    return accept


def _overflow(meaning: Semantics, binding: Binding, accelerator: Accelerator) -> str | None:
    """The first scalar that its field cannot hold, in words."""
    for name, value in binding.scalars.items():
        number = constant_value(value)
        if number is None:
            continue
        field = accelerator.field(meaning.instruction, scalar_field(accelerator, meaning.instruction, name))
        low, high = field.limits
        if not low <= number < high:
            return f"{meaning.instruction.name}: {name} = {number} does not fit {field.bits} {field.type} bits"
    return None
