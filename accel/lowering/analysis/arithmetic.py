"""The arithmetic of operators of the graph, counted by the rules that the host's operators have, whoever runs them."""

import math
from collections.abc import Sequence

from tvm import ir, relax

from accel.errors import CompileError, InvalidProgram
from accel.host.host_graph_reader import check_graph
from accel.host.operator_work import graph_work, operations
from accel.host.relax_rules import RULES
from accel.host.relax_translation import UntranslatableError, translate
from accel.lowering.analysis.composite import is_composite_call, read_composite
from accel.lowering.ir.host_runs import HostRun, host_module
from accel.region.composite_attributes import COMPOSITE


def operations_of(module: ir.IRModule, bindings: Sequence[relax.VarBinding]) -> int:
    """Returns the operations of bindings of ``main``: of composites their own, of others those of the host's nodes.

    Where ONNX has no equal of an operator, each takes one an element of its result.
    """
    composites = [binding for binding in bindings if _is_composite(module, binding)]
    total = sum(read_composite(module[binding.value.op]).operations for binding in composites)
    others = [binding for binding in bindings if binding not in composites]
    results = [binding.var for binding in others if isinstance(binding.var.ty, relax.TensorType)]
    if not results:
        return total
    try:
        step, _ = host_module(module, HostRun(others), results)
        return total + operations(graph_work(check_graph(translate(step, RULES))))
    except (CompileError, InvalidProgram, UntranslatableError):
        return total + sum(math.prod(int(extent) for extent in var.ty.shape.values) for var in results)


def _is_composite(module: ir.IRModule, binding: relax.VarBinding) -> bool:
    return is_composite_call(module, binding.value) and COMPOSITE in module[binding.value.op].attrs
