"""Recovery of functions of one integer tensor: whatever lies between dequantize and quantize is a table of 256 entries.

SiLU, GELU and their like are exported as one node or as several, and quantisers differ in which of them they quantise.
No such form is known here: any nodes that work element by element on one 8-bit tensor and on constants of one element
are one function of its integers. The table has what onnxruntime makes of each of them with those same nodes; the
reference does not read it, and runs the nodes on the tensor itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import tvm
from onnx import helper
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor, shape_of
from accel.frontend.onnx_model.external_data import embedded
from accel.frontend.onnx_model.onnx_nodes import constants_of
from accel.frontend.relax_import.relax_importer import ImportedGraph, ImportedNode
from accel.host.host_executor import open_session
from accel.util.arrays import Array

_NAMES = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu "
    "Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min "
    "Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh "
    "Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor"
)
_FUNCTIONS = frozenset(_NAMES.split())
_MOST_NODES = 64
_ALONE = 3  # elements that fill no vector of any processor
_BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class _Function:
    """The nodes of a function by their results, and the integer tensors and the constants that they read."""

    nodes: frozenset[str]
    sources: frozenset[str]
    constants: frozenset[str]


@dataclass(frozen=True)
class TableFunction:
    """A function of one integer tensor, as data.

    ``result`` is the name of its tensor and ``end`` its variable, ``within`` are the tensors on the way, ``nodes`` the
    model's nodes and ``origin`` the first of these. ``entries`` [256] are its results from the least integer of
    ``source`` on. ``data`` is what these integers stand for, ``output`` what the results do; None where that is not one
    scale.
    """

    result: str
    end: relax.Var
    within: tuple[str, ...]
    nodes: tuple[str, ...]
    origin: ImportedNode
    source: relax.Var
    entries: Array
    data: QuantisedTensor | None
    output: QuantisedTensor | None


class Tables:
    """The functions of one integer tensor in a model.

    ``inner`` gives the tensors within each that became a table, by the name of its result; ``reasons`` why one became
    no integers of an accelerator that has some for such functions, by the variable of its result.
    """

    def __init__(self, imported: ImportedGraph) -> None:
        self.inner: dict[str, tuple[str, ...]] = {}
        self.reasons: dict[str, str] = {}
        self._known: dict[str, TableFunction | None] = {}
        self._readers: dict[str, list[TableFunction]] | None = None
        self._imported = imported
        self._calls = {str(call.node.output[0]): call for call in imported.calls if len(call.node.output) == 1}
        self._by_variable = {
            str(call.results[0].name): call for call in self._calls.values() if call.results[0] is not None
        }
        self._constants: Mapping[str, onnx.TensorProto] = constants_of(imported.model.graph)
        self._places = {name: at for at, node in enumerate(imported.model.graph.node) for name in node.output}

    def recover(self, rewrite: DataflowRewrite, binding: relax.Binding) -> bool:
        """Replaces the quantize at the end of a function by its table; returns False for any other binding."""
        found = self.function(rewrite, binding)
        if found is None:
            return False
        shape, dtype = shape_of(found.source), str(found.source.ty.dtype.dtype)
        function = composite_functions.table(found.nodes, shape, dtype, found.entries)
        if (reason := self.reasons.get(str(binding.var.name))) is not None:
            function = function.with_attr("cause", reason)
        rewrite.bind(binding.var, tvm.ir.Call(rewrite.composite(function, found.origin), [found.source]))
        self.inner[found.result] = found.within
        return True

    def function(self, rewrite: DataflowRewrite, binding: relax.Binding) -> TableFunction | None:
        """Returns the function that ends in a quantize, found once; None for any other binding."""
        name = str(binding.var.name)
        if name not in self._known:
            self._known[name] = self._function_of(rewrite, binding)
        return self._known[name]

    def _function_of(self, rewrite: DataflowRewrite, binding: relax.Binding) -> TableFunction | None:
        ended = self._ended(binding.var)
        if ended is None:
            return None
        result, found, source = ended
        table = self._table(found, result, str(source.ty.dtype.dtype), len(shape_of(source)))
        # one that another recovery has made another name of its data is no node's any more
        if table is None or binding.var.name not in rewrite.origin:
            return None
        variables = [self._calls[name].results[0] for name in self._ordered(found)]
        nodes = rewrite.nodes([var for var in variables if var is not None])
        origin = rewrite.origin[binding.var.name]
        first = rewrite.origin.get(str(_first(variables).name), origin)
        read = (self._calls[name] for name in self._ordered(found))
        ends = [
            call.results[0]
            for call in read
            if call.node.op_type == "DequantizeLinear" and call.node.input[0] in found.sources
        ]
        data = rewrite.graph.dequantised(ends[0]) if ends[0] is not None else None
        quantize = rewrite.graph.call(binding.var, "relax.quantize")
        output = rewrite.graph.parameters(quantize, binding.var) if quantize is not None else None
        known = tuple(each if each is not None and each.per_tensor else None for each in (data, output))
        return TableFunction(
            result, binding.var, tuple(found.nodes), tuple(nodes or [origin.name]), first, source, table, *known
        )

    def reader(self, rewrite: DataflowRewrite, source: relax.Var) -> TableFunction | None:
        """Returns a function of the integers that a variable has; None if there is none, or there are several."""
        if self._readers is None:
            found = [self.function(rewrite, binding) for binding in rewrite.graph.bindings]
            self._readers = {}
            for each in filter(None, found):
                self._readers.setdefault(str(each.source.name), []).append(each)
        readers = self._readers.get(str(source.name), [])
        return readers[0] if len(readers) == 1 else None

    def ends_in(self, quantised: relax.Var) -> bool:
        """Returns whether a function of one integer tensor ends in ``quantised``: a table is its better form."""
        return self._ended(quantised) is not None

    def _ended(self, quantised: relax.Var) -> tuple[str, _Function, relax.Var] | None:
        """The tensor's name, the function that ends in it, and the integers that the function reads, of one shape."""
        call = self._by_variable.get(str(quantised.name))
        if call is None or call.node.op_type != "QuantizeLinear" or str(quantised.ty.dtype.dtype) not in _BYTES:
            return None
        result = str(call.node.output[0])
        found = self._function(result)
        source = self._variable(found) if found is not None else None
        if found is None or source is None or str(source.ty.dtype.dtype) not in _BYTES:
            return None
        return (result, found, source) if shape_of(source) == shape_of(quantised) else None

    def _function(self, result: str) -> _Function | None:
        """The function that ends in ``result``, of as few nodes as have one tensor in common."""
        found = self._back_from(result)
        while found is not None and len(found.sources) > 1:
            # a part of it was quantised apart, as Sigmoid in x * Sigmoid(x)
            parts = ((name, self._back_from(name)) for name in sorted(found.sources))
            joined = next(
                (
                    _Function(found.nodes | part.nodes, found.sources - {name}, found.constants | part.constants)
                    for name, part in parts
                    if part is not None and part.sources and part.sources <= found.sources - {name}
                ),
                None,
            )
            if joined is None:
                return None
            found = joined
        return found if found is not None and found.sources and len(found.nodes) <= _MOST_NODES else None

    def _back_from(self, result: str) -> _Function | None:
        """What lies between ``result``, which is quantised, and the integers that are dequantised for it."""
        if result not in self._calls or self._calls[result].node.op_type != "QuantizeLinear":
            return None
        nodes: set[str] = set()
        sources: set[str] = set()
        constants: set[str] = set()
        pending = [result]
        while pending:
            name = pending.pop()
            if not name or name in nodes or name in constants:
                continue
            call = self._calls.get(name)
            if name in self._constants:
                if np.prod(self._constants[name].dims, dtype=np.int64) != 1:
                    return None
                constants.add(name)
            elif call is not None and call.node.op_type == "DequantizeLinear":
                nodes.add(name)
                first, *parameters = call.node.input
                pending += parameters
                if first in self._constants:
                    pending.append(first)
                else:
                    sources.add(str(first))
            elif call is None or call.node.op_type not in _FUNCTIONS or len(nodes) >= _MOST_NODES:
                return None
            else:
                nodes.add(name)
                pending += call.node.input
        return _Function(frozenset(nodes), frozenset(sources), frozenset(constants))

    def _variable(self, found: _Function) -> relax.Var | None:
        """The variable of the tensor that a function reads."""
        for name in found.nodes:
            call = self._calls[name]
            if call.node.op_type == "DequantizeLinear" and call.node.input[0] in found.sources:
                operand = call.operands[0]
                return operand if isinstance(operand, relax.Var) else None
        return None

    def _ordered(self, found: _Function) -> list[str]:
        return sorted(found.nodes, key=self._places.__getitem__)

    def _table(self, found: _Function, result: str, dtype: str, rank: int) -> Array | None:
        """The result for each integer from the least on.

        None if onnxruntime fails, or has another result for an element among many than for one at a tensor's end,
        which fills no vector: then no table is what it would make of a tensor.
        """
        model = self._imported.model
        (source,) = found.sources
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        graph = helper.make_graph(
            [model.graph.node[self._places[name]] for name in self._ordered(found)],
            "table",
            [helper.make_tensor_value_info(source, kind, ["n", *(1 for _ in range(rank - 1))])],
            [onnx.ValueInfoProto(name=result)],
            [embedded(_named(self._constants[name], name)) for name in sorted(found.constants)],
        )
        made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        limits = np.iinfo(dtype)
        integers = np.arange(limits.min, limits.max + 1).astype(dtype).reshape(-1, *(1 for _ in range(rank - 1)))
        try:
            session = open_session(made.SerializeToString())
            (together,) = session.run([result], {source: integers})
            few = (integers[at : at + _ALONE] for at in range(0, len(integers), _ALONE))
            alone = [session.run([result], {source: values})[0] for values in few]
        except Exception:  # noqa: BLE001 - onnxruntime's exceptions have no common base; the nodes stay as they are
            return None
        table: Array = together.reshape(-1)
        return table if np.array_equal(table, np.concatenate(alone).reshape(-1)) else None


def _named(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    """A constant under the name that nodes read it by, which the value of a Constant node has not."""
    named = onnx.TensorProto()
    named.CopyFrom(tensor)
    named.name = name
    return named


def _first(variables: list[relax.Var | None]) -> relax.Var:
    return next(var for var in variables[1:] or variables if var is not None)
