"""Nests of loops written down as they are, for regions that are no schedule of one tensor expression."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

Int = Any  # a tirx.Expr of int32, or an int


def nest(
    extents: Sequence[int], store: Callable[..., tirx.Stmt], pragma: str | None = None, value: int = 1
) -> tirx.Stmt:
    """Loops around what ``store`` makes of their variables; the first carries ``pragma``, if it is given."""
    variables = [tirx.Var(f"i{number}", "int32") for number in range(len(extents))]
    return around(variables, extents, store(*variables), pragma, value)


def around(
    variables: Sequence[tirx.Var], extents: Sequence[int], body: tirx.Stmt, pragma: str | None = None, value: int = 1
) -> tirx.Stmt:
    """``body`` in loops over the variables; the first carries ``pragma``, if it is given."""
    for number in reversed(range(len(extents))):
        zero, extent = tirx.const(0, "int32"), tirx.const(extents[number], "int32")
        notes = {pragma: value} if pragma is not None and number == 0 else {}
        body = tirx.For(variables[number], zero, extent, tirx.ForKind.SERIAL, body, annotations=notes)
    return body


def buffer(name: str, shape: Sequence[int], dtype: str, scope: str) -> Any:
    """A buffer in a scratchpad."""
    return tirx.decl_buffer(tuple(shape), dtype, name, scope=scope)
