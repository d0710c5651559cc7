"""Affine analysis of a loop nest under a pragma: its loops, and how each access steps with them.

This is the normal form that the inject passes match: serial loops around one store, every index affine in
the loop variables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx
from tvm_ffi import structural_map

from accel.errors import CompileError
from accel.lowering.ir.document_paths import INSTRUCTIONS


@dataclass(frozen=True)
class AffineIndex:
    """``base + sum(strides[k] * loop[k])``."""

    strides: tuple[int, ...]
    base: tirx.Expr


@dataclass(frozen=True)
class AffineAccess:
    """A line through a flat buffer, in scalars of its element type."""

    buffer: tirx.Var
    strides: tuple[int, ...]
    base: tirx.Expr

    def first_element(self, size: int) -> tirx.Expr:
        """Returns where the line begins, in elements of ``size`` scalars.

        Raises:
            CompileError: it begins within an element.
        """
        if constant_value(simplify(tirx.floormod(self.base, size))) != 0:
            raise CompileError(
                f"{self.buffer.name}[{self.base}] is within an element of {size} scalars", field=INSTRUCTIONS
            )
        return simplify(tirx.floordiv(self.base, size))


@dataclass(frozen=True)
class AffineNest:
    """Loops (variables and extents, outermost first) around one store."""

    variables: tuple[tirx.Var, ...]
    extents: tuple[int, ...]
    store: tirx.BufferStore

    def line(self, expression: tirx.Expr) -> AffineIndex:
        """``expression`` as an affine function of the loops.

        Raises:
            CompileError: it is not affine, or a coefficient is not constant.
        """
        if not self.variables:
            return AffineIndex((), simplify(expression))
        coefficients = sym.detect_linear_equation(expression, list(self.variables))
        steps = [constant_value(simplify(coefficient)) for coefficient in coefficients[:-1]]
        if not coefficients or None in steps:
            raise CompileError(f"{expression} is not affine in the loops of its nest", field="index")
        return AffineIndex(tuple(step for step in steps if step is not None), coefficients[-1])

    def access(self, buffer: tirx.Var, indices: Sequence[tirx.Expr]) -> AffineAccess:
        """How a read or write of a flat buffer steps with the loops, in scalars.

        Raises:
            CompileError: the buffer is not flat, or the index not affine.
        """
        if len(indices) != 1:
            raise CompileError(f"buffer {buffer.name} is not flat", field=buffer.name)
        line = self.line(indices[0])
        return AffineAccess(buffer, line.strides, line.base)

    @property
    def target(self) -> AffineAccess:
        """The store's own access."""
        return self.access(self.store.buffer, self.store.indices)


def nest_of(statement: tirx.Stmt) -> AffineNest:
    """The nest of ``statement``; loops of extent 1 are substituted away.

    Raises:
        CompileError: something other than serial loops of constant extent around one store.
    """
    variables, extents = [], []
    substitution: dict[tirx.Var, tirx.Expr] = {}
    while isinstance(statement, tirx.For):
        extent, start = statement.extent, statement.min
        if not isinstance(extent, tirx.IntImm) or not isinstance(start, tirx.IntImm) or int(start) != 0:
            raise CompileError(f"the loop over {statement.loop_var} has no constant extent", field="pragma")
        if int(extent) == 1:
            substitution[statement.loop_var] = tirx.const(0, str(statement.loop_var.ty.dtype))
        else:
            variables.append(statement.loop_var)
            extents.append(int(extent))
        statement = statement.body
    if not isinstance(statement, tirx.BufferStore):
        raise CompileError(f"a pragma's nest must end in one store, found {type(statement).__name__}", field="pragma")
    return AffineNest(tuple(variables), tuple(extents), substitute(statement, substitution))


def substitute(node: Any, values: dict[tirx.Var, tirx.Expr]) -> Any:
    """``node`` with each variable of ``values`` replaced."""
    return structural_map(node, (tirx.Var, lambda variable: values.get(variable, variable)))


def in_loops(
    variables: Sequence[tirx.Var], extents: Sequence[int], body: tirx.Stmt, pragma: str | None = None, value: int = 1
) -> tirx.Stmt:
    """``body`` in loops over the variables; the first carries ``pragma``, if it is given."""
    for number in reversed(range(len(extents))):
        zero, extent = tirx.const(0, "int32"), tirx.const(extents[number], "int32")
        notes = {pragma: value} if pragma is not None and number == 0 else {}
        body = tirx.For(variables[number], zero, extent, tirx.ForKind.SERIAL, body, annotations=notes)
    return body


def simplify(expression: tirx.Expr) -> tirx.Expr:
    """TVM's simplification of an index expression."""
    return sym.Analyzer().simplify(expression)


def constant_value(expression: object) -> int | None:
    """The value of an integer constant, or None."""
    return int(expression) if isinstance(expression, int | tirx.IntImm) else None
