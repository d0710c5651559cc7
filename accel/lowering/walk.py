"""Small questions about TIR that several passes ask."""

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad


def loads_of(node: Any) -> list[TensorLoad]:
    """Every buffer read in ``node``, in program order."""
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(node, (TensorLoad, lambda load: found.append(load)), order="pre")
    return found


def pragma_nests(node: Any, keys: set[str]) -> list[tirx.AttrStmt]:
    """Every ``AttrStmt`` whose key is one of ``keys``, in program order."""
    found: list[tirx.AttrStmt] = []

    def collect(statement: tirx.AttrStmt) -> None:
        if statement.attr_key in keys:
            found.append(statement)

    tvm_ffi.structural_walk(node, (tirx.AttrStmt, collect), order="pre")
    return found


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

    def variable(value: Any, mutator: Any) -> Any:
        return names.get(value, value)

    return tvm_ffi.structural_mutate(node, [(tirx.SeqStmt, sequence), (tirx.Var, variable)])
