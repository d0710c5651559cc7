"""The pass that recovers integer arithmetic: dequantize -> float operator -> quantize becomes a composite.

``accel/frontend/integer/composites.py`` states the normal form. Convolutions and dense layers requantise inside the
composite where the accelerator can: one that shifts, if the scales are powers of two; one that multiplies integers
too, whatever they are; one that multiplies by a float32, if each tensor has one scale. Else the composite returns its
int32 accumulator, and the host requantises. Everything else stays as Relax operators in ``main``.
"""

import json
from dataclasses import dataclass, field

import onnx
import tvm
from tvm import relax
from tvm.ir import IRModule

from accel.frontend.importing.importer import ImportedGraph, Node, import_onnx
from accel.frontend.integer import additions, averages, concats, contractions, elementwise, moves, pools
from accel.frontend.integer.dataflow import Dataflow
from accel.frontend.integer.epilogues import Requantize
from accel.frontend.integer.rewrite import Rewrite
from accel.frontend.integer.runnable import check_runnable
from accel.frontend.integer.signed import with_signed_activations

HOST_NODES = "cyclops.host_nodes"
_KINDS = (contractions, additions, averages, elementwise, concats, pools, moves)


@dataclass(frozen=True)
class ImportedModel:
    """A model in integer arithmetic, ready to partition.

    ``module`` has ``main`` (one dataflow block) and the composites. ``host_nodes`` gives, for each variable
    of ``main`` that is not bound to an accelerable composite, the ONNX node it came from; its names are also
    the attribute :data:`HOST_NODES` of ``main``, JSON. ``operators`` gives the operator of each node by its
    name, ``macs`` the multiply-accumulates of each composite that has any, also its attribute ``macs``. ``causes``
    gives, for some variables that the host prepares data or finishes results in, the reason.
    """

    module: IRModule
    host_nodes: dict[str, Node]
    operators: dict[str, str]
    macs: dict[str, int]
    causes: dict[str, str] = field(default_factory=dict)


def import_integer_model(qdq: onnx.ModelProto, requantize: Requantize = "shift") -> ImportedModel:
    """Import a model in QDQ form (or float: then all of it is for the host).

    Args:
        qdq: the model.
        requantize: how the accelerator brings accumulators to int8: by a "shift", rounding half up; by that or, where
            the scales want it, by integers that "multiply" before; or by a float32 "scale", rounding half to even.

    Raises:
        UnsupportedOperator: nobody can run a node; ``field`` is ``node:<name>``.
    """
    return recover_integers(import_onnx(with_signed_activations(qdq)), requantize)


def recover_integers(imported: ImportedGraph, requantize: Requantize = "shift") -> ImportedModel:
    """Replace the float arithmetic between dequantize and quantize by composites (see above for ``requantize``)."""
    rewrite = Rewrite(Dataflow(imported.module["main"]), imported.origin)
    for binding in rewrite.graph.bindings:
        if binding.var.name in rewrite.replaced:
            continue
        if not any(kind.recover(rewrite, binding, requantize) for kind in _KINDS):
            rewrite.keep(binding)
    module = rewrite.module(imported.module)
    module = tvm.transform.Sequential(
        [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination(["main"])]
    )(module)
    check_runnable(module, rewrite.origin)
    kept = [binding for block in module["main"].body.blocks for binding in block.bindings]
    host = {
        b.var.name: rewrite.origin[b.var.name]
        for b in kept
        if b.var.name in rewrite.origin and _on_host(module, b.value)
    }
    return ImportedModel(_annotated(module, host, rewrite.macs), host, imported.operators, rewrite.macs, rewrite.causes)


def _annotated(module: IRModule, host: dict[str, Node], macs: dict[str, int]) -> IRModule:
    """The module with what later stages want to know of the model as attributes."""
    for variable, function in list(module.functions.items()):
        if variable.name_hint == "main":
            names = {variable: node.name for variable, node in host.items()}
            module.update_func(variable, function.with_attr(HOST_NODES, json.dumps(names)))
        elif variable.name_hint in macs:
            module.update_func(variable, function.with_attr("macs", macs[variable.name_hint]))
    return module


def _on_host(module: IRModule, value: relax.Expr) -> bool:
    """Not a call of a composite that an accelerator may run."""
    if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar):
        return bool(module[value.op].attrs.get("op") == "requantize")
    return True
