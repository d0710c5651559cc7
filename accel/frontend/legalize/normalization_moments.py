"""Layer norms whose means or deviations are read: these by operators of their own, as compilers have the norm alone."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import attribute_of, opset_of, unique_name
from accel.frontend.onnx_model.shape_inference import Shape

_AXES_ARE_INPUT = 18  # the first opset in which the axes of ReduceMean are an input


def compute_moments(model: onnx.ModelProto, shapes: dict[str, Shape]) -> None:
    """Lets each LayerNormalization of ``model`` have one output, in place; the others get nodes that compute them.

    Args:
        model: a checked one, whose nodes have names.
        shapes: of its tensors.
    """
    taken = {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}
    taken |= {tensor.name for tensor in model.graph.initializer}
    added = [
        (index, _moments(model, node, shapes, taken))
        for index, node in enumerate(model.graph.node)
        if node.op_type == "LayerNormalization" and len(node.output) > 1
    ]
    for index, nodes in reversed(added):
        for node in reversed(nodes):
            model.graph.node.insert(index + 1, node)


def _moments(
    model: onnx.ModelProto, node: onnx.NodeProto, shapes: dict[str, Shape], taken: set[str]
) -> list[onnx.NodeProto]:
    """The nodes of mean and inverse standard deviation; ``node`` loses both."""
    rank = len(shapes[node.input[0]])
    axes = list(range(attribute_of(node, "axis", -1) % rank, rank))
    mean, deviation = (*node.output[1:], "")[:2]
    del node.output[1:]
    made: list[onnx.NodeProto] = []

    def emit(op: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        out = name or unique_name(f"{node.name}_{op}", taken)
        made.append(
            helper.make_node(op, inputs, [out], name=unique_name(f"{node.name}_{op}_node", taken), **attributes)
        )
        note_origin(made[-1], node)
        return out

    def reduced(data: str, name: str = "") -> str:
        if opset_of(model) < _AXES_ARE_INPUT:
            return emit("ReduceMean", [data], name, axes=axes, keepdims=1)
        return emit("ReduceMean", [data, constant(np.array(axes, np.int64))], name, keepdims=1)

    def constant(value: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
        name = unique_name(f"{node.name}_constant", taken)
        model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    centre = reduced(node.input[0], mean)
    if deviation:
        distance = emit("Sub", [node.input[0], centre])
        variance = reduced(emit("Mul", [distance, distance]))
        epsilon = constant(np.array(attribute_of(node, "epsilon", 1e-5), np.float32))
        emit("Reciprocal", [emit("Sqrt", [emit("Add", [variance, epsilon])])], deviation)
    return made
