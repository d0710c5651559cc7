"""Bools in the expressions that they decide; what they say is computed in numpy.

It would catch a condition that is read along other axes than it was made along, an And that is an Or, a negation that
is lost, and operands that are given to the wrong input.
"""

from collections.abc import Mapping

import numpy as np
import pytest
from tvm import ir, relax

from accel.expression.syntax_tree import Access, Binary, Expression, Literal, Select, children
from accel.lowering.vector.block_statements import UnsaidError
from accel.lowering.vector.inlined_conditions import Conditions
from accel.lowering.vector.legal_statements import Legalizer

X = relax.Var("x", relax.TensorType((3, 4), "float32"))
ROW = relax.Var("row", relax.TensorType((1, 4), "float32"))
FOUND = relax.Var("found", relax.TensorType((3, 4), "bool"))
OTHER = relax.Var("other", relax.TensorType((3, 4), "bool"))
BOTH = relax.Var("both", relax.TensorType((3, 4), "bool"))
RESULT = relax.TensorType((3, 4), "float32")


def read(conditions: Conditions, call: ir.Call, var: relax.Var | None = None) -> tuple[Expression, Mapping[str, str]]:
    """What an operator says once bools are in its expression, and the variable of each of its inputs."""
    call = relax.BlockBuilder().normalize(call)
    operator, given = conditions.inline(*Legalizer().read(call, call.ty, None, {}))
    if var is not None:
        conditions.learn(var, operator, given)
    (statement,) = operator.statements
    return statement.value, dict(zip(operator.inputs, (str(value.name) for value in given), strict=True))


def computed(value: Expression, names: Mapping[str, str], tensors: Mapping[str, np.ndarray]) -> np.ndarray:
    """An expression over whole tensors of one shape, or that broadcast."""
    match value:
        case Literal(number):
            return np.asarray(number)
        case Access(name):
            return tensors[names[name]]
        case Binary("*", left, right):
            return computed(left, names, tensors) * computed(right, names, tensors)
        case Select(comparison):
            left, right, then, otherwise = (computed(side, names, tensors) for side in children(value))
            compared = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "!=": np.not_equal}
            return np.where(compared[comparison](left, right), then, otherwise)
    raise AssertionError(value)


def test_conditions_of_conditions() -> None:
    """``where(not (x < row) and not isnan(x), x * row, row)``, of a row that broadcasts."""
    conditions = Conditions()
    read(conditions, relax.op.less(X, ROW), FOUND)
    read(conditions, relax.op.isnan(X), OTHER)
    read(conditions, relax.op.logical_or(FOUND, OTHER), BOTH)
    read(conditions, relax.op.logical_not(BOTH), FOUND)
    value, names = read(conditions, relax.op.where(FOUND, X, ROW))
    assert sorted(names.values()) == ["row", "x"]
    assert "0.0" not in str(value), "numbers that stand for bools are decided"
    tensors = {"x": np.array([[1, 2, 3, np.nan]] * 3), "row": np.array([[2.0, 2, 2, 2]])}
    expected = [[2, 2, 3, 2]] * 3
    np.testing.assert_array_equal(computed(value, names, tensors), expected)


def test_bools_that_come_from_elsewhere_have_no_word() -> None:
    with pytest.raises(UnsaidError, match="documents know no bool"):
        read(Conditions(), relax.op.where(FOUND, X, ROW))
