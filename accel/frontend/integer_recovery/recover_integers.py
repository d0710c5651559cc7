"""The pass that recovers integer arithmetic: dequantize -> float operator -> quantize becomes a composite.

``accel/frontend/integer_recovery/composite_functions.py`` states the normal form. Convolutions and dense layers
requantise inside the composite where the accelerator can: one that shifts, if the scales are powers of two; one that
multiplies integers too, whatever they are; one that multiplies by a float32, if each tensor has one scale. Else the
composite returns its int32 accumulator, and the host requantises. Everything else stays as Relax operators in
``main``, which the host must be able to compile.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import onnx
import tvm
from tvm import relax
from tvm.ir import IRModule

from accel.errors import UnsupportedOperator
from accel.frontend.integer_recovery.composite_functions import is_table
from accel.frontend.integer_recovery.dataflow_block import ClipsApart, Dataflow, DataflowRewrite
from accel.frontend.integer_recovery.integer_movement import with_integer_movement
from accel.frontend.integer_recovery.operators.addition_recovery import recover_addition
from accel.frontend.integer_recovery.operators.average_pool_recovery import is_mean_of_rows, recover_average_pool
from accel.frontend.integer_recovery.operators.concat_recovery import recover_concat
from accel.frontend.integer_recovery.operators.contraction_recovery import recover_contraction
from accel.frontend.integer_recovery.operators.elementwise_recovery import recover_elementwise
from accel.frontend.integer_recovery.operators.gelu_recovery import recover_gelu, recover_gelu_of_layer
from accel.frontend.integer_recovery.operators.layer_norm_recovery import LayerNormObstacle, recover_layer_norm
from accel.frontend.integer_recovery.operators.matmul_recovery import recover_matmul
from accel.frontend.integer_recovery.operators.max_pool_recovery import recover_max_pool
from accel.frontend.integer_recovery.operators.movement_recovery import recover_movement
from accel.frontend.integer_recovery.operators.product_recovery import recover_product
from accel.frontend.integer_recovery.operators.softmax_recovery import SoftmaxObstacle, recover_softmax
from accel.frontend.integer_recovery.operators.table_recovery import Tables
from accel.frontend.integer_recovery.quantised_activations import Activation, quantised_activations
from accel.frontend.integer_recovery.requantization import Requantize
from accel.frontend.integer_recovery.rounding_bias import LeftBias, Rounded
from accel.frontend.integer_recovery.signed_activations import with_signed_activations
from accel.frontend.legalize.vector_units.channel_windows import with_channel_windows
from accel.frontend.legalize.vector_units.float_maxima import with_float_maxima
from accel.frontend.legalize.vector_units.interpolations import with_interpolations
from accel.frontend.legalize.vector_units.long_rows import with_split_rows
from accel.frontend.legalize.vector_units.mask_bounds import with_mask_bounds
from accel.frontend.legalize.vector_units.mirrored_padding import with_mirrored_padding
from accel.frontend.relax_import.relax_importer import ImportedGraph, ImportedNode, import_onnx, is_static_shape
from accel.host.node_support import fault_of
from accel.host.onnx_calls import read_onnx_call
from accel.host.relax_rules import RULES


def check_runnable(module: IRModule, origin: Mapping[str, ImportedNode]) -> None:
    """Refuses operators of ``main`` that the host cannot run; ``origin`` has the node of each variable.

    Raises:
        UnsupportedOperator: a node is neither ONNX's own nor made of what is; ``field`` is ``node:<name>``.
    """
    runnable: set[str] = set()
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            call = binding.value
            if not isinstance(call, tvm.ir.Call) or isinstance(call.op, tvm.ir.GlobalVar) or _depends(binding.var.ty):
                continue
            node = read_onnx_call(call)
            if node is None:
                fault = "" if str(call.op.name) in RULES else "the host has no implementation of it"
            else:
                fault = fault_of(node, binding.var.ty, runnable)
            if fault:
                source = origin.get(binding.var.name)
                name, op = (source.name, source.op) if source else (binding.var.name, call.op.name)
                raise UnsupportedOperator(f"{op}: {fault}", field=f"node:{name}")


def _depends(ty: relax.Type) -> bool:
    """Whether the shape of a tensor depends on the data, which is told where it should lie in DRAM."""
    return isinstance(ty, relax.TensorType) and not is_static_shape(ty.shape)


HOST_NODES = "cyclops.host_nodes"
HOST_COMPOSITES = ("product", "requantize")
_RECOVERIES = (
    recover_contraction,
    recover_matmul,
    recover_addition,
    recover_average_pool,
    recover_elementwise,
    recover_concat,
    recover_max_pool,
    recover_movement,
)


@dataclass(frozen=True)
class StoredFunctions:
    """The functions of accumulators that an accelerator's stores compute, in integers.

    Attributes:
        gelu: whether they compute I-BERT's GELU.
        softmax: why they do not compute its softmax of rows and columns; None if they never do.
        layer_norm: why they do not compute layer norm of rows and columns; None if they never do.
    """

    gelu: bool = False
    softmax: SoftmaxObstacle | None = None
    layer_norm: LayerNormObstacle | None = None


NO_FUNCTIONS = StoredFunctions()


@dataclass(frozen=True)
class ImportedModel:
    """A model in integer arithmetic, ready to partition.

    ``module`` has ``main`` (one dataflow block) and the composites. ``host_nodes`` gives, for each variable
    of ``main`` that is not bound to an accelerable composite, the ONNX node it came from; the names of the user's nodes
    are also the attribute :data:`HOST_NODES` of ``main``, JSON. ``operators`` gives the operator of each node by its
    name, ``macs`` the multiply-accumulates of each composite that has any, also its attribute ``macs``. ``causes``
    gives, for some variables that the host prepares data or finishes results in, the reason, and ``refusals`` why some
    nodes, by name, are none of the integers that the accelerator has for such functions. ``model`` has the nodes
    of the model in QDQ form, as it was read, that are left to the host, and ``tensors`` gives the names of its tensor
    for each variable of ``main`` that is one; ``inner`` gives those within a table, by the tensor that it makes.
    ``biases`` has the mean error of each node's rounding that is not near zero. ``activations`` are those of that model
    that are quantised.
    """

    module: IRModule
    host_nodes: dict[str, ImportedNode]
    operators: dict[str, str]
    macs: dict[str, int]
    causes: dict[str, str] = field(default_factory=dict)
    model: onnx.ModelProto = field(default_factory=onnx.ModelProto)
    tensors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    inner: dict[str, tuple[str, ...]] = field(default_factory=dict)
    biases: dict[str, LeftBias] = field(default_factory=dict)
    activations: tuple[Activation, ...] = ()
    refusals: dict[str, str] = field(default_factory=dict)


def import_integer_model(
    qdq: onnx.ModelProto,
    requantize: Requantize = "shift",
    *,
    balances: Collection[Rounded] = (),
    float_room: int = 0,
    float_products: bool = False,
    stores: StoredFunctions = NO_FUNCTIONS,
    clips_apart: ClipsApart | None = None,
) -> ImportedModel:
    """Imports a model in QDQ form (or float: then all of it is for the host).

    Args:
        qdq: the model.
        requantize: how the accelerator brings accumulators to int8: by a "shift", rounding half up; by that or, where
            the scales want it, by integers that "multiply" before; or by a float32 "scale", rounding half to even.
        balances: the operators whose rounding, where it would be biased, is half up in every other channel and half
            down in the rest; those to which the accelerator can add a number a channel.
        float_room: the floats that the accelerator has on the chip to compute with, none if it does not: functions of
            integers stay as they are then, and become no tables and no integer products of the host's.
        float_products: whether products of two activations stay as they are, too.
        stores: the functions that stores compute.
        clips_apart: whether the results of a composite are clipped in one of their own; None if they never are.

    Raises:
        UnsupportedOperator: neither the accelerator nor the host can run a node; ``field`` is ``node:<name>``.
    """
    signed = with_signed_activations(qdq)
    moved = with_integer_movement(with_interpolations(signed) if float_room else signed)
    if float_room:
        for said_otherwise in (with_mirrored_padding, with_mask_bounds, with_channel_windows, with_float_maxima):
            moved = said_otherwise(moved)
        moved = with_split_rows(moved, float_room)
    imported = import_onnx(moved)
    recovered = recover_integers(
        imported,
        requantize,
        balances=balances,
        keeps_floats=float_room > 0,
        float_products=float_products,
        stores=stores,
        clips_apart=clips_apart,
    )
    return replace(recovered, activations=quantised_activations(signed))


def recover_integers(
    imported: ImportedGraph,
    requantize: Requantize = "shift",
    *,
    balances: Collection[Rounded] = (),
    keeps_floats: bool = False,
    float_products: bool = False,
    stores: StoredFunctions = NO_FUNCTIONS,
    clips_apart: ClipsApart | None = None,
) -> ImportedModel:
    """Replaces the float arithmetic between dequantize and quantize by composites (see above for the arguments)."""
    graph = Dataflow(imported.module["main"])
    rewrite = DataflowRewrite(graph, imported.origin, balances=balances, clips_apart=clips_apart)
    tables, gelus = Tables(imported), stores.gelu and not keeps_floats
    recoveries: list[Callable[[DataflowRewrite, relax.Binding, Requantize], bool]] = [
        partial(each, on_host=False) if keeps_floats and each in (recover_addition, recover_elementwise) else each
        for each in _RECOVERIES
        if each is not recover_matmul or not float_products
    ]
    for binding in rewrite.graph.bindings:
        if binding.var.name in rewrite.replaced:
            continue
        recovered = gelus and recover_gelu_of_layer(rewrite, binding, tables)
        if stores.softmax is not None and not keeps_floats:
            recovered = recovered or recover_softmax(rewrite, binding, stores.softmax)
        if stores.layer_norm is not None and not keeps_floats:
            recovered = recovered or recover_layer_norm(rewrite, binding, stores.layer_norm)
        if not keeps_floats or not is_mean_of_rows(rewrite.graph, binding):
            recovered = recovered or any(recover(rewrite, binding, requantize) for recover in recoveries)
        if not recovered and not keeps_floats:
            recovered = recover_product(rewrite, binding, tables)
            recovered = recovered or (gelus and recover_gelu(rewrite, binding, tables))
            recovered = recovered or tables.recover(rewrite, binding)
        if not recovered:
            rewrite.keep(binding)
    rewrite.restore(imported.calls, imported.opset)
    module = rewrite.module(imported.module)
    tensors = _tensors(imported, module)
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
    return ImportedModel(
        _annotated(module, host, rewrite.macs),
        host,
        imported.operators,
        rewrite.macs,
        rewrite.causes,
        _nodes_of_host(imported.model, kept, tensors, module),
        tensors,
        tables.inner,
        rewrite.rounding.biases,
        refusals=rewrite.refusals,
    )


def _nodes_of_host(
    model: onnx.ModelProto,
    bindings: Sequence[relax.Binding],
    tensors: Mapping[str, tuple[str, ...]],
    module: IRModule,
) -> onnx.ModelProto:
    """The model without the nodes and constants that are integer arithmetic now, most of its weights among them."""
    bound = {name: binding.value for binding in bindings for name in tensors.get(str(binding.var.name), ())}
    makers = {name: node for node in model.graph.node for name in node.output}
    calls = [name for name, value in bound.items() if is_of_model(module, value)]
    wanted, needed, pending = set[str](), set[str](), [name for name in calls if name in makers]
    while pending:
        node = makers[pending.pop()]
        if wanted.isdisjoint(node.output):
            wanted.update(node.output)
            needed.update(node.input)
            pending += [name for name in node.input if name in makers and name not in bound]
    found = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    found.graph.node.extend(node for node in model.graph.node if not wanted.isdisjoint(node.output))
    found.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in needed)
    return found


def is_of_model(module: IRModule, value: relax.Expr) -> bool:
    """Returns whether a value of ``main`` is nodes of the model: one, one of several results, or a table of some."""
    if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar):
        return is_table(module[value.op])
    return isinstance(value, relax.TupleGetItem) or read_onnx_call(value) is not None


def _tensors(imported: ImportedGraph, module: IRModule) -> dict[str, tuple[str, ...]]:
    """The names of tensors by variable of ``module``, where a variable may be another's name: one of them goes."""
    found = dict(imported.tensors)
    same = [binding for binding in module["main"].body.blocks[0].bindings if isinstance(binding.value, relax.Var)]
    for binding in (*same, *reversed(same)):
        one, other = str(binding.var.name), str(binding.value.name)
        names = tuple(dict.fromkeys((*found.get(one, ()), *found.get(other, ()))))
        found |= {one: names, other: names}
    return found


def _annotated(module: IRModule, host: dict[str, ImportedNode], macs: dict[str, int]) -> IRModule:
    """The module with what later stages want to know of the model as attributes."""
    for variable, function in list(module.functions.items()):
        if variable.name_hint == "main":
            names = {variable: node.of_the_user for variable, node in host.items()}
            module.update_func(variable, function.with_attr(HOST_NODES, json.dumps(names)))
        elif variable.name_hint in macs:
            module.update_func(variable, function.with_attr("macs", macs[variable.name_hint]))
    return module


def _on_host(module: IRModule, value: relax.Expr) -> bool:
    """Not a call of a composite that an accelerator may run."""
    if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar):
        return bool(module[value.op].attrs.get("op") in HOST_COMPOSITES)
    return True
