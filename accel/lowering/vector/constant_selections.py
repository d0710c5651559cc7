"""Selections by bools that a model has as constants, such as causal masks: bounds that hold what is selected.

``select(found, x, 0.5)`` is ``max(min(x, above), below)``, where both bounds are 0.5 if ``found`` is not so, and the
infinities if it is. No machine needs a word for bools, and what is not selected may be infinite or no number.
"""

import operator as operators
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from tvm import ir, relax

from accel.expression.syntax_tree import Access, Binary, Call, Expression, Literal, Select, children, with_children
from accel.lowering.vector.whole_floats import FLOAT, LegalOperator, LegalTensor

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
    "==": operators.eq,
    "!=": operators.ne,
}
"""What selections compare by."""

_LARGEST = float(np.finfo(np.float32).max)


class ConstantSelections:
    """Operators with bounds in place of constants of bools; equal bounds of one constant are made once."""

    def __init__(self) -> None:
        self._made: dict[_Chosen, ir.GenericConst] = {}

    def bounded(
        self, operator: LegalOperator, bools: Mapping[str, ir.GenericConst]
    ) -> tuple[LegalOperator, list[ir.GenericConst]]:
        """Returns an operator without the inputs ``bools``, and what it reads in their place.

        That comes behind the other operands, ahead of the operator's own constants.
        """
        found = _Bounds(operator, bools, self._made)
        statements = tuple(replace(each, value=found.expression(each.value)) for each in operator.statements)
        tensors = {name: tensor for name, tensor in operator.tensors.items() if name not in bools}
        kept = len(operator.inputs) - len(operator.constants)
        inputs = [name for name in operator.inputs[:kept] if name not in bools]
        whole = replace(
            operator,
            tensors=tensors | found.tensors,
            inputs=(*inputs, *found.constants, *operator.inputs[kept:]),
            statements=statements,
        )
        return whole, list(found.constants.values())


_Chosen = tuple[ir.GenericConst, float, float]
"""A number where a constant is so, and one where it is not."""


@dataclass
class _Bounds:
    """The bounds in one operator, their tensors and contents by name."""

    operator: LegalOperator
    bools: Mapping[str, ir.GenericConst]
    made: dict[_Chosen, ir.GenericConst]
    tensors: dict[str, LegalTensor] = field(default_factory=dict)
    constants: dict[str, ir.GenericConst] = field(default_factory=dict)

    def expression(self, value: Expression) -> Expression:
        """Returns the expression with bounds in place of selections by constants."""
        match value:
            case Access(name) if name in self.bools:
                return self._numbers(value, 1.0, 0.0)
            case Select(_, Access(name) as found, Literal(number)) | Select(
                _, Literal(number), Access(name) as found
            ) if name in self.bools:
                compares, first = COMPARISONS[value.comparison], value.left is found
                of_true, of_false = (
                    value.then if (compares(each, number) if first else compares(number, each)) else value.otherwise
                    for each in (1, 0)
                )
                return self._selected(found, self.expression(of_true), self.expression(of_false))
        return with_children(value, [self.expression(child) for child in children(value)])

    def _selected(self, found: Access, then: Expression, otherwise: Expression) -> Expression:
        """One expression where a constant is so, and another where it is not."""
        array = self.bools[found.name].value.numpy()
        if array.all() or then == otherwise:
            return then
        if not array.any():
            return otherwise
        match then, otherwise:
            case Literal(one), Literal(other):
                return self._numbers(found, one, other)
            case _, Literal(other):
                return self._kept(found, then, other, where=True)
            case Literal(one), _:
                return self._kept(found, otherwise, one, where=False)
        return Binary("+", self._kept(found, then, 0.0, where=True), self._kept(found, otherwise, 0.0, where=False))

    def _kept(self, found: Access, value: Expression, number: float, *, where: bool) -> Expression:
        """A value ``where`` a constant is so, or is not, and a number elsewhere; one end of the floats is one bound."""
        sides = []
        if number < _LARGEST:
            sides.append(("min", np.inf))
        if number > -_LARGEST:
            sides.append(("max", -np.inf))
        for function, end in sides:
            bounds = self._numbers(found, *((end, number) if where else (number, end)))
            value = Call(function, (value, bounds))
        return value

    def _numbers(self, found: Access, one: float, other: float) -> Access:
        """An element of numbers, ``one`` where a constant is so and the ``other`` where it is not."""
        key = self.bools[found.name], float(one), float(other)
        if key not in self.made:
            array = np.where(key[0].value.numpy(), np.float32(one), np.float32(other))
            self.made[key] = relax.const(array, FLOAT)
        known = next((name for name, each in self.constants.items() if each.same_as(self.made[key])), None)
        name = known or f"{found.name}_{len(self.constants)}"
        self.constants[name] = self.made[key]
        self.tensors[name] = LegalTensor(self.operator.tensors[found.name].shape, FLOAT)
        return Access(name, found.indices)
