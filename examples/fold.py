"""Folding of batch norms into the layers before them, as exporters of trained networks do."""

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Floats = npt.NDArray[np.float32]

_LAYERS = ("Conv", "Gemm")


def fold_batch_norms(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with each BatchNormalization merged into the Conv or Gemm whose result it alone reads.

    The layer keeps its name and its weights' name; a bias that it lacked is called after the batch norm's. A Gemm
    must have transB 0, as those of the examples with batch norms have.
    """
    folded = onnx.ModelProto()
    folded.CopyFrom(model)
    graph = folded.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    readers = [name for node in graph.node for name in node.input]
    producers = {name: node for node in graph.node for name in node.output}
    for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        layer = producers.get(norm.input[0])
        if layer is None or layer.op_type not in _LAYERS or readers.count(norm.input[0]) > 1:
            continue
        _fold(layer, norm, constants)
        graph.node.remove(norm)
    used = {name for node in graph.node for name in node.input}
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name not in used:
            del graph.initializer[index]
    return folded


def _fold(layer: onnx.NodeProto, norm: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> None:
    scale, shift, mean, variance = (_array(constants[name]) for name in norm.input[1:])
    factor = scale / np.sqrt(variance + _epsilon(norm))
    weight = layer.input[1]
    along = (-1, 1, 1, 1) if layer.op_type == "Conv" else (1, -1)
    scaled = _array(constants[weight]) * factor.reshape(along)
    bias = (_array(constants[layer.input[2]]) if len(layer.input) > 2 else 0) - mean
    if len(layer.input) < 3:
        layer.input.append(norm.input[2])
    _set(constants[weight], scaled)
    _set(constants[layer.input[2]], bias * factor + shift)
    layer.output[0] = norm.output[0]


def _array(tensor: onnx.TensorProto) -> Floats:
    return numpy_helper.to_array(tensor)


def _set(tensor: onnx.TensorProto, value: Floats) -> None:
    tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float32), tensor.name))


def _epsilon(norm: onnx.NodeProto) -> float:
    return next((helper.get_attribute_value(a) for a in norm.attribute if a.name == "epsilon"), 1e-5)
