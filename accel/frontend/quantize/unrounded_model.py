"""A quantised model as the float network it stands for: activations keep the range of their integers, unrounded."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import constants_of, move_results, moved_tensors, unique_name


@dataclass(frozen=True)
class _Grid:
    """What the integers of a tensor stand for."""

    scale: float
    zero_point: int
    dtype: str

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest number."""
        limits = np.iinfo(self.dtype)
        return (limits.min - self.zero_point) * self.scale, (limits.max - self.zero_point) * self.scale


def unrounded_model(qdq: onnx.ModelProto) -> onnx.ModelProto | None:
    """Returns ``qdq`` with a Clip in place of each QuantizeLinear of activations and its DequantizeLinear.

    Weights are unchanged. The Clip stays because a quantise that saturates may do the work of a relu. None if the model
    has no such pairs, if their scales are not constant or differ among elements, or if the integers are an output or
    are read by an operator that does more than move them.
    """
    graph = qdq.graph
    constants = constants_of(graph)
    taken = {name for node in graph.node for name in (*node.input, *node.output)} | set(constants)
    grids: dict[str, _Grid] = {}
    bounds: list[onnx.TensorProto] = []
    nodes = []
    for node in graph.node:
        made = node
        reads = {name for name in node.input if name in grids}
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants:
            grid = _grid(node, constants)
            if grid is None:
                return None
            limits = [
                numpy_helper.from_array(np.array(v, np.float32), unique_name("bound", taken)) for v in grid.bounds
            ]
            bounds += limits
            made = helper.make_node("Clip", [node.input[0], *(limit.name for limit in limits)], node.output)
            grids[str(node.output[0])] = grid
        elif node.op_type == "DequantizeLinear" and reads:
            if grids[node.input[0]] != _grid(node, constants):
                return None
            made = helper.make_node("Identity", node.input[:1], node.output)
        elif reads:
            found = {grids[name] for name in reads}
            if moved_tensors(node) != reads or len(found) > 1:
                return None
            grids |= dict.fromkeys(move_results(node), *found)
        nodes.append(made)
    if not grids or any(output.name in grids for output in graph.output):
        return None
    used = {name for node in nodes for name in node.input} | {output.name for output in graph.output}
    initializers = [tensor for tensor in (*graph.initializer, *bounds) if tensor.name in used]
    # without the types of what was integers
    plain = helper.make_graph(nodes, graph.name, graph.input, graph.output, initializers)
    return helper.make_model(plain, opset_imports=qdq.opset_import, ir_version=qdq.ir_version)


def _grid(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> _Grid | None:
    """Returns the grid of a quantise or dequantise whose parameters are constants of one element; None of others."""
    values = [array_of(constants[name]) for name in node.input[1:] if name in constants]
    if len(values) != len(node.input) - 1 or any(value.size != 1 for value in values):
        return None
    zero_point = values[1] if len(values) > 1 else np.zeros((), np.uint8)
    if zero_point.dtype not in (np.int8, np.uint8):
        return None
    return _Grid(float(values[0].reshape(())), int(zero_point.reshape(())), str(zero_point.dtype))
