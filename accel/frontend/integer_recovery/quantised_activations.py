"""The quantised activations of a model in QDQ form, and which of them each is computed from."""

from dataclasses import dataclass

import numpy as np
import onnx

from accel.frontend.onnx_model.channel_factors import channel_factors
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import constants_of
from accel.util.arrays import Array, Float32


@dataclass(frozen=True)
class Activation:
    """A tensor of a QDQ model between QuantizeLinear and DequantizeLinear, with one scale, as the integer graph has it.

    ``source`` is the float tensor that is quantised, ``integers`` the result, ``results`` what it is dequantised to.
    ``made_of`` are the integers of the quantised tensors that it is computed from. ``factors`` is what each channel,
    along axis 1, was multiplied by when the model was quantised, [C], or None; ``ahead`` are the tensors between the
    layer that multiplies and this one, which have the same.
    """

    source: str
    integers: str
    results: tuple[str, ...]
    scale: float
    zero_point: int
    made_of: tuple[str, ...]
    factors: Float32 | None = None
    ahead: tuple[str, ...] = ()

    def real(self, integers: Array) -> Float32:
        """Returns what ``integers`` stand for."""
        found = integers.astype(np.float32)
        found -= np.float32(self.zero_point)
        found *= np.float32(self.scale)
        return found

    def before_equalisation(self, values: Float32) -> Float32:
        """Returns what numbers of this tensor were in the network whose channels had no factors."""
        if self.factors is None or values.ndim < 2 or values.shape[1] != self.factors.size:
            return values
        return values / self.factors.reshape(-1, *[1] * (values.ndim - 2))


def quantised_activations(model: onnx.ModelProto) -> tuple[Activation, ...]:
    """Returns the quantised activations of a model in QDQ form, in the order of its nodes."""
    constants, factors = constants_of(model.graph), channel_factors(model)
    results: dict[str, list[str]] = {}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            results.setdefault(str(node.input[0]), []).append(str(node.output[0]))
    found, made_of = [], dict[str, dict[str, None]]()  # of each tensor, the quantised ones that it comes from
    ahead: dict[str, tuple[str, ...]] = {}
    for node in model.graph.node:
        sources = {name: None for read in node.input for name in made_of.get(read, {})}
        parameters = [array_of(constants[name]) for name in node.input[1:3] if name in constants]
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants and len(parameters) == 2:
            scale, zero_point = parameters
            if scale.size == zero_point.size == 1:
                values = float(scale.reshape(())), int(zero_point.reshape(()))
                source, integers = str(node.input[0]), str(node.output[0])
                read_as = tuple(results.get(integers, ()))
                equal = factors.get(source), ahead.get(source, ())
                found.append(Activation(source, integers, read_as, *values, tuple(sources), *equal))
                sources = {integers: None}
        made_of |= {str(name): sources for name in node.output}
        if node.output and node.output[0] in factors:
            ahead[str(node.output[0])] = (*ahead.get(str(node.input[0]), ()), str(node.output[0]))
    return tuple(found)
