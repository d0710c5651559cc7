"""Conditions in the expressions that they decide: no document knows a bool, but each may say ``select(a < b, x, y)``.

An operator whose result is of bools has 1 where it is so and 0 where not. What reads that has the expression in
place of the element, and a selection by a selection becomes one of selections. Constants of bools are bounds of what
they select, see :mod:`constant_selections`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import ir, relax

from accel.expression.syntax_tree import (
    Access,
    Expression,
    Literal,
    Scalar,
    Select,
    children,
    with_children,
    with_leaves,
)
from accel.lowering.vector.block_statements import UnsaidError
from accel.lowering.vector.constant_selections import COMPARISONS, ConstantSelections
from accel.lowering.vector.whole_floats import LegalOperator, LegalStatement

BOOL = "bool"


class Conditions:
    """What decides tensors of bools, and operators with it in place of their elements, each combination once."""

    def __init__(self) -> None:
        self._known: dict[relax.Expr, Condition] = {}
        self._constants = ConstantSelections()
        self._inlined: dict[Hashable, tuple[LegalOperator, LegalOperator]] = {}

    def __contains__(self, value: object) -> bool:
        return value in self._known

    def learn(self, var: relax.Var, operator: LegalOperator, given: Sequence[relax.Expr]) -> None:
        """Take in what decides a tensor; nothing of one that is not of bools, or takes more than one statement."""
        found = _condition_of(operator, given)
        if found is not None:
            self._known[var] = found

    def inline(self, operator: LegalOperator, given: Sequence[relax.Expr]) -> tuple[LegalOperator, list[relax.Expr]]:
        """Returns an operator that reads no bools, and its operands, among them those of the conditions.

        Raises:
            UnsaidError: an operand is of bools, and no statement says what decides them.
        """
        if all(tensor.dtype != BOOL for name, tensor in operator.tensors.items() if name in operator.inputs):
            return operator, list(given)
        whole, operands = _inlined(operator, given, self._known)
        bools = {
            name: value
            for name, value in zip(whole.inputs, operands, strict=True)
            if isinstance(value, ir.GenericConst) and whole.tensors[name].dtype == BOOL
        }
        if bools:
            kept = [value for name, value in zip(whole.inputs, operands, strict=True) if name not in bools]
            whole, bounds = self._constants.bounded(whole, bools)
            own = len(kept) - len(whole.constants)
            operands = [*kept[:own], *bounds, *kept[own:]]
        tensors = tuple((name, whole.tensors[name]) for name in whole.inputs)
        key = id(operator), tensors, tuple(str(statement.value) for statement in whole.statements)
        return self._inlined.setdefault(key, (whole, operator))[0], operands


def without_conditions(operator: LegalOperator) -> LegalOperator:
    """Returns an operator without statements whose bools others of it read: these have what decides them."""
    made = [statement.target.name for statement in operator.statements if statement.combiner is None]
    bools = {name for name in made if name != operator.result and operator.tensors[name].dtype == BOOL}
    if not bools:
        return operator
    found: dict[str, LegalStatement] = {}
    kept = []
    for statement in operator.statements:
        decided = _with_conditions(statement, found)
        if statement.target.name in bools:
            found[statement.target.name] = decided
        else:
            kept.append(decided)
    tensors = {name: tensor for name, tensor in operator.tensors.items() if name not in bools}
    return replace(operator, tensors=tensors, statements=tuple(kept))


@dataclass(frozen=True)
class Condition:
    """An operator whose result is of bools: one statement; ``given`` are its operands, in the order of its inputs."""

    operator: LegalOperator
    given: tuple[relax.Expr, ...]


def _condition_of(operator: LegalOperator, given: Sequence[relax.Expr]) -> Condition | None:
    is_bool = operator.tensors[operator.result].dtype == BOOL
    if not is_bool or len(operator.statements) != 1 or operator.statements[0].combiner is not None:
        return None
    return None if operator.constants else Condition(operator, tuple(given))


def _inlined(
    operator: LegalOperator, given: Sequence[relax.Expr], conditions: Mapping[relax.Expr, Condition]
) -> tuple[LegalOperator, list[relax.Expr]]:
    kept = len(operator.inputs) - len(operator.constants)
    names = dict(zip(given[:kept], operator.inputs[:kept], strict=True))
    tensors = dict(operator.tensors)
    found: dict[str, LegalStatement] = {}
    for value, name in list(names.items()):
        if operator.tensors[name].dtype != BOOL or isinstance(value, ir.GenericConst):
            continue
        if value not in conditions:
            raise UnsaidError("documents know no bool")
        condition = conditions[value]
        renamed = {}
        for inner, operand in zip(condition.operator.inputs, condition.given, strict=True):
            renamed[inner] = names.setdefault(operand, f"{name}_{inner}")
            tensors.setdefault(renamed[inner], condition.operator.tensors[inner])
        (statement,) = condition.operator.statements
        found[name] = replace(statement, value=_renamed(statement.value, renamed))
    inputs = {name: value for value, name in names.items() if name not in found}
    whole = replace(
        operator,
        tensors={name: tensor for name, tensor in tensors.items() if name not in found},
        inputs=(*inputs, *operator.inputs[kept:]),
        statements=tuple(_with_conditions(each, found) for each in operator.statements),
    )
    return whole, [*inputs.values(), *given[kept:]]


def _renamed(value: Expression, names: Mapping[str, str]) -> Expression:
    return _of_accesses(value, lambda leaf: Access(names[leaf.name], leaf.indices))


def _with_conditions(statement: LegalStatement, conditions: Mapping[str, LegalStatement]) -> LegalStatement:
    """A statement in which elements of bools are what decides them."""

    def element(leaf: Access) -> Expression:
        if leaf.name not in conditions:
            return leaf
        found = conditions[leaf.name]
        at = dict(zip(found.target.indices, leaf.indices, strict=True))
        return _of_accesses(
            found.value, lambda inner: Access(inner.name, tuple(at.get(index, index) for index in inner.indices))
        )

    return replace(statement, value=_decided(_of_accesses(statement.value, element)))


def _of_accesses(value: Expression, change: Callable[[Access], Expression]) -> Expression:
    def of_leaf(leaf: Literal | Scalar | Access) -> Expression:
        return change(leaf) if isinstance(leaf, Access) else leaf

    return with_leaves(value, of_leaf)


def _decided(value: Expression) -> Expression:
    """An expression without selections by what a selection of numbers is."""
    value = with_children(value, [_decided(child) for child in children(value)])
    if not isinstance(value, Select):
        return value
    left, right = value.left, value.right
    if isinstance(left, Literal) and isinstance(right, Literal):
        return value.then if COMPARISONS[value.comparison](left.value, right.value) else value.otherwise
    for side, other in ((left, right), (right, left)):
        if isinstance(side, Select) and isinstance(other, Literal) and _is_of_numbers(side):
            then, otherwise = (
                _decided(replace(value, left=part, right=right) if side is left else replace(value, right=part))
                for part in (side.then, side.otherwise)
            )
            return then if then == otherwise else replace(side, then=then, otherwise=otherwise)
    return value


def _is_of_numbers(value: Expression) -> bool:
    """Whether a selection's ends are numbers, as a condition's are."""
    if isinstance(value, Select):
        return _is_of_numbers(value.then) and _is_of_numbers(value.otherwise)
    return isinstance(value, Literal)
