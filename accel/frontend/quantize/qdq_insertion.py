"""Insertion of QuantizeLinear and DequantizeLinear nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from accel.frontend.onnx_model.external_data import embedded
from accel.frontend.onnx_model.node_origins import is_part, note_origin
from accel.frontend.onnx_model.shape_inference import without_weights
from accel.frontend.quantize.input_moments import Feedback
from accel.frontend.quantize.quantization_targets import Targets, WeightedNode
from accel.frontend.quantize.scale_constraints import reciprocal
from accel.frontend.quantize.scale_grid import Grid, quantised
from accel.frontend.quantize.threads import in_threads
from accel.frontend.quantize.weight_rounding import compensated
from accel.util.arrays import Array

_BIAS_LIMIT = 2.0**30


def weight_grid(layer: WeightedNode, grids: Mapping[str, Grid]) -> Grid:
    """Returns the grid of a layer's weight scale, given those of the activations."""
    data = grids[layer.node.input[0]]
    return data.with_base(reciprocal(data.base))


def channel_weight_scales(layers: Sequence[WeightedNode], grids: Mapping[str, Grid]) -> dict[str, Array]:
    """Returns the indices of the best weight scales of each layer's channels, by the name of its node: [O].

    [1] of a layer whose channels have no weights of their own.
    """
    found = {}
    for layer in layers:
        grid = weight_grid(layer, grids)
        found[layer.node.name] = (
            grid.best_of_rows(layer.rows) if layer.has_channels else np.array([grid.best(layer.weight)])
        )
    return found


def weight_errors(
    layers: Sequence[WeightedNode], grids: Mapping[str, Grid], feedback: Mapping[str, Feedback]
) -> dict[str, dict[int, float]]:
    """Returns the error that each layer's weights make, as a share of its sums' energy, by node and index of scale."""

    def errors(layer: WeightedNode) -> dict[int, float]:
        grid, known = weight_grid(layer, grids), feedback.get(layer.node.name)
        if known is None:
            return grid.errors(layer.weight)
        of_sums = grid.errors(layer.group_rows, known.squares[:, None, :])
        return {index: known.left * error for index, error in of_sums.items()}

    return dict(zip((layer.node.name for layer in layers), in_threads(errors, layers), strict=True))


class _Integers(NamedTuple):
    """The constants of a layer as integers, and their scales: float32 of the weight, float64 of the bias."""

    weight: Array
    scales: Array
    bias: Array | None
    bias_scale: Array


