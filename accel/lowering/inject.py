"""Inject: replace every nest under a pragma by calls of an instruction that answers to it.

A nest is brought to its normal form (``nest.py``) and matched against the expressions of the instructions that answer
to the pragma, in the order of the document (``choose.py``); affine analysis fills in the fields. One file a kind of
instruction: ``inject_copy`` and ``inject_compute``.
"""

from typing import Any

from tvm import ir, tirx
from tvm_ffi import structural_mutate

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.accelerator.meanings import Meaning, meanings
from accel.errors import CompileError
from accel.lowering.attributes import Region, map_regions
from accel.lowering.inject_compute import inject_compute
from accel.lowering.inject_copy import inject_copy
from accel.lowering.nest import Nest, peel
from accel.lowering.walk import pragma_nests, with_sites


def inject(module: ir.IRModule, accelerator: Accelerator) -> ir.IRModule:
    """Consume the pragmas of every region, and number the sites of the calls that it has then.

    Raises:
        CompileError: a nest that no instruction can do; the message says what is in the way.
    """
    known = meanings(accelerator)

    def injected(function: tirx.PrimFunc, _region: Region) -> tirx.PrimFunc:
        nests = pragma_nests(function.body, accelerator.pragmas)
        # made before the tree is rebuilt: an error that crosses TVM's callbacks would lose its type
        calls = iter([_call(nest.attr_key, peel(nest.body), known, accelerator) for nest in nests])

        def attribute(statement: tirx.AttrStmt, mutator: Any) -> tirx.Stmt:
            taken = statement.attr_key in accelerator.pragmas
            return next(calls) if taken else mutator.default_mutate(statement)

        return function.with_body(with_sites(structural_mutate(function.body, (tirx.AttrStmt, attribute))))

    return map_regions(module, injected)


def _call(pragma: str, nest: Nest, known: tuple[Meaning, ...], accelerator: Accelerator) -> tirx.Stmt:
    """The calls for one nest, by the copies that answer to its pragma, or by the others."""
    answering = [meaning for meaning in known if meaning.instruction.pragma == pragma]
    copies = [meaning for meaning in answering if isinstance(meaning.instruction, Copy)]
    computes = [meaning for meaning in answering if not isinstance(meaning.instruction, Copy)]
    if not copies:
        return inject_compute(nest, computes, accelerator)
    try:
        return inject_copy(nest, copies, accelerator)
    except CompileError as error:
        if not computes:
            raise
        try:
            return inject_compute(nest, computes, accelerator)
        except CompileError as other:
            raise CompileError(f"{error.detail}; {other.detail}", field=error.field) from other
