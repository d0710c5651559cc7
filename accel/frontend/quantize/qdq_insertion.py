"""Insertion of QuantizeLinear and DequantizeLinear nodes."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from accel.frontend.onnx_model.external_data import embedded
from accel.frontend.onnx_model.node_origins import is_part, note_origin
from accel.frontend.onnx_model.shape_inference import without_weights
from accel.frontend.quantize.quantization_targets import Targets, WeightedNode
from accel.frontend.quantize.scale_constraints import reciprocal
from accel.frontend.quantize.scale_grid import Grid, quantised
from accel.util.arrays import Array

_BIAS_LIMIT = 2.0**30


def weight_grid(layer: WeightedNode, grids: Mapping[str, Grid]) -> Grid:
    """Returns the grid of a layer's weight scale, given those of the activations."""
    data = grids[layer.node.input[0]]
    return data.with_base(reciprocal(data.base))


def best_weight_scales(layers: Sequence[WeightedNode], grids: Mapping[str, Grid]) -> dict[str, int]:
    """Returns the index of each layer's best weight scale, by the name of its node."""
    return {layer.node.name: weight_grid(layer, grids).best(layer.weight) for layer in layers}


class Quantiser:
    """The rewriting of a float model to QDQ form.

    Args:
        model: it is not modified.
        targets: the operators to quantise.
        indices: of the activations' scales, by tensor.
        weights: of the weights' best scales, as :func:`best_weight_scales` returns them.
        grids: of the activations, by tensor.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        targets: Targets,
        indices: Mapping[str, int],
        weights: Mapping[str, int],
        grids: Mapping[str, Grid],
    ) -> None:
        self._model = onnx.ModelProto()
        self._model.CopyFrom(model)
        self._targets = targets
        self._indices = indices
        self._weights = weights
        self._grids = grids
        self._initializers: list[onnx.TensorProto] = []
        self._constants: list[onnx.NodeProto] = []
        self._dequantised: dict[str, str] = {}
        self._taken = {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}

    def quantised(self) -> onnx.ModelProto:
        """Returns the model in QDQ form."""
        graph = self._model.graph
        layers = {layer.node.name: layer for layer in self._targets.layers}
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
                node.input[constant] = self._bias(layer, self._weight_scale(layer))
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
        parameters = self._parameters(tensor, self._activation_scale(tensor), np.int8)
        integer = self._fresh(f"{tensor}_quantized")
        return [
            helper.make_node("QuantizeLinear", [source, *parameters], [integer], name=integer),
            helper.make_node(
                "DequantizeLinear", [integer, *parameters], [result], name=self._fresh(f"{tensor}_dequantize")
            ),
        ]

    def _quantise_constants(self, node: onnx.NodeProto, layer: WeightedNode) -> None:
        """Replace the weight and the bias of ``node`` by dequantised integers."""
        scale = self._weight_scale(layer)
        inputs = [node.input[0], self._constant(f"{node.name}_weight", layer.weight, scale, np.int8)]
        if layer.bias is not None and layer.bias_add is None:
            inputs.append(self._bias(layer, scale))
        node.input[:] = inputs
        kept = [attribute for attribute in node.attribute if attribute.name not in ("alpha", "beta")]
        del node.attribute[:]
        node.attribute.extend(kept)

    def _activation_scale(self, tensor: str) -> float:
        return self._grids[tensor].scale(self._indices[tensor])

    def _weight_scale(self, layer: WeightedNode) -> float:
        """The weight's best scale, or the least that lets the bias fit int32."""
        data, grid = layer.node.input[0], weight_grid(layer, self._grids)
        index = self._weights[layer.node.name]
        if layer.bias is not None and (largest := float(np.abs(layer.bias).max(initial=0))) > 0:
            index = max(index, grid.ceiling(largest / _BIAS_LIMIT / self._activation_scale(data)))
        return grid.scale(index)

    def _bias(self, layer: WeightedNode, weight_scale: float) -> str:
        assert layer.bias is not None
        scale = weight_scale * self._activation_scale(layer.node.input[0])
        return self._constant(f"{layer.node.name}_bias", layer.bias, scale, np.int32)

    def _constant(self, name: str, value: Array, scale: float, dtype: type[np.int8 | np.int32]) -> str:
        """Add ``value`` as integers and the node that dequantises it; returns that node's output."""
        steps = quantised(value, scale, dtype)
        integer, result = self._fresh(f"{name}_quantized"), self._fresh(f"{name}_dequantized")
        self._initializers.append(numpy_helper.from_array(steps, integer))
        inputs = [integer, *self._parameters(name, scale, dtype)]
        self._constants.append(helper.make_node("DequantizeLinear", inputs, [result], name=result))
        return result

    def _parameters(self, name: str, scale: float, dtype: type[np.int8 | np.int32]) -> tuple[str, str]:
        names = self._fresh(f"{name}_scale"), self._fresh(f"{name}_zero_point")
        self._initializers.append(numpy_helper.from_array(np.array(scale, np.float32), names[0]))
        self._initializers.append(numpy_helper.from_array(np.array(0, dtype), names[1]))
        return names

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name
