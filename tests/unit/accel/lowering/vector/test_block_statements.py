"""Operators as statements: what TVM's loops of them say."""

import pytest
from tvm import ir, relax

from accel.lowering.vector.legal_statements import Legalizer


def combined(call: ir.Call) -> list[str]:
    """The statements of an operator that combine elements."""
    call = relax.BlockBuilder().normalize(call)
    operator, _ = Legalizer().read(call, call.ty, None, {})
    return [statement.combiner for statement in operator.statements if statement.combiner is not None]


@pytest.mark.parametrize(("rows", "found"), [(1, []), (3, ["max", "+"])])
def test_a_sum_of_one_element_combines_nothing(rows: int, found: list[str]) -> None:
    """Would catch a softmax over one row, whose maximum no loop of an instruction of rows walks."""
    assert combined(relax.op.nn.softmax(relax.Var("x", relax.TensorType((rows, 4), "float32")), axis=0)) == found
