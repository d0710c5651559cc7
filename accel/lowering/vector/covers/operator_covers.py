"""Operators as a target's instructions do them, each kind of operator once a target."""

from tvm import relax

from accel.accelerator.target import Target
from accel.expression.element_types import CAST_TO
from accel.expression.syntax_tree import Access, Cast, Statement
from accel.lowering.analysis.float_units import home_memory
from accel.lowering.vector.covers.covered_operators import CoveredOperator
from accel.lowering.vector.covers.instruction_cover import InstructionCover, Lying, UncoverableError
from accel.lowering.vector.covers.key_blocks import cover_key_blocks, cover_sum_blocks
from accel.lowering.vector.covers.like_operators import LikeOperators
from accel.lowering.vector.legal_statements import Legalizer
from accel.lowering.vector.whole_floats import FLOAT, LegalOperator, Range

_ROW = 64  # elements of a row, which any store has


class OperatorCovers:
    """What instructions do of operators, each kind of operator once a target.

    Attributes:
        legalizer: makes operators statements, each kind once: what is known of one is known by its identity.
    """

    def __init__(self, target: Target) -> None:
        self._target, self._home = target, home_memory(target.accelerator) or ""
        self.legalizer = Legalizer()
        self._like = LikeOperators(target, self._home)
        self._known: dict[int, tuple[LegalOperator, CoveredOperator | str]] = {}
        self._stored: dict[str, bool] = {}
        self._attentions: dict[str, CoveredOperator | None] = {}

    def covered(
        self, operator: LegalOperator, given: list[relax.Expr]
    ) -> tuple[CoveredOperator, list[relax.Expr], Range | None]:
        """Returns an operator as instructions do it, its operands, and the range of a result of wide integers.

        Raises:
            UncoverableError: no instructions do it.
        """
        if id(operator) not in self._known:
            try:
                found: CoveredOperator | str = self._like.cover(operator)
            except UncoverableError as error:
                found = str(error)
            self._known[id(operator)] = operator, found
        covered = self._known[id(operator)][1]
        if isinstance(covered, str):
            raise UncoverableError(covered)
        return covered, given, operator.range

    def sum_in_blocks(self, operator: LegalOperator) -> CoveredOperator | None:
        """Returns a sum of products over blocks of what is summed, as instructions do it; None where none do."""
        try:
            return cover_sum_blocks(operator, self._target, self._home)
        except UncoverableError:
            return None

    def attention(self, operator: LegalOperator) -> CoveredOperator | None:
        """Returns an operator over blocks of keys as instructions do it; None where it is no attention, or none do."""
        key = f"{operator.inputs} {dict(operator.tensors)} {operator.statements}"
        if key not in self._attentions:
            try:
                self._attentions[key] = cover_key_blocks(operator, self._target, self._home)
            except UncoverableError:
                self._attentions[key] = None
        return self._attentions[key]

    def stores(self, dtype: str) -> bool:
        """Returns whether a copy brings floats to DRAM as a type of integers."""
        if dtype not in self._stored:
            row = ("a0",)
            lying = {"x": Lying(FLOAT, self._home), "y": Lying(dtype, "")}
            cover = InstructionCover(self._target, self._home, lying, {"a0": _ROW}, {})
            try:
                cover.statement(Statement(Access("y", row), None, Cast(CAST_TO[dtype], Access("x", row))), None)
            except UncoverableError:
                self._stored[dtype] = False
            else:
                self._stored[dtype] = True
        return self._stored[dtype]
