"""A builder of models as exporters write them: one call a node, constants drawn where their shape is given."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
Operand = str | Array | np.float32 | None
_WITH_INITIALIZERS_APART = 11  # older exporters listed initializers among the inputs


class Exported:
    """A graph of one opset; ``x`` is its first input. Opsets below 11 get IR 3, whose initializers are inputs too."""

    def __init__(self, opset: int, *shapes: Sequence[int], seed: int = 0) -> None:
        self.opset = opset
        self.random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self.inputs = ["x", *(f"x{index}" for index in range(1, len(shapes)))][: len(shapes)]
        self._infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
            for name, shape in zip(self.inputs, shapes, strict=True)
        ]

    @property
    def x(self) -> str:
        """The first input."""
        return self.inputs[0]

    def weight(self, *shape: int) -> Array:
        """A weight that keeps the size of what it meets: normal, of variance 2 / fan in."""
        return (self.random.standard_normal(shape) * np.sqrt(2 / max(np.prod(shape[1:]), 1))).astype(np.float32)

    def vector(self, *shape: int, low: float = -0.5, high: float = 0.5) -> Array:
        """Uniform numbers."""
        return self.random.uniform(low, high, shape).astype(np.float32)

    def op(self, kind: str, *operands: Operand, **attributes: Any) -> str:
        """Add a node of one output; arrays become initializers, None an input left out."""
        return self.ops(kind, *operands, outputs=1, **attributes)[0]

    def ops(self, kind: str, *operands: Operand, outputs: int, **attributes: Any) -> list[str]:
        """Add a node of several outputs."""
        index = len(self._nodes)
        names = [self._operand(operand, f"{kind}_{index}_{place}") for place, operand in enumerate(operands)]
        results = [f"{kind.lower()}_{index}_{place}" for place in range(outputs)]
        self._nodes.append(helper.make_node(kind, names, results, name=f"/{kind}_{index}", **attributes))
        return results

    def constant(self, value: npt.ArrayLike) -> str:
        """The output of a Constant node."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value)))

    def axes(self, kind: str, x: str, axes: Sequence[int], since: int = 13, **attributes: Any) -> str:
        """A node whose axes are an attribute before the opset ``since``, and an input from it on."""
        if self.opset < since:
            return self.op(kind, x, axes=list(axes), **attributes)
        return self.op(kind, x, np.array(axes, np.int64), **attributes)

    def clip(self, x: str, low: float | None, high: float | None) -> str:
        """Clip in the form of the opset."""
        if self.opset < 11:
            bounds = {name: float(value) for name, value in (("min", low), ("max", high)) if value is not None}
            return self.op("Clip", x, **bounds)
        return self.op("Clip", x, *(None if bound is None else np.float32(bound) for bound in (low, high)))

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 3, *, bias: bool = True, **attributes: Any) -> str:
        """A convolution, padded such that stride 1 keeps the size."""
        group = attributes.get("group", 1)
        weight = self.weight(outputs, inputs // group, kernel, kernel)
        given = {"kernel_shape": [kernel, kernel], "pads": [kernel // 2] * 4, **attributes}
        return self.op("Conv", x, weight, *([self.vector(outputs)] if bias else []), **given)

    def norm(self, x: str, channels: int) -> str:
        """A batch norm."""
        scale, variance = self.vector(channels, low=0.5, high=1.5), self.vector(channels, low=0.5, high=2)
        return self.op("BatchNormalization", x, scale, self.vector(channels), self.vector(channels), variance)

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The model; the shapes of its outputs are left to be inferred."""
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        old = self.opset < _WITH_INITIALIZERS_APART
        listed = [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in self._constants if old]
        graph = helper.make_graph(self._nodes, "exported", [*self._infos, *listed], results, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=3 if old else 8)

    def _operand(self, operand: Operand, name: str) -> str:
        if operand is None:
            return ""
        if isinstance(operand, str):
            return operand
        self._constants.append(numpy_helper.from_array(np.asarray(operand), name))
        return name
