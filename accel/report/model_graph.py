"""Description of a model's graph, for pictures: who gives what to whom."""

import math
from collections.abc import Iterator, Mapping

import onnx
from onnx import helper

from accel.frontend.onnx_model.node_origins import origins_of
from accel.report.documents.graph_documents import GraphNode, GraphTensor, ModelGraph


def describe_graph(model: onnx.ModelProto, types: Mapping[str, onnx.ValueInfoProto]) -> ModelGraph:
    """Returns the graph of ``model``, without nodes that depend on no input.

    Args:
        model: whose nodes have names.
        types: of its tensors.
    """
    graph = model.graph
    constants = {tensor.name: _constant_bytes(tensor) for tensor in graph.initializer}
    inputs = [value.name for value in graph.input if value.name not in constants]
    given, nodes = set(inputs), []
    for node in graph.node:
        read = list(dict.fromkeys(_read(node)))
        made = [name for name in node.output if name]
        if not given.intersection(read):
            constants |= dict.fromkeys(made, sum(constants.get(name, 0) for name in read))
            continue
        given.update(made)
        nodes.append(
            GraphNode(
                name=node.name,
                op=node.op_type,
                covers=list(origins_of(node)),
                inputs=[name for name in read if name in given],
                outputs=made,
                constants=sum(constants.get(name, 0) for name in read),
            )
        )
    return ModelGraph(
        inputs=inputs,
        outputs=[value.name for value in graph.output],
        tensors={name: _tensor(types.get(name)) for name in sorted(given)},
        nodes=nodes,
    )


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors that a node reads, in its branches too."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            own = {name for inner in graph.node for name in inner.output}
            own |= {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            yield from (name for inner in graph.node for name in _read(inner) if name not in own)


def _constant_bytes(tensor: onnx.TensorProto) -> int:
    return int(math.prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _tensor(value: onnx.ValueInfoProto | None) -> GraphTensor:
    if value is None or not value.type.HasField("tensor_type"):
        return GraphTensor(shape=None, type=None, bytes=None)
    kind = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type) if kind.elem_type else None
    known = kind.HasField("shape") and all(axis.HasField("dim_value") for axis in kind.shape.dim)
    shape = [axis.dim_value for axis in kind.shape.dim] if known else None
    size = math.prod(shape) * dtype.itemsize if shape is not None and dtype is not None else None
    return GraphTensor(shape=shape, type=None if dtype is None else dtype.name, bytes=size)
