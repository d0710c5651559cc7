"""Inject: replace every nest under a pragma by calls of the instruction that the pragma names.

One file a kind of instruction: ``inject_copy``, ``inject_contract``, ``inject_map``. Each brings the nest to its
normal form (``nest.py``), matches it against what the accelerator document says the instruction does, and
fills in the fields by affine analysis.
"""

from collections.abc import Callable
from typing import Any

from tvm import ir, tirx
from tvm_ffi import structural_mutate

from accel.accelerator.document import Accelerator
from accel.lowering.attributes import Region, map_regions
from accel.lowering.inject_contract import inject_contract
from accel.lowering.inject_copy import inject_copy
from accel.lowering.inject_map import inject_map
from accel.lowering.nest import peel
from accel.lowering.walk import pragma_nests

Injector = Callable[[Any, Accelerator], tirx.Stmt]


def inject(module: ir.IRModule, accelerator: Accelerator) -> ir.IRModule:
    """Consume the pragmas of every region.

    Raises:
        CompileError: a nest that its instruction cannot do; the message says what is in the way.
    """
    injectors: dict[str, Injector] = {
        accelerator.contraction.pragma: inject_contract,
        accelerator.map.pragma: inject_map,
    }
    for pragma in accelerator.pragmas:
        injectors.setdefault(pragma, inject_copy)

    def injected(function: tirx.PrimFunc, _region: Region) -> tirx.PrimFunc:
        nests = pragma_nests(function.body, set(injectors))
        # made before the tree is rebuilt: an error that crosses TVM's callbacks would lose its type
        calls = iter([injectors[nest.attr_key](peel(nest.body), accelerator) for nest in nests])

        def attribute(statement: tirx.AttrStmt, mutator: Any) -> tirx.Stmt:
            return next(calls) if statement.attr_key in injectors else mutator.default_mutate(statement)

        return function.with_body(structural_mutate(function.body, (tirx.AttrStmt, attribute)))

    return map_regions(module, injected)
