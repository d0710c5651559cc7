"""The host graph: what a host step computes, as nodes of ONNX operators over tensors of static shapes."""

import base64
import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.host.json_fields import Tensor
from accel.util.arrays import Array

OPSET = 18
"""The opset of graphs that hold no node of a model."""

LEAST_OPSET = 14
"""From here on addition, subtraction and multiplication take every type of integer."""

_IR_VERSION = 10
_FEW = 64  # elements of a constant that is written as numbers, not as bytes


@dataclass(frozen=True)
class HostNode:
    """One operator of ONNX; an absent optional input or output is an empty name.

    ``attributes`` are integers, floats, strings, lists of these, and arrays for tensors.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HostGraph:
    """Nodes in the order of the data, each tensor made once; ``inputs`` and ``outputs`` as a step lists them."""

    opset: int
    inputs: dict[str, Tensor]
    constants: dict[str, Array]
    nodes: tuple[HostNode, ...]
    outputs: tuple[str, ...]


def write_host_graph(graph: HostGraph) -> str:
    """Returns the graph as JSON (docs/program-format.md), which :func:`read_host_graph` reads."""
    document = {
        "opset": graph.opset,
        "inputs": [{"name": name, "dtype": dtype, "shape": shape} for name, (shape, dtype) in graph.inputs.items()],
        "constants": [{"name": name, **constant_record(array)} for name, array in graph.constants.items()],
        "nodes": [_node_record(node) for node in graph.nodes],
        "outputs": list(graph.outputs),
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _node_record(node: HostNode) -> dict[str, Any]:
    record: dict[str, Any] = {"op": node.op, "inputs": list(node.inputs), "outputs": list(node.outputs)}
    if node.attributes:
        record["attributes"] = {name: attribute_record(value) for name, value in node.attributes.items()}
    return record


def attribute_record(value: Any) -> Any:
    """Returns an attribute as JSON."""
    if isinstance(value, np.ndarray):
        return constant_record(value)
    if isinstance(value, list | tuple):
        return [attribute_record(item) for item in value]
    return number(value) if isinstance(value, float) else value


def constant_record(array: Array) -> dict[str, Any]:
    """Returns an array as ``dtype``, ``shape`` and either ``values``, where they are few, or ``data`` in base64."""
    record: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size <= _FEW and (array.dtype.kind in "iub" or np.isfinite(array).all()):
        return record | {"values": array.ravel().tolist()}
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return record | {"data": base64.b64encode(data).decode()}


def number(value: float) -> float | str:
    """Returns a float as JSON, which has no infinities and no NaN."""
    return value if math.isfinite(value) else str(value)


@functools.cache
def onnx_type(dtype: str) -> int:
    """Returns ONNX's number of an element type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def onnx_model(
    graph: HostGraph, nodes: tuple[HostNode, ...], inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor | None]
) -> onnx.ModelProto:
    """Returns some of a graph's nodes as a model with these inputs and outputs; other constants are initializers."""
    used = {name for node in nodes for name in node.inputs}
    initializers = [
        numpy_helper.from_array(np.asarray(array, order="C"), name)
        for name, array in graph.constants.items()
        if name in used and name not in inputs
    ]
    made = helper.make_graph(
        [_node_proto(node, graph.opset) for node in nodes],
        "host",
        [_value_info(name, tensor) for name, tensor in inputs.items()],
        [_value_info(name, tensor) for name, tensor in outputs.items()],
        initializers,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", graph.opset)], ir_version=_IR_VERSION)


def _value_info(name: str, tensor: Tensor | None) -> onnx.ValueInfoProto:
    if tensor is None:
        return onnx.ValueInfoProto(name=name)
    shape, dtype = tensor
    return helper.make_tensor_value_info(name, onnx_type(dtype), list(shape))


def _node_proto(node: HostNode, opset: int) -> onnx.NodeProto:
    made = onnx.NodeProto(op_type=node.op, input=node.inputs, output=node.outputs)
    schema = onnx.defs.get_schema(node.op, opset).attributes
    for name, value in node.attributes.items():
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)  # noqa: PLW2901
        kind: Any = schema[name].type if isinstance(value, list) and not value else None
        made.attribute.append(helper.make_attribute(name, value, attr_type=kind and kind.value))
    return made


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Returns an attribute of a model's node as a host node has it.

    Raises:
        ValueError: it is a graph, or of another type that a host node cannot have.
    """
    value = helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        return np.asarray(numpy_helper.to_array(value))
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str) and all(isinstance(item, int | float | bytes) for item in value):
        return [item.decode() if isinstance(item, bytes) else item for item in value]
    raise ValueError(f"its attribute {attribute.name} is neither numbers, nor text, nor a tensor")
