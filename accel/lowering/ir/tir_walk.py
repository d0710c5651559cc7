"""Queries and rewrites of TIR that several passes share: loads, pragmas, calls, scopes, buffers."""

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from accel.lowering.ir import instruction_calls


def collect(node: Any, kind: type) -> list[Any]:
    """Every node of type ``kind`` in ``node``, in program order."""
    found: list[Any] = []

    def visit(value: Any) -> None:
        found.append(value)

    tvm_ffi.structural_walk(node, (kind, visit), order="pre")
    return found


def loads_of(node: Any) -> list[TensorLoad]:
    """Every buffer read in ``node``, in program order."""
    return collect(node, TensorLoad)


def pragma_nests(node: Any, keys: set[str]) -> list[tirx.AttrStmt]:
    """Every ``AttrStmt`` whose key is one of ``keys``, in program order."""
    return [statement for statement in collect(node, tirx.AttrStmt) if statement.attr_key in keys]


def rewrite_calls(body: Any, rewrite: Callable[[int, tirx.Evaluate], tirx.Stmt]) -> Any:
    """Replace every call, given with its number in program order, by ``rewrite`` of it, which keeps the call's site.

    All are made before the tree is rebuilt: an error that crosses TVM's callbacks would lose its type.
    """
    made = iter([_at_site_of(call, rewrite(number, call)) for number, call in enumerate(collect(body, tirx.Evaluate))])

    def evaluate(_call: tirx.Evaluate, _mutator: Any) -> tirx.Stmt:
        return next(made)

    return tvm_ffi.structural_mutate(body, (tirx.Evaluate, evaluate))


def _at_site_of(call: tirx.Evaluate, made: tirx.Stmt) -> tirx.Stmt:
    site = instruction_calls.site_of(call)
    return made if site is None or not instruction_calls.is_call(made) else instruction_calls.with_site(made, site)


def with_sites(body: Any) -> Any:
    """Number the sites of the calls of ``body`` in program order, from 0."""
    return rewrite_calls(body, lambda number, call: instruction_calls.with_site(call, number))


def next_site(body: Any) -> int:
    """The first site that no call of ``body`` is at."""
    sites = [instruction_calls.site_of(call) for call in collect(body, tirx.Evaluate)]
    return 1 + max((site for site in sites if site is not None), default=-1)


def scope_of(buffer: Any) -> str:
    """The storage scope of a buffer; ``global`` is DRAM."""
    return str(buffer.scope())


def rename_buffers(node: Any, names: dict[Any, Any]) -> Any:
    """Replace buffers, and drop the allocations of those replaced."""

    def sequence(statement: tirx.SeqStmt, mutator: Any) -> Any:
        kept = [
            mutator.mutate(child)
            for child in statement.seq
            if not (isinstance(child, tirx.AllocBuffer) and child.buffer in names)
        ]
        return tirx.SeqStmt(kept)

    def variable(value: Any, _mutator: Any) -> Any:
        return names.get(value, value)

    return tvm_ffi.structural_mutate(node, [(tirx.SeqStmt, sequence), (tirx.Var, variable)])
