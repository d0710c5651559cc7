"""The source of a function as a tree, and what its global names stand for."""

import ast
import builtins
import functools
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

MISSING = object()
"""What is not known before a kernel runs."""


class KernelSyntaxError(SyntaxError):
    """A statement or an expression that kernels cannot have."""


@functools.cache
def _definitions(path: str) -> dict[int, ast.FunctionDef]:
    """Returns a file's functions, each under its first line."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {min([node.lineno, *(each.lineno for each in node.decorator_list)]): node for node in found}


class Source:
    """A function's tree, its parameters' names, and the objects that its global names stand for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__
        self.path, self.name = code.co_filename, function.__name__
        self.tree = _definitions(self.path)[code.co_firstlineno]
        self.parameters = [each.arg for each in self.tree.args.args]
        self.returns = inspect.get_annotations(function).get("return")
        self._locals = set(code.co_varnames)
        self._globals = function.__globals__

    def static(self, node: ast.expr) -> Any:  # noqa: PLR0911  a case for each kind of expression
        """Returns the Python object that an expression is in every run, MISSING where it depends on the run."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                if name in self._locals:
                    return MISSING
                return self._globals.get(name, getattr(builtins, name, MISSING))
            case ast.Attribute(base, name):
                owner = self.static(base)
                return getattr(owner, name, MISSING) if isinstance(owner, types.ModuleType | type) else MISSING
            case ast.UnaryOp(ast.USub(), operand):
                value = self.static(operand)
                return MISSING if value is MISSING else -value
            case ast.Tuple(parts):
                values = [self.static(each) for each in parts]
                return MISSING if MISSING in values else tuple(values)
            case _:
                return MISSING

    def refuse(self, node: ast.AST, reason: str) -> NoReturn:
        """Say where a kernel cannot be translated.

        Raises:
            KernelSyntaxError: always.
        """
        line = getattr(node, "lineno", self.tree.lineno)
        raise KernelSyntaxError(f"{self.path}:{line}: {ast.unparse(node)[:80]!r} in a kernel: {reason}")