class Quantiser:
    """The rewriting of a float model to QDQ form.

    Args:
        model: it is not modified.
        targets: the operators to quantise.
        activations: the indices of their scales, and their zero points, by tensor.
        weights: the indices of their scales by the name of the layer's node: [1], or [O] by channel.
        grids: of the activations, by tensor.
        means: of what layers read, by tensor: those of its channels.
        feedback: of the rounding of layers' weights, by the name of the node.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        targets: Targets,
        activations: tuple[Mapping[str, int], Mapping[str, int]],
        weights: Mapping[str, Array],
        grids: Mapping[str, Grid],
        means: Mapping[str, Array],
        feedback: Mapping[str, Feedback],
    ) -> None:
        self._model = onnx.ModelProto()
        self._model.CopyFrom(model)
        self._targets = targets
        self._indices, self._zero_points = activations
        self._weights = weights
        self._grids = grids
        self._means, self._feedback = means, feedback
        self._integers: dict[str, _Integers] = {}
        self._initializers: list[onnx.TensorProto] = []
        self._constants: list[onnx.NodeProto] = []
        self._dequantised: dict[str, str] = {}
        self._taken = {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}

    def quantised(self) -> onnx.ModelProto:
        """Returns the model in QDQ form."""
        graph = self._model.graph
        layers = {layer.node.name: layer for layer in self._targets.layers}
        self._integers = dict(zip(layers, in_threads(self._integers_of, layers.values()), strict=True))
        bias_adds = {layer.bias_add.name: layer for layer in self._targets.layers if layer.bias_add is not None}
        nodes = [node for tensor in graph.input for node in self._quantise(tensor.name)]
        outputs = {output.name for output in graph.output}
        for node in graph.node:
            node.input[:] = [self._dequantised.get(name, name) for name in node.input]
            if node.name in layers:
                self._quantise_constants(node, layers[node.name])
            if node.name in bias_adds:
                layer = bias_adds[node.name]
                constant = 1 if node.input[0] == layer.node.output[0] else 0
                node.input[constant] = self._bias(layer)
            nodes.append(node)
            for output in list(node.output):
                made = self._quantise(output, node if output in outputs else None)
                for each in made if is_part(node) else ():
                    note_origin(each, node)
                nodes.extend(made)
        return self._finish(nodes)

    def _finish(self, nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
        graph = self._model.graph
        nodes = [*self._constants, *(onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes)]
        del graph.node[:]
        graph.node.extend(nodes)
        used = {name for node in nodes for name in node.input} | {output.name for output in graph.output}
        kept = [tensor for tensor in (*graph.initializer, *self._initializers) if tensor.name in used]
        kept = [embedded(onnx.TensorProto.FromString(tensor.SerializeToString())) for tensor in kept]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        del graph.value_info[:]
        onnx.checker.check_model(without_weights(self._model), full_check=True)
        return self._model

    def _quantise(self, tensor: str, producer: onnx.NodeProto | None = None) -> list[onnx.NodeProto]:
        """The pair of nodes behind ``tensor``, if it has a scale; a graph output keeps its name on the last one."""
        if tensor not in self._indices:
            return []
        source, result = tensor, self._fresh(f"{tensor}_dequantized")
        if producer is not None:
            source, result = self._fresh(f"{tensor}_float"), tensor
            producer.output[list(producer.output).index(tensor)] = source
        self._dequantised[tensor] = result
        parameters = self._parameters(
            tensor, np.float32(self._activation_scale(tensor)), np.int8(self._zero_points[tensor])
        )
        integer = self._fresh(f"{tensor}_quantized")
        return [
            helper.make_node("QuantizeLinear", [source, *parameters], [integer], name=integer),
            helper.make_node(
                "DequantizeLinear", [integer, *parameters], [result], name=self._fresh(f"{tensor}_dequantize")
            ),
        ]

    def _quantise_constants(self, node: onnx.NodeProto, layer: WeightedNode) -> None:
        """Replace the weight and the bias of ``node`` by dequantised integers."""
        known = self._integers[node.name]
        axis = layer.channel_axis if known.scales.size > 1 else None
        inputs = [node.input[0], self._constant(f"{node.name}_weight", known.weight, known.scales, axis)]
        if layer.bias is not None and layer.bias_add is None:
            inputs.append(self._bias(layer))
        node.input[:] = inputs
        kept = [attribute for attribute in node.attribute if attribute.name not in ("alpha", "beta")]
        del node.attribute[:]
        node.attribute.extend(kept)

    def _activation_scale(self, tensor: str) -> float:
        return self._grids[tensor].scale(self._indices[tensor])

    def _weight_scales(self, layer: WeightedNode) -> Array:
        """The weight's best scales, or the least that let the bias fit int32; float32, [1] or [O]."""
        data, grid = layer.node.input[0], weight_grid(layer, self._grids)
        indices = self._weights[layer.node.name]
        if layer.bias is not None and (largest := float(np.abs(layer.bias).max(initial=0))) > 0:
            least = grid.ceiling(largest / _BIAS_LIMIT / self._activation_scale(data))
            octaves = np.maximum(-(-(least - indices) // grid.density), 0)
            indices = indices + grid.density * octaves
        return np.array([grid.scale(int(index)) for index in indices], np.float32)

    def _integers_of(self, layer: WeightedNode) -> _Integers:
        scales = self._weight_scales(layer)
        weight = self._rounded_weight(layer, scales)
        bias_scale = scales.astype(np.float64) * self._activation_scale(layer.node.input[0])
        bias = None if layer.bias is None else self._rounded_bias(layer, weight, scales, bias_scale)
        return _Integers(weight, scales, bias, bias_scale)

    def _rounded_weight(self, layer: WeightedNode, scales: Array) -> Array:
        feedback = self._feedback.get(layer.node.name)
        if feedback is not None:
            steps = replace(layer, weight=layer.weight / layer.along_channels(scales))
            return layer.of_group_rows(compensated(steps.group_rows, feedback.factor))
        if scales.size == 1:
            return quantised(layer.weight, float(scales[0]), np.int8)
        rows = [quantised(row, float(scale), np.int8) for row, scale in zip(layer.rows, scales, strict=True)]
        return layer.of_rows(np.stack(rows))

    def _rounded_bias(self, layer: WeightedNode, weight: Array, scales: Array, bias_scale: Array) -> Array:
        """The bias, less what the rounding of the weights adds to the sums on average."""
        assert layer.bias is not None
        bias = layer.bias.astype(np.float64)
        mean = self._means.get(layer.node.input[0])
        if mean is not None:
            bias = bias - (layer.mean_sums(weight, mean) * scales - layer.mean_sums(layer.weight, mean))
        limits = np.iinfo(np.int32)
        return np.asarray(np.clip(np.rint(bias / bias_scale), limits.min, limits.max).astype(np.int32))

    def _bias(self, layer: WeightedNode) -> str:
        known = self._integers[layer.node.name]
        assert known.bias is not None
        return self._constant(
            f"{layer.node.name}_bias", known.bias, known.bias_scale, 0 if known.bias_scale.size > 1 else None
        )

    def _constant(self, name: str, integers: Array, scales: Array, axis: int | None) -> str:
        """Add ``integers`` and the node that dequantises them; returns that node's output."""
        integer, result = self._fresh(f"{name}_quantized"), self._fresh(f"{name}_dequantized")
        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(integers), integer))
        scale = scales.astype(np.float32).reshape(() if axis is None else -1)
        inputs = [integer, *self._parameters(name, scale, np.zeros(scale.shape, integers.dtype))]
        along: dict[str, Any] = {} if axis is None else {"axis": axis}
        self._constants.append(helper.make_node("DequantizeLinear", inputs, [result], name=result, **along))
        return result

    def _parameters(self, name: str, scale: Array | np.float32, zero_point: Array | np.int8) -> tuple[str, str]:
        names = self._fresh(f"{name}_scale"), self._fresh(f"{name}_zero_point")
        self._initializers.append(numpy_helper.from_array(np.asarray(scale), names[0]))
        self._initializers.append(numpy_helper.from_array(np.asarray(zero_point), names[1]))
        return names

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name
