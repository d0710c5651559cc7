"""Translation of a host step's Relax function to a host graph: one table says what nodes an operator becomes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

from accel.host.host_graph import LEAST_OPSET, OPSET, HostGraph, HostNode
from accel.host.json_fields import Tensor
from accel.host.onnx_calls import OnnxCall, read_onnx_call
from accel.util.arrays import Array


class UntranslatableError(Exception):
    """ONNX has no operators for a Relax expression, or none that the table knows; the message says which."""


Names = str | list[str]
_SMALL = 16  # elements of a constant that is looked for among those that are there


class GraphBuilder:
    """The nodes of a host graph so far, and the names of the values of Relax."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[HostNode] = []
        self.constants: dict[str, Array] = {}
        self._small: dict[tuple[np.dtype[Any], tuple[int, ...], bytes], str] = {}
        self._values: dict[relax.Var, Names] = {}
        self._taken: set[str] = set()

    def unique(self, name: str) -> str:
        """Returns ``name``, numbered if a tensor is called so already."""
        found, count = name, 0
        while found in self._taken:
            count += 1
            found = f"{name}.{count}"
        self._taken.add(found)
        return found

    def define(self, var: relax.Var, value: Names) -> None:
        """Notes the names of what ``var`` stands for."""
        self._values[var] = value

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node of one result, and returns its name."""
        (output,) = self.node_of_several(op, inputs, 1, attributes)
        return output

    def node_of_several(
        self, op: str, inputs: Sequence[str], count: int, attributes: Mapping[str, Any] | None = None
    ) -> list[str]:
        """Adds a node of so many results, and returns their names."""
        outputs = [self.unique(f"{op.lower()}") for _ in range(count)]
        self.nodes.append(HostNode(op, tuple(inputs), tuple(outputs), dict(attributes or {})))
        return outputs

    def constant(self, array: Array, name: str = "constant") -> str:
        """Returns the name of a constant; equal small ones are one."""
        small = (array.dtype, array.shape, array.tobytes()) if array.size <= _SMALL else None
        if small is not None and small in self._small:
            return self._small[small]
        found = self.unique(name)
        self.constants[found] = array
        if small is not None:
            self._small[small] = found
        return found

    def integers(self, values: Sequence[int]) -> str:
        """Returns the name of a constant int64 vector."""
        return self.constant(np.array(list(values), np.int64), "numbers")

    def names(self, value: Any) -> Names:
        """Returns the names of an expression: one, or several of a tuple.

        Raises:
            UntranslatableError: it is neither a tensor nor a tuple of tensors.
        """
        if isinstance(value, relax.Var) and value in self._values:
            return self._values[value]
        if isinstance(value, ir.GenericConst):
            return self.constant(np.asarray(value.value.numpy(), order="C"))
        if isinstance(value, ir.Tuple):
            return [self.tensor(field) for field in value.fields]
        if isinstance(value, ir.TupleGetItem):
            return self.names(value.tuple_value)[value.index]
        raise UntranslatableError("an argument is no tensor")

    def tensor(self, value: Any) -> str:
        """Returns the name of a tensor.

        Raises:
            UntranslatableError: it is none.
        """
        found = self.names(value)
        if not isinstance(found, str):
            raise UntranslatableError("an argument is no tensor")
        return found

    def rename(self, old: str, new: str, since: int) -> str:
        """Gives a result of the nodes from number ``since`` on another name, and returns it."""
        if not any(old in node.outputs for node in self.nodes[since:]):
            return old
        self._taken.discard(old)
        wanted = self.unique(new)
        for index in range(since, len(self.nodes)):
            node = self.nodes[index]
            inputs, outputs = (
                tuple(wanted if name == old else name for name in names) for names in (node.inputs, node.outputs)
            )
            self.nodes[index] = HostNode(node.op, inputs, outputs, node.attributes)
        return wanted


Rule = Callable[[GraphBuilder, ir.Call, relax.Type], Names]


def translate(module: ir.IRModule, rules: Mapping[str, Rule]) -> HostGraph:
    """Returns the host graph of ``main``, one dataflow block of calls of operators in ``rules`` and of ONNX nodes.

    Raises:
        UntranslatableError: a binding is something else; the message names it.
    """
    main = module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    builder = GraphBuilder(_opset([binding.value for binding in bindings]))
    inputs = {}
    for var in main.params:
        name = builder.unique(str(var.name))
        builder.define(var, name)
        inputs[name] = tensor_of(var.ty)
    for binding in bindings:
        try:
            builder.define(binding.var, _value(builder, binding, rules))
        except UntranslatableError as error:
            raise UntranslatableError(f"{binding.var.name}: {error}") from error
    body = main.body.body
    fields = list(body.fields) if isinstance(body, ir.Tuple) else [body]
    outputs = tuple(builder.tensor(field) for field in fields)
    return HostGraph(builder.opset, inputs, builder.constants, tuple(builder.nodes), outputs)


def _opset(values: Sequence[Any]) -> int:
    """Returns the opset of the model's nodes. From 13 to ``LEAST_OPSET`` only the types that operators take changed."""
    stated = {call.opset for value in values if (call := read_onnx_call(value)) is not None}
    return max(LEAST_OPSET, *stated) if stated else OPSET


def _value(builder: GraphBuilder, binding: relax.VarBinding, rules: Mapping[str, Rule]) -> Names:
    value, since = binding.value, len(builder.nodes)
    if not isinstance(value, ir.Call):
        return builder.names(value)
    node = read_onnx_call(value)
    name = str(getattr(value.op, "name", ""))
    if node is not None:
        found: Names = _model_node(builder, node)
    elif name in rules:
        found = rules[name](builder, value, binding.var.ty)
    else:
        raise UntranslatableError(f"{name or 'a function'} is no operator that ONNX has")
    return builder.rename(found, str(binding.var.name), since) if isinstance(found, str) else found


def _model_node(builder: GraphBuilder, call: OnnxCall) -> Names:
    inputs = [builder.tensor(operand) if operand is not None else "" for operand in call.operands]
    there = builder.node_of_several(call.op, inputs, len(call.outputs), call.attributes)
    node = builder.nodes[-1]
    outputs = tuple(name if wanted else "" for name, wanted in zip(there, call.outputs, strict=True))
    builder.nodes[-1] = HostNode(node.op, node.inputs, outputs, node.attributes)
    found = [name for name in outputs if name]
    return found[0] if len(found) == 1 else found


def tensor_of(ty: relax.Type) -> Tensor:
    """Returns the shape and type of a tensor of static shape.

    Raises:
        UntranslatableError: it is none.
    """
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        raise UntranslatableError("it is no tensor of static shape")
    if not all(isinstance(extent, tirx.IntImm) for extent in ty.shape.values):
        raise UntranslatableError("its shape depends on the data")
    return tuple(int(extent) for extent in ty.shape.values), str(ty.dtype)
