"""Matching of operations: which operation of the accelerator does what a store does, and the numbers of its fields."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm_ffi import StructuralKey, structural_mutate

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy, Layer
from accel.accelerator.semantics import Semantics, scalar_field
from accel.accelerator.target import Target
from accel.expression.syntax_tree import Binary, Scalar, walk, with_scalars, with_sums
from accel.expression.tir_terms import same_place
from accel.expression.typecheck import Typed, check_statement
from accel.expression.unify import Binding, Pattern, UnificationFailure, unify
from accel.lowering.ir.affine_nest import constant_value
from accel.lowering.ir.tir_walk import collect, loads_of, scope_of

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


def matching_operations(
    store: "tirx.BufferStore | StoreForm",
    known: Iterable[Semantics],
    target: Target,
    misfits: list[str] | None = None,
) -> Iterator[OperationMatch]:
    """Every operation of ``known`` that does what ``store`` does, in order.

    ``misfits`` receives why those do not that would, but for the numbers of their fields. Who asks for operations of a
    store several times gives its form.
    """
    form = store if isinstance(store, StoreForm) else StoreForm.of(store)
    for meaning in known:
        if meaning.typed.tables:
            continue  # no store of a program says what a document's table holds
        for match in target.derived(_MatchTable).matches(meaning, form):
            if not match.misfit:
                yield OperationMatch(meaning, {name: form.places[at] for name, at in match.operands}, match.scalars)
            elif misfits is not None:
                misfits.append(match.misfit)


def nearest_mismatch(store: tirx.BufferStore, known: Iterable[Semantics], target: Target) -> str:
    """Returns why the first operation of ``known`` that comes near does something else; empty where none was tried."""
    form, elsewhere = StoreForm.of(store), ""
    for meaning in known:
        name, statement = meaning.instruction.name, meaning.typed.statement
        scope = operand_scope(meaning, statement.target.name, target.accelerator)
        if meaning.typed.tables:
            continue
        if scope_of(store.buffer) != scope:
            elsewhere = elsewhere or f"{name} writes {scope}"
        elif not target.derived(_MatchTable).matches(meaning, form):
            mismatch = unify(meaning.typed, store, _acceptor(meaning, target.accelerator))
            reason = mismatch.reason if isinstance(mismatch, UnificationFailure) else "it does something else"
            return f"{name} does {statement}: {reason.removeprefix(f'{statement}: ')}"
    return elsewhere


@dataclass(frozen=True)
class StoreForm:
    """A store but for where its elements lie: each in a buffer of its own, numbered as they come, the target first.

    Stores of equal ``key`` are done by the same operations; ``places`` are the loads of the elements.
    """

    store: tirx.BufferStore
    key: StructuralKey
    buffers: tuple[tirx.Var, ...]
    places: tuple[TensorLoad, ...]

    @classmethod
    def of(cls, store: tirx.BufferStore) -> "StoreForm":
        """The form of ``store``."""
        places: list[TensorLoad] = [tirx.BufferLoad(store.buffer, list(store.indices))]
        for load in loads_of(store.value):
            if not any(same_place(load, other) for other in places):
                places.append(load)
        buffers = [tirx.decl_buffer((1,), str(load.ty.dtype), "x", scope=scope_of(load.source)) for load in places]

        def element(load: TensorLoad, _mutator: Any) -> TensorLoad:
            at = next(number for number, other in enumerate(places) if same_place(load, other))
            return tirx.BufferLoad(buffers[at], [0])

        value = structural_mutate(store.value, (TensorLoad, element))
        form = tirx.BufferStore(buffers[0], value, [0])
        kinds = [f"{load.ty.dtype} {scope_of(load.source)}" for load in places]
        return cls(form, StructuralKey([kinds, tirx.PrimFunc(buffers, form)]), tuple(buffers), tuple(places))


@dataclass(frozen=True)
class _Match:
    """One way in which an operation does stores of a form: operands by place; ``misfit``: which field is too narrow."""

    operands: tuple[tuple[str, int], ...]
    scalars: dict[str, tirx.Expr]
    misfit: str


class _MatchTable:
    """The matches of a target's operations with the forms of stores that were asked for so far.

    Layers, and tilings of a layer, store the same values in other places.
    """

    def __init__(self, target: Target) -> None:
        self._accelerator = target.accelerator
        self._known: dict[int, tuple[_Operation, dict[StructuralKey, Sequence[_Match]]]] = {}

    def matches(self, meaning: Semantics, form: StoreForm) -> Sequence[_Match]:
        """Every way in which an operation does stores of a form."""
        if id(meaning) not in self._known:  # an operation that is kept keeps its id
            self._known[id(meaning)] = _Operation(meaning, self._accelerator), {}
        operation, known = self._known[id(meaning)]
        if form.key not in known:
            known[form.key] = tuple(self._found(operation, form))
        return known[form.key]

    def _found(self, operation: "_Operation", form: StoreForm) -> Iterator[_Match]:
        meaning = operation.meaning
        accelerator, statement = self._accelerator, meaning.typed.statement
        if scope_of(form.store.buffer) != operand_scope(meaning, statement.target.name, accelerator):
            return
        numbers = {buffer: number for number, buffer in enumerate(form.buffers)}
        for binding in operation.bindings(form.store):
            if binding.accumulates == statement.updates:  # else it sums what it is given, and adds nothing to it
                operands = tuple((name, numbers[load.source]) for name, load in binding.operands.items())
                yield _Match(operands, binding.scalars, _misfit(meaning, binding, accelerator))


class _Operation:
    """An operation, and the patterns of what it does."""

    def __init__(self, meaning: Semantics, accelerator: Accelerator) -> None:
        self.meaning = meaning
        self._accept = _acceptor(meaning, accelerator)
        self._pattern = Pattern(meaning.typed)
        self._of_amount: dict[tuple[str, int], Pattern] = {}

    def bindings(self, store: tirx.BufferStore) -> Iterator[Binding]:
        """Yields the matcher's bindings; if it has none, those with amounts of shifts read off the store beforehand.

        Of ``x + (1 << n - 1) >> n`` the sum alone does not tell n.
        """
        found = False
        for binding in self._pattern.bindings(store, self._accept):
            found = True
            yield binding
        if found:
            return
        amounts = {n for shift in collect(store.value, tirx.RShift) if (n := constant_value(shift.b)) is not None}
        for name in self._shifted:
            for amount in sorted(amounts):
                if (name, amount) not in self._of_amount:
                    self._of_amount[name, amount] = Pattern(_with_amount(self.meaning.typed, name, amount))
                for binding in self._of_amount[name, amount].bindings(store, self._accept):
                    yield replace(binding, scalars={**binding.scalars, name: tirx.const(amount, "int32")})

    @cached_property
    def _shifted(self) -> list[str]:
        typed = self.meaning.typed
        return sorted(_shift_amounts(typed) - set(typed.extents))


def _shift_amounts(typed: Typed) -> set[str]:
    """Returns the scalars by which a statement shifts to the right."""
    shifts = (node for node in walk(typed.statement.value) if isinstance(node, Binary) and node.operator == ">>")
    return {node.name for shift in shifts for node in walk(shift.right) if isinstance(node, Scalar)}


def _with_amount(typed: Typed, name: str, amount: int) -> Typed:
    """Returns the statement with a number for a scalar."""
    statement = replace(typed.statement, value=with_sums(with_scalars(typed.statement.value, {name: amount})))
    return check_statement(
        statement, typed.tensors, {other: kind for other, kind in typed.scalars.items() if other != name}
    )


def operand_scope(meaning: Semantics, name: str, accelerator: Accelerator) -> str:
    """The storage scope where an operand of an operation lies."""
    instruction = meaning.instruction
    if isinstance(instruction, Copy):
        if name in instruction.operands:
            return accelerator.memory(instruction.operands[name].memory).scope
        return DRAM if name == "dram" else accelerator.memory(instruction.memory).scope
    if isinstance(instruction, Layer) and instruction.operands[name].dram is not None:
        return DRAM
    return accelerator.memory(instruction.operands[name].memory).scope


def _acceptor(meaning: Semantics, accelerator: Accelerator) -> Callable[[str, TensorLoad], bool]:
    def accept(name: str, load: TensorLoad) -> bool:
        return scope_of(load.source) == operand_scope(meaning, name, accelerator)

    return accept


def _misfit(meaning: Semantics, binding: Binding, accelerator: Accelerator) -> str:
    """The first scalar that its field cannot hold, in words; empty where there is none."""
    for name, value in binding.scalars.items():
        number = constant_value(value)
        if number is None:
            continue
        field = accelerator.field(meaning.instruction, scalar_field(accelerator, meaning.instruction, name))
        low, high = field.limits
        if not low <= number < high:
            return f"{meaning.instruction.name}: {name} = {number} does not fit {field.bits} {field.type} bits"
    return ""
