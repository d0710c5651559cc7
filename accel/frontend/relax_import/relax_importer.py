"""ONNX to Relax, with the name of the node that each Relax variable came from.

TVM's importer drops the names. Ours binds the result of each node to a variable, and remembers whose it is.
"""

import contextlib
import dataclasses
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax, tirx
from tvm.ir import IRModule
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter
from tvm_ffi import structural_map

from accel.errors import UnsupportedOperator
from accel.frontend.legalize.depth_folding import with_depth_folded
from accel.frontend.legalize.early_casts import cast_inputs_early
from accel.frontend.legalize.explicit_padding import join_pads, make_padding_explicit
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS, name_nodes
from accel.frontend.onnx_model.tensor_types import is_static
from accel.frontend.relax_import.operator_converters import CONVERTERS

_NUMBERED = re.compile(r"lv\d*")  # variables that nobody names
_NORMS = {"LayerNormalization"}  # no part of which is a multiply-accumulate of the model, whatever computes it


@dataclass(frozen=True)
class ImportedNode:
    """A node of the ONNX graph: its name and operator, and the names of the user's nodes that it computes.

    ``macs`` are its multiply-accumulates, where they are not those of the operator that it was made.
    """

    name: str
    op: str
    covers: tuple[str, ...]
    macs: int | None = None

    @property
    def of_the_user(self) -> str:
        """The name of the user's node that it is, or a part of."""
        return self.name if self.name in self.covers or not self.covers else self.covers[0]


@dataclass(frozen=True)
class ImportedCall:
    """A node of the ONNX graph and what it was imported as: its operands, and the variables of its results.

    An operand is None where an optional input is absent; a result is None where nothing has its name.
    """

    node: onnx.NodeProto
    operands: tuple[relax.Expr | None, ...]
    results: tuple[relax.Var | None, ...]


@dataclass(frozen=True)
class ImportedGraph:
    """A model as TVM reads it: one function ``main`` of one dataflow block, with the constants inside.

    ``origin`` gives for each variable bound in ``main``, by name, the node it came from; ``operators`` the
    operator of each node, those included that were folded into another. ``model`` is the model that was read, of
    ``opset``; ``calls`` are its nodes that make tensors, and ``tensors`` gives for a variable the names of its tensor.
    """

    module: IRModule
    origin: dict[str, ImportedNode]
    operators: dict[str, str]
    model: onnx.ModelProto = dataclasses.field(default_factory=onnx.ModelProto)
    opset: int = 0
    calls: tuple[ImportedCall, ...] = ()
    tensors: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def import_onnx(model: onnx.ModelProto) -> ImportedGraph:
    """Imports ``model``, whose shapes must be static (see ``inspect_model``).

    Raises:
        UnsupportedOperator: TVM cannot import a node; ``field`` is ``node:<name>``.
    """
    named = onnx.ModelProto()
    named.CopyFrom(model)
    name_nodes(named)
    make_padding_explicit(named)
    join_pads(named)
    cast_inputs_early(named.graph)
    named, macs = with_depth_folded(named)
    operators = {node.name: node.op_type for node in named.graph.node}
    for node in named.graph.node:
        operators |= origins_of(node)
    _drop_unused(named.graph)
    nodes = [_node(node, macs) for node in named.graph.node]
    importer = _NamedImporter({node.name: node for node in nodes})
    opset = next(entry.version for entry in named.opset_import if entry.domain in ("", "ai.onnx"))
    with contextlib.redirect_stdout(io.StringIO()):  # TVM prints every failed conversion
        try:
            module = importer.from_onnx(named.graph, opset)
        except UnsupportedOperator:
            importer.close()
            raise
        except Exception as error:  # what TVM refuses before it converts a node; its message names the node
            importer.close()
            raise importer.refusal(error) from error
    _check_shapes(module, named)
    found = ImportedGraph(
        module,
        _spread(module, importer.named),
        operators,
        named,
        opset,
        tuple(importer.calls(named.graph)),
        importer.tensors(),
    )
    return _with_parts_named(found)


