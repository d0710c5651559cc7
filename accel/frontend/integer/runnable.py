"""Whether the host can compile what is left to it."""

from collections.abc import Mapping

import tvm
from tvm import relax
from tvm.ir import IRModule

from accel.errors import UnsupportedOperator
from accel.frontend.importing.importer import Node


def check_runnable(module: IRModule, origin: Mapping[str, Node]) -> None:
    """Every operator of ``main`` lowers to a function; ``origin`` gives the node of each variable.

    Raises:
        UnsupportedOperator: one that TVM imports but has no implementation of; ``field`` is ``node:<name>``.
    """
    main = module.get_global_var("main")  # alone: what it calls is not asked about
    for block in relax.transform.LegalizeOps()(IRModule({main: module[main]}))["main"].body.blocks:
        for binding in block.bindings:
            call = binding.value
            if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, tvm.ir.Op):
                continue
            if call.op.has_attr("FLegalize") and not call.op.name.startswith("relax.call_"):
                node = origin.get(binding.var.name)
                name, op = (node.name, node.op) if node else (binding.var.name, call.op.name)
                raise UnsupportedOperator(f"{op}: TVM has no implementation of it for the host", field=f"node:{name}")
