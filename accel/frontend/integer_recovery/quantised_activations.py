"""The quantised activations of a model in QDQ form, and which of them each is computed from."""

from dataclasses import dataclass

import numpy as np
import onnx

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import constants_of
from accel.util.arrays import Array, Float32


@dataclass(frozen=True)
class Activation:
    """A tensor of a QDQ model between QuantizeLinear and DequantizeLinear, with one scale, as the integer graph has it.

    ``source`` is the float tensor that is quantised, ``integers`` the result, ``results`` what it is dequantised to.
    ``made_of`` are the integers of the quantised tensors that it is computed from.
    """

    source: str
    integers: str
    results: tuple[str, ...]
    scale: float
    zero_point: int
    made_of: tuple[str, ...]

    def real(self, integers: Array) -> Float32:
        """Returns what ``integers`` stand for."""
        return (integers.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


def quantised_activations(model: onnx.ModelProto) -> tuple[Activation, ...]:
    """Returns the quantised activations of a model in QDQ form, in the order of its nodes."""
    constants = constants_of(model.graph)
    results: dict[str, list[str]] = {}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            results.setdefault(str(node.input[0]), []).append(str(node.output[0]))
    found, made_of = [], dict[str, dict[str, None]]()  # of each tensor, the quantised ones that it comes from
    for node in model.graph.node:
        sources = {name: None for read in node.input for name in made_of.get(read, {})}
        parameters = [array_of(constants[name]) for name in node.input[1:3] if name in constants]
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants and len(parameters) == 2:
            scale, zero_point = parameters
            if scale.size == zero_point.size == 1:
                values = float(scale.reshape(())), int(zero_point.reshape(()))
                source, integers = str(node.input[0]), str(node.output[0])
                found.append(Activation(source, integers, tuple(results.get(integers, ())), *values, tuple(sources)))
                sources = {integers: None}
        made_of |= {str(name): sources for name in node.output}
    return tuple(found)
