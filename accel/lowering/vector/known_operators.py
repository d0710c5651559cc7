"""Operators of the graph as instructions of a target do them, each kind of operator once."""

from collections.abc import Mapping

from tvm import ir, relax

from accel.accelerator.target import Target
from accel.lowering.vector.covered_operators import CoveredOperator, cover_operator
from accel.lowering.vector.instruction_cover import UncoverableError
from accel.lowering.vector.key_blocks import cover_key_blocks, cover_sum_blocks
from accel.lowering.vector.legal_statements import Legalizer
from accel.lowering.vector.whole_floats import LegalOperator, Range


class KnownOperators:
    """What instructions do of operators, each kind of operator once a target."""

    def __init__(self, target: Target) -> None:
        self._target, self._legalizer = target, Legalizer()
        self._known: dict[int, tuple[LegalOperator, CoveredOperator | str]] = {}
        self._attentions: dict[str, CoveredOperator | None] = {}

    def legal(
        self,
        value: ir.Call,
        result: relax.TensorType,
        composite: relax.Function | None,
        ranges: Mapping[relax.Expr, Range],
    ) -> tuple[LegalOperator, list[relax.Expr]]:
        """Returns an operator as statements, and its operands.

        Raises:
            UnsaidError: no statement says it.
        """
        return self._legalizer.read(value, result, composite, ranges)

    def sum_in_blocks(self, operator: LegalOperator, home: str) -> CoveredOperator | None:
        """Returns a sum of products over blocks of what is summed, as instructions do it; None where none do."""
        try:
            return cover_sum_blocks(operator, self._target, home)
        except UncoverableError:
            return None

    def attention(self, operator: LegalOperator, home: str) -> CoveredOperator | None:
        """Returns an operator over blocks of keys as instructions do it; None where it is no attention, or none do."""
        key = f"{operator.inputs} {dict(operator.tensors)} {operator.statements}"
        if key not in self._attentions:
            try:
                self._attentions[key] = cover_key_blocks(operator, self._target, home)
            except UncoverableError:
                self._attentions[key] = None
        return self._attentions[key]

    def read(
        self,
        value: ir.Call,
        result: relax.TensorType,
        home: str,
        composite: relax.Function | None,
        ranges: Mapping[relax.Expr, Range],
    ) -> tuple[CoveredOperator, list[relax.Expr], Range | None]:
        """Returns an operator as instructions do it, its operands, and the range of a result of wide integers.

        Raises:
            UnsaidError: no statement says it.
            UncoverableError: no instructions do it.
        """
        operator, given = self._legalizer.read(value, result, composite, ranges)
        if id(operator) not in self._known:
            try:
                found: CoveredOperator | str = cover_operator(operator, self._target, home)
            except UncoverableError as error:
                found = str(error)
            self._known[id(operator)] = operator, found
        covered = self._known[id(operator)][1]
        if isinstance(covered, str):
            raise UncoverableError(covered)
        return covered, given, operator.range