def _with_parts_named(graph: ImportedGraph) -> ImportedGraph:
    """The graph with a name for each variable that TVM numbers, as it numbers those of later stages alike."""
    renamed: dict[relax.Expr, relax.Var] = {}
    for binding in graph.module["main"].body.blocks[0].bindings:
        var = binding.var
        if _NUMBERED.fullmatch(var.name):
            of = graph.origin[var.name].name if var.name in graph.origin else "constant"
            renamed[var] = type(var)(f"{identifier(of)}_part{len(renamed)}", var.ty)
    if not renamed:
        return graph
    main = structural_map(graph.module["main"], (relax.Var, lambda var: renamed.get(var, var)))
    names = {str(old.name): str(new.name) for old, new in renamed.items()}
    calls = [
        dataclasses.replace(
            call,
            operands=tuple(renamed.get(each, each) for each in call.operands),
            results=tuple(renamed.get(each, each) for each in call.results),
        )
        for call in graph.calls
    ]
    return dataclasses.replace(
        graph,
        module=IRModule(
            {**graph.module.functions, graph.module.get_global_var("main"): main}, attrs=graph.module.attrs
        ),
        origin={names.get(name, name): node for name, node in graph.origin.items()},
        calls=tuple(calls),
        tensors={names.get(name, name): tensors for name, tensors in graph.tensors.items()},
    )


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Remove the nodes that no output depends on, as those are that computed a shape."""
    wanted = {info.name for info in graph.output}
    for index in reversed(range(len(graph.node))):
        if wanted.isdisjoint(graph.node[index].output):
            del graph.node[index]
        else:
            wanted.update(graph.node[index].input)


def _node(node: onnx.NodeProto, macs: Mapping[str, int]) -> ImportedNode:
    """The node, with the operator that the user gave it."""
    covers = origins_of(node)
    counted = macs.get(node.name) if set(covers.values()) != _NORMS or node.name in covers else 0
    return ImportedNode(node.name, covers.get(node.name, node.op_type), tuple(covers), counted)


def identifier(name: str) -> str:
    """Returns ``name`` as a Relax identifier; ``main`` is the function's own."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() and plain != "main" else f"v_{plain}"


