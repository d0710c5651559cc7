"""ONNX to Relax, with the name of the node that each Relax variable came from.

TVM's importer drops the names. Ours binds the result of each node to a variable, and remembers whose it is.
"""

import contextlib
import io
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from accel.errors import UnsupportedOperator
from accel.frontend.names import name_nodes
from accel.frontend.padding import make_padding_explicit

_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Node:
    """A node of the ONNX graph: its name and operator."""

    name: str
    op: str


@dataclass(frozen=True)
class ImportedGraph:
    """A model as TVM reads it: one function ``main`` of one dataflow block, with the constants inside.

    ``origin`` gives for each variable bound in ``main``, by name, the node it came from.
    """

    module: IRModule
    origin: dict[str, Node]


def import_onnx(model: onnx.ModelProto) -> ImportedGraph:
    """Import ``model``, whose shapes must be static (see ``inspect_model``).

    Raises:
        UnsupportedOperator: TVM cannot import a node; ``field`` is ``node:<name>``.
    """
    named = onnx.ModelProto()
    named.CopyFrom(model)
    name_nodes(named)
    make_padding_explicit(named)
    importer = _NamedImporter()
    opset = next(entry.version for entry in named.opset_import if entry.domain in ("", "ai.onnx"))
    with contextlib.redirect_stdout(io.StringIO()):  # TVM prints every failed conversion
        module = importer.from_onnx(named.graph, opset)
    return ImportedGraph(module, _spread(module, importer.named))


def identifier(name: str) -> str:
    """``name`` as a Relax identifier."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() else f"v_{plain}"


class _NamedImporter(ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, which emits a variable for each node's result; ``named`` maps variables to nodes."""

    def __init__(self) -> None:
        super().__init__({}, {}, sanitize=False)
        self.named: dict[str, Node] = {}

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Left to the conversion of the node, which knows its name."""

    def _convert_operator(
        self, op_name: str, inputs: list[relax.Expr], attrs: dict[str, Any], opset: int
    ) -> relax.Expr:
        node = Node(attrs["tvm_custom"]["name"], op_name)
        try:
            result = self._clip(inputs) if op_name == "Clip" else None
            if result is None:
                result = super()._convert_operator(op_name, inputs, attrs, opset)
        except Exception as error:  # whatever TVM raises, this node is the one it cannot import
            raise UnsupportedOperator(f"{op_name}: {error}", field=f"node:{node.name}") from error
        if isinstance(result, relax.Tuple):
            self.named.update((field.name, node) for field in result.fields if isinstance(field, relax.Var))
        if not isinstance(result, tvm.ir.Call):
            return result
        var = self.bb.emit(result, name_hint=identifier(node.name))
        self.named[var.name] = node
        return var

    def _clip(self, inputs: list[relax.Expr]) -> relax.Expr | None:
        """Relax's own clip if the bounds are constants; TVM's importer makes opaque TIR functions of them."""
        bounds = [-_FLOAT32_MAX, _FLOAT32_MAX]
        for index, bound in enumerate((inputs[1], inputs[2])):
            if bound is None:
                continue
            if not isinstance(bound, tvm.ir.GenericConst) or bound.ty.dtype.dtype != "float32":
                return None
            value = float(bound.value.numpy())
            if not np.isnan(value):  # as onnxruntime has it: no bound
                bounds[index] = float(np.clip(value, -_FLOAT32_MAX, _FLOAT32_MAX))
        return self.bb.normalize(relax.op.clip(inputs[0], bounds[0], bounds[1]))


def _spread(module: IRModule, named: dict[str, Node]) -> dict[str, Node]:
    """Extend ``named`` to the unnamed helpers, which TVM binds just before the result that needs them."""
    origin: dict[str, Node] = {}
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
