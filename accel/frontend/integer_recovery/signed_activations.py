"""Activations of uint8 as int8: the same numbers, 128 less, of a zero point 128 less.

A tensor that QuantizeLinear makes and only DequantizeLinear reads may have either type, as may what only moves its
elements between the two. Where all of them become int8 no step between layers has to convert.
"""

import numpy as np
import onnx
from onnx import numpy_helper

from accel.frontend.integer_recovery.int8_operands import UINT8_OFFSET
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import constants_of, move_results, moved_tensors, unique_name

_ZERO_POINT = 2  # its place among the inputs of QuantizeLinear and DequantizeLinear


def with_signed_activations(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` itself if it has no such tensors, else a copy in which they are int8.

    Tensors whose zero points are not constant stay uint8.
    """
    changing = _changing(model.graph)
    if not changing:
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    points = _Points(made.graph)
    for node in made.graph.node:
        if node.op_type == "QuantizeLinear" and node.output[0] in changing:
            kept = [attribute for attribute in node.attribute if attribute.name != "output_dtype"]
            del node.attribute[:]
            node.attribute.extend(kept)
        elif node.op_type != "DequantizeLinear" or node.input[0] not in changing:
            continue
        shifted = points.shifted(_zero_point(node))
        del node.input[_ZERO_POINT:]
        node.input.append(shifted)
    stale = [value for value in made.graph.value_info if value.name in changing]
    for value in stale:
        value.type.tensor_type.elem_type = onnx.TensorProto.INT8
    return made


class _Points:
    """The zero points of a graph, and those 128 less that were added to it."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._values = constants_of(graph)
        self._taken = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
        self._taken |= {value.name for part in (graph.input, graph.initializer) for value in part}
        self._made: dict[str, str] = {}

    def shifted(self, name: str) -> str:
        """Returns the constant that is 128 less than the one called ``name``; an absent one is 0."""
        if name not in self._made:
            value = array_of(self._values[name]) if name else np.zeros((), np.uint8)
            less = (value.astype(np.int16) - UINT8_OFFSET).astype(np.int8)
            self._made[name] = unique_name(f"{name or 'zero_point'}_int8", self._taken)
            self._graph.initializer.append(numpy_helper.from_array(less, self._made[name]))
        return self._made[name]


def _changing(graph: onnx.GraphProto) -> set[str]:
    """The tensors that can be int8 in place of uint8."""
    points = {name for name, tensor in constants_of(graph).items() if tensor.data_type == onnx.TensorProto.UINT8}
    starts = {node.output[0] for node in graph.node if node.op_type == "QuantizeLinear" and _unsigned(node, points)}
    found = set(starts)
    for node in graph.node:  # in the order of the data
        if moved_tensors(node) & found:
            found.update(move_results(node))
    while found:
        wrong = _wrong(graph, found, points)
        if not wrong:
            break
        found -= wrong
    return found


def _wrong(graph: onnx.GraphProto, found: set[str], points: set[str]) -> set[str]:
    """Returns the tensors of ``found`` that other nodes read, or that are moved to or from one not in ``found``."""
    wrong = found & {value.name for value in graph.output}
    for node in graph.node:
        read = found.intersection(node.input)
        if node.op_type == "DequantizeLinear" and _unsigned(node, points):
            read -= {node.input[0]}
        elif moves := moved_tensors(node):
            made = set(move_results(node))
            if moves | made <= found:
                read -= moves
            else:
                wrong |= made & found
        wrong |= read
    return wrong


def _unsigned(node: onnx.NodeProto, points: set[str]) -> bool:
    """Whether ``node`` is to or from uint8, with a constant zero point or, as it is by default, none."""
    if _zero_point(node):
        return _zero_point(node) in points
    types = [attribute.i for attribute in node.attribute if attribute.name == "output_dtype"]
    return node.op_type == "DequantizeLinear" or types in ([], [0], [onnx.TensorProto.UINT8])


def _zero_point(node: onnx.NodeProto) -> str:
    return str(node.input[_ZERO_POINT]) if len(node.input) > _ZERO_POINT else ""
