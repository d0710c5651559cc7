"""The choice of operators of a float model, and of their tensors, to quantise."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from accel.errors import InvalidModel
from accel.frontend.legalize.recurrent_cells import RECURRENT
from accel.frontend.onnx_model.external_data import all_finite, array_of
from accel.frontend.onnx_model.node_origins import origins_of
from accel.util.arrays import Array

_PLACES = (3, 4)  # axes of lines and images
_KERNELS = (*_PLACES, 5)  # and of volumes
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_WEIGHTED = (*_CONVOLUTIONS, "Gemm", "MatMul")
_ADDITIONS = ("Add", "Max", "Min", "Sub", "Sum")
_STEPWISE = frozenset(RECURRENT)
_MOVES = ("Flatten", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


@dataclass(frozen=True)
class WeightedNode:
    """A Conv, ConvTranspose, Gemm or MatMul with constant weights.

    ``weight`` has the node's own layout. ``bias`` is [O], from the node or from the Add ``bias_add`` behind it.
    """

    node: onnx.NodeProto
    weight: Array
    bias: Array | None
    bias_add: onnx.NodeProto | None = None


@dataclass(frozen=True)
class Average:
    """A mean of ``count`` elements of its ``source`` in every element of its ``result``."""

    source: str
    result: str
    count: int


@dataclass(frozen=True)
class Targets:
    """The operators and tensors to quantise.

    ``activations`` are the tensors that get a scale. ``moves`` are pairs of them where the second only
    holds elements of the first, so that one scale serves both; in the order of the graph. ``joins`` are the operands of
    each concatenation and its result, which have one scale too. ``additions`` are all operators whose operands'
    scales must differ by powers of two.
    """

    layers: tuple[WeightedNode, ...]
    additions: tuple[onnx.NodeProto, ...]
    activations: tuple[str, ...]
    moves: tuple[tuple[str, str], ...]
    averages: tuple[Average, ...] = ()
    joins: tuple[tuple[str, ...], ...] = ()


def find_targets(model: onnx.ModelProto) -> Targets:
    """Returns the operators and tensors to quantise in ``model``, whose constants are initializers."""
    finder = _Finder(model)
    return finder.targets()


class _Finder:
    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self._nodes = list(graph.node)
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._outputs = {output.name for output in graph.output}
        self._uses = Counter(name for node in self._nodes for name in node.input)
        self._users: dict[str, onnx.NodeProto] = {name: node for node in self._nodes for name in node.input}
        shapes = [*graph.value_info, *graph.input, *graph.output]
        inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
        self._types = {info.name: info.type.tensor_type for info in (*shapes, *inferred)}

    def targets(self) -> Targets:
        layers = [layer for node in self._nodes if (layer := self._layer(node)) is not None]
        biased = {layer.bias_add.name for layer in layers if layer.bias_add is not None}
        additions = [node for node in self._nodes if self._is_addition(node) and node.name not in biased]
        found = [name for layer in layers for name in (layer.node.input[0], self._end(layer.bias_add or layer.node))]
        found += [name for node in additions for name in (*node.input, self._end(node))]
        averages = [average for node in self._nodes if (average := self._average(node)) is not None]
        found += [name for average in averages for name in (average.source, average.result)]
        known = dict.fromkeys(found)
        while more := [name for name in self._carried(known) if name not in known]:
            known |= dict.fromkeys(more)
        moves = [(str(node.input[0]), self._end(node)) for node in self._nodes if node.op_type in _MOVES]
        shared = tuple(pair for pair in moves if set(pair) <= set(known))
        joins = tuple((*map(str, node.input), self._end(node)) for node in self._nodes if self._joins(node, known))
        return Targets(tuple(layers), tuple(additions), tuple(known), shared, tuple(averages), joins)

    def _carried(self, known: Mapping[str, None]) -> Iterator[str]:
        """What gets a scale because ``known`` have one: what is made of them without arithmetic, or by a clip alone."""
        for node in self._nodes:
            first = str(node.input[0]) if node.input else ""
            if first in known and (node.op_type in _MOVES or self._is_clip(node)):
                yield self._end(node)
            elif self._joins(node, known):
                yield from (*map(str, node.input), self._end(node))

    def _joins(self, node: onnx.NodeProto, known: Mapping[str, None]) -> bool:
        """Whether it is a concatenation of activations, at least one of which has a scale."""
        names = [str(name) for name in node.input]
        return node.op_type == "Concat" and self._activations(names) and any(name in known for name in names)

    def _activations(self, names: Sequence[str]) -> bool:
        """Whether all are float32 and none is constant."""
        return all(
            name not in self._constants
            and name in self._types
            and self._types[name].elem_type == onnx.TensorProto.FLOAT
            for name in names
        )

    def _layer(self, node: onnx.NodeProto) -> WeightedNode | None:
        weight = self._constant(node.input[1]) if node.op_type in _WEIGHTED else None
        if weight is None or weight.dtype != np.float32 or node.input[0] in self._constants:
            return None
        if node.op_type in _CONVOLUTIONS:
            has_bias = len(node.input) > 2 and node.input[2] != ""
            bias = self._constant(node.input[2]) if has_bias else None
            known = weight.ndim in _KERNELS and (bias is not None or not has_bias)
            return WeightedNode(node, weight, bias) if known else None
        return self._gemm(node, weight) if node.op_type == "Gemm" else self._matmul(node, weight)

    def _gemm(self, node: onnx.NodeProto, weight: Array) -> WeightedNode | None:
        """A Gemm with alpha and beta multiplied into its constants."""
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        columns = weight.shape[0 if attributes.get("transB") else 1]
        has_bias = len(node.input) > 2 and node.input[2] != ""
        bias = self._constant(node.input[2]) if has_bias else None
        if attributes.get("transA") or (has_bias and (bias is None or bias.size not in (1, columns))):
            return None
        if bias is not None and bias.size > 1 and bias.shape[-1] != columns:
            return None  # one value a row
        if bias is not None:
            bias = np.broadcast_to(bias.reshape(-1) * np.float32(attributes.get("beta", 1.0)), (columns,))
        alpha = np.float32(attributes.get("alpha", 1.0))
        return WeightedNode(node, weight if alpha == 1 else weight * alpha, bias)

    def _matmul(self, node: onnx.NodeProto, weight: Array) -> WeightedNode | None:
        """A MatMul, with the Add of a constant vector behind it as its bias."""
        if weight.ndim != 2:
            return None
        user = self._only_user(node.output[0])
        if user is None or user.op_type != "Add":
            return WeightedNode(node, weight, None)
        constants = [value for name in user.input if (value := self._constant(name)) is not None]
        if len(constants) != 1 or constants[0].size != weight.shape[1] or constants[0].shape[-1] != weight.shape[1]:
            return WeightedNode(node, weight, None)
        if constants[0].ndim > max(len(self._types[node.output[0]].shape.dim), 1):
            return WeightedNode(node, weight, None)
        return WeightedNode(node, weight, constants[0].reshape(-1), user)

    def _is_addition(self, node: onnx.NodeProto) -> bool:
        if not _STEPWISE.isdisjoint(origins_of(node).values()):
            return False  # the state of a cell loses too much if each step rounds it to eight bits
        return node.op_type in _ADDITIONS and len(node.input) > 1 and self._activations([*map(str, node.input)])

    def _average(self, node: onnx.NodeProto) -> Average | None:
        """A pooling or mean of an image or a line, all of whose results average as many elements."""
        shape = self._types[node.input[0]].shape.dim if node.input[0] in self._types else ()
        if len(shape) not in _PLACES or self._types[node.input[0]].elem_type != onnx.TensorProto.FLOAT:
            return None
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        plane = [int(size.dim_value) for size in shape[2:]]
        if node.op_type == "AveragePool":
            counted = not any(attributes.get("pads", ())) or attributes.get("count_include_pad")
            if not counted or attributes.get("ceil_mode") or attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
                return None
            plane = attributes["kernel_shape"]
        elif node.op_type == "ReduceMean":
            axes = self._constant(node.input[1]) if len(node.input) > 1 else attributes.get("axes")
            if axes is None or sorted(int(axis) % len(shape) for axis in axes) != list(range(2, len(shape))):
                return None
        elif node.op_type != "GlobalAveragePool":
            return None
        return Average(str(node.input[0]), self._end(node), math.prod(plane))

    def _end(self, node: onnx.NodeProto) -> str:
        """The tensor to requantise to: behind the relu and clip that follow ``node`` alone."""
        output = str(node.output[0])
        user = self._only_user(output)
        while user is not None and self._is_clip(user):
            output = str(user.output[0])
            user = self._only_user(output)
        return output

    def _is_clip(self, node: onnx.NodeProto) -> bool:
        if node.op_type == "Clip":
            return all(not name or name in self._constants for name in node.input[1:])
        return bool(node.op_type == "Relu")

    def _only_user(self, tensor: str) -> onnx.NodeProto | None:
        if self._uses[tensor] != 1 or tensor in self._outputs:
            return None
        return self._users[tensor]

    def _constant(self, name: str) -> Array | None:
        tensor = self._constants.get(name)
        if tensor is None or name in self._outputs:
            return None
        value = array_of(tensor)
        if not all_finite(value):
            raise InvalidModel(f"the constant {name!r} has values that are not finite", field=f"initializer:{name}")
        return value
