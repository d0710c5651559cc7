"""Models of float16, bfloat16 and float64 as models of float32, the only type of floats that the compiler works on.

float16 and bfloat16 lose nothing so. Numbers of float64 beyond float32 become its largest: an attention mask of the
lowest float64 stays finite, as it was.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS
from accel.frontend.onnx_model.tensor_types import CONVERTED_BYTES
from accel.util.arrays import Array

_LARGEST = np.finfo(np.float32).max
# attributes that hold an element type
_TYPES = ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type", "to")


def convert_to_single(model: onnx.ModelProto) -> tuple[str, ...]:
    """Brings ``model`` to float32, in place; returns the names of the types that it had beside it.

    A Cast from one type of floats to another becomes one of float32 to itself, which :func:`drop_casts` finds.
    """
    found: set[int] = set()
    _convert_graph(model.graph, found)
    for function in model.functions:
        _convert_nodes(function.node, found)
        for info in function.value_info:
            _convert_type(info.type, found)
    return tuple(sorted(helper.tensor_dtype_to_np_dtype(element).name for element in found))


def as_single(array: Array) -> Array:
    """Returns an array of floats as float32; what is finite stays so."""
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    if array.dtype == np.float64:
        beyond = np.isinf(single) & np.isfinite(array)
        single[beyond] = np.copysign(_LARGEST, array[beyond])
    return single


def _convert_graph(graph: onnx.GraphProto, found: set[int]) -> None:
    for tensor in graph.initializer:
        _convert_tensor(tensor, found)
    for sparse in graph.sparse_initializer:
        _convert_tensor(sparse.values, found)
    for info in (*graph.input, *graph.output, *graph.value_info):
        _convert_type(info.type, found)
    _convert_nodes(graph.node, found)


def _convert_nodes(nodes: list[onnx.NodeProto], found: set[int]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _convert_tensor(attribute.t, found)
            for tensor in attribute.tensors:
                _convert_tensor(tensor, found)
            if attribute.HasField("sparse_tensor"):
                _convert_tensor(attribute.sparse_tensor.values, found)
            if attribute.HasField("g"):
                _convert_graph(attribute.g, found)
            for graph in attribute.graphs:
                _convert_graph(graph, found)
            if attribute.name in _TYPES and attribute.i in CONVERTED_BYTES and node.domain in ONNX_DOMAINS:
                found.add(attribute.i)
                attribute.i = TensorProto.FLOAT


def _convert_tensor(tensor: TensorProto, found: set[int]) -> None:
    if tensor.data_type in CONVERTED_BYTES:
        found.add(tensor.data_type)
        tensor.CopyFrom(numpy_helper.from_array(as_single(array_of(tensor)), tensor.name))


def _convert_type(type_: onnx.TypeProto, found: set[int]) -> None:
    if type_.HasField("tensor_type") and type_.tensor_type.elem_type in CONVERTED_BYTES:
        found.add(type_.tensor_type.elem_type)
        type_.tensor_type.elem_type = TensorProto.FLOAT


def drop_casts(model: onnx.ModelProto, types: dict[str, onnx.ValueInfoProto]) -> None:
    """Makes each Cast of float32 to itself an Identity, in place; ``types`` are those of the tensors."""
    single = {tensor.name for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT}
    single |= {name for name, info in types.items() if info.type.tensor_type.elem_type == TensorProto.FLOAT}
    for node in model.graph.node:
        if node.op_type == "Cast" and node.input[0] in single and node.output[0] in single:
            note_origin(node, node)
            node.op_type = "Identity"
            del node.attribute[:]