class _NamedImporter(ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, which emits a variable for each node's result; ``named`` maps variables to nodes."""

    def __init__(self, nodes: dict[str, ImportedNode]) -> None:
        super().__init__({}, {}, sanitize=False)
        self.nodes = nodes
        self.named: dict[str, ImportedNode] = {}
        self._last = ""

    def refusal(self, error: Exception) -> UnsupportedOperator:
        """Returns what TVM raises around the conversion of a node as an error of that node."""
        told = re.search(r"Node (\S+) cannot handle ShapeExpr", str(error))
        node = self.nodes.get(told[1] if told else self._last)
        if node is None:
            return UnsupportedOperator(str(error), field="model")
        name = next(iter(node.covers), node.name)
        reason = "it is given a shape as a tensor, which it cannot be in TVM's importer" if told else str(error)
        return UnsupportedOperator(
            f"{node.op}: this compiler cannot read it: {reason}; export it as other operators", field=f"node:{name}"
        )

    def close(self) -> None:
        """End the blocks that a failed import has begun: TVM warns of them on the standard error."""
        with contextlib.suppress(Exception):  # there are no more
            for _ in range(2):  # of the function, and of its dataflow
                self.bb._end_block()  # noqa: SLF001 - there is no other way

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Left to the conversion of the node, which knows its name."""

    def _parse_array(self, tensor_proto: onnx.TensorProto) -> tvm.runtime.Tensor:
        """A constant, which may be apart."""
        return tvm.runtime.tensor(array_of(tensor_proto).reshape(tuple(tensor_proto.dims)))

    def _convert_operator(
        self, op_name: str, inputs: list[relax.Expr], attrs: dict[str, Any], opset: int
    ) -> relax.Expr:
        node = self.nodes[attrs["tvm_custom"]["name"]]
        self._last = node.name
        try:
            result = self._convert(op_name, inputs, attrs, opset)
        except NotImplementedError as error:
            raise UnsupportedOperator(
                f"{op_name}: this compiler cannot read it: TVM's importer has no conversion of it ({error}); export it "
                "as the simpler operators that it consists of",
                field=f"node:{node.name}",
            ) from error
        except Exception as error:  # whatever TVM raises, this node is the one it cannot import
            raise UnsupportedOperator(f"{op_name}: {error}", field=f"node:{node.name}") from error
        if isinstance(result, relax.Tuple):
            self.named.update((field.name, node) for field in result.fields if isinstance(field, relax.Var))
        if isinstance(result, relax.Var) and not any(result.same_as(known) for known in inputs):
            self.named.setdefault(result.name, node)
        if not isinstance(result, tvm.ir.Call):
            return result
        var = self.bb.emit(result, name_hint=identifier(node.name))
        self.named[var.name] = node
        return var

    def _convert(self, op_name: str, inputs: list[relax.Expr], attrs: dict[str, Any], opset: int) -> relax.Expr:
        """By a converter of our own if there is one and it can, else by TVM's."""
        if op_name in CONVERTERS:
            result = CONVERTERS[op_name](self.bb, inputs, attrs)
            if result is not None:
                return self.bb.normalize(result)
        return super()._convert_operator(op_name, inputs, attrs, opset)

    def calls(self, graph: onnx.GraphProto) -> Iterator[ImportedCall]:
        """Yields the nodes of ONNX's own operators that make variables of static shape."""
        for node in graph.node:
            results = [self._nodes.get(name) if name else None for name in node.output]
            there = [isinstance(result, relax.Var) and _is_tensor(result) for result in results]
            if node.domain not in ONNX_DOMAINS or not any(there) or not all(there[: len(node.output)]):
                continue
            operands = [_operand(self._nodes[name]) if name else None for name in node.input]
            if all(operand is not None or not name for operand, name in zip(operands, node.input, strict=True)):
                yield ImportedCall(node, tuple(operands), tuple(results))

    def tensors(self) -> dict[str, tuple[str, ...]]:
        """Returns the names of the model's tensors that each variable is."""
        found: dict[str, tuple[str, ...]] = {}
        for name, value in self._nodes.items():
            if isinstance(value, relax.Var):
                found[str(value.name)] = (*found.get(str(value.name), ()), name)
        return found


def _is_tensor(var: relax.Var) -> bool:
    return isinstance(var.ty, relax.TensorType) and is_static_shape(var.ty.shape)


def is_static_shape(shape: relax.Expr | None) -> bool:
    """Returns whether a shape is known, and does not depend on the data."""
    return isinstance(shape, relax.ShapeExpr) and all(isinstance(extent, tirx.IntImm) for extent in shape.values)


def _operand(value: relax.Expr) -> relax.Expr | None:
    """A tensor, or a shape as one; None for what is neither."""
    if isinstance(value, relax.ShapeExpr) and is_static_shape(value):
        return relax.const(np.array([int(extent) for extent in value.values], np.int64))
    return value if isinstance(value, tvm.ir.GenericConst) or isinstance(value.ty, relax.TensorType) else None


def _check_shapes(module: IRModule, model: onnx.ModelProto) -> None:
    """Every output has the shape that the model states."""
    result = module["main"].ret_ty
    fields = result.fields if isinstance(result, relax.TupleType) else [result]
    makers = {name: node for node in model.graph.node for name in node.output}
    for info, field in zip(model.graph.output, fields, strict=True):
        if info.name in makers and not isinstance(field, relax.TensorType):
            node = makers[info.name]
            raise UnsupportedOperator(
                f"{node.op_type}: {info.name!r} is no tensor for TVM, and cannot be an output",
                field=f"node:{node.name}",
            )
        stated = [int(size.dim_value) for size in info.type.tensor_type.shape.dim]
        found = list(field.shape.values) if isinstance(field.shape, relax.ShapeExpr) and is_static(info) else None
        if found is not None and found != stated and info.name in makers:
            node = makers[info.name]
            raise UnsupportedOperator(
                f"{node.op_type}: {info.name!r} has the shape {stated}, and TVM makes {found} of it",
                field=f"node:{node.name}",
            )


def _spread(module: IRModule, named: dict[str, ImportedNode]) -> dict[str, ImportedNode]:
    """Extend ``named`` to the unnamed helpers, which TVM binds just before the result that needs them."""
    origin: dict[str, ImportedNode] = {}
    pending: list[str] = []
    for binding in module["main"].body.blocks[0].bindings:
        name, value = binding.var.name, binding.value
        source = value.tuple_value if isinstance(value, relax.TupleGetItem) else value
        if isinstance(source, relax.Var) and source.name in origin:
            origin[name] = origin[source.name]
            continue
        pending.append(name)
        if name in named:
            origin.update(dict.fromkeys(pending, named[name]))
            pending.clear()
    return origin
