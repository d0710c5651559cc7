"""The graph being written while quantised operators are replaced."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from accel.errors import InvalidModel, UnsupportedOperator
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import attribute_of, opset_of, unique_name
from accel.frontend.onnx_model.shape_inference import known_shapes, without_weights
from accel.util.arrays import Array

MICROSOFT = "com.microsoft"


_TYPES = {int: onnx.AttributeProto.INT, float: onnx.AttributeProto.FLOAT, list: onnx.AttributeProto.INTS}


@dataclass(frozen=True)
class QuantizationNames:
    """The names of a tensor's scale and zero point; without a zero point it is 0."""

    scale: str
    zero_point: str


class QdqWriter:
    """A writer of nodes that replace a model's nodes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.source = model
        self.opset = opset_of(model)
        self.producers = {output: node for node in model.graph.node for output in node.output}
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self._constants[node.output[0]] = node.attribute[0].t
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._shared: dict[tuple[str, QuantizationNames, int | None], str] = {}
        self._shared_sizes: dict[tuple[int, ...], str] = {}
        self._taken = {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}
        self._taken |= {value.name for part in (model.graph.input, model.graph.initializer) for value in part}

    @property
    def count(self) -> int:
        """Nodes written so far."""
        return len(self._nodes)

    def keep(self, node: onnx.NodeProto) -> None:
        """Leaves ``node`` as it is."""
        self._nodes.append(node)

    def operand(self, node: onnx.NodeProto, index: int) -> str:
        """Returns the name of an input that must be there.

        Raises:
            InvalidModel: it is not.
        """
        found = self.optional(node, index)
        if not found:
            raise InvalidModel(f"{node.op_type} lacks its input {index}", field=f"node:{node.name}")
        return found

    def optional(self, node: onnx.NodeProto, index: int) -> str:
        """Returns the name of an input, empty if it is absent."""
        return str(node.input[index]) if index < len(node.input) else ""

    def attribute(self, node: onnx.NodeProto, name: str, default: Any) -> Any:
        """Returns the attribute of that name, or ``default``, whose type it has: an int, a float, or a list of ints.

        Raises:
            InvalidModel: it is of another type.
        """
        found = next((attribute for attribute in node.attribute if attribute.name == name), None)
        if found is None:
            return default
        if found.type != _TYPES[type(default)]:
            raise InvalidModel(f"{node.op_type}: the attribute {name!r} is of a wrong type", field=f"node:{node.name}")
        return helper.get_attribute_value(found)

    def quantum(self, node: onnx.NodeProto, index: int) -> QuantizationNames:
        """Returns the scale at input ``index`` and the zero point behind it, which may be absent."""
        return QuantizationNames(self.operand(node, index), self.optional(node, index + 1))

    def value(self, name: str) -> Array | None:
        """Returns the constant called ``name``; None if it is not one."""
        tensor = self._constants.get(name)
        return None if tensor is None else array_of(tensor)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a constant."""
        tensor = self._constants.get(name)
        return () if tensor is None else tuple(tensor.dims)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Returns the static shape of any tensor that a node or the user provides; None if it is not known."""
        return self._shapes.get(name)

    @cached_property
    def unit(self) -> str:
        """The scale 1."""
        return self.constant("one", np.array(1, np.float32))

    @cached_property
    def middle(self) -> str:
        """The middle of uint8's range."""
        return self.constant("middle", np.array(128, np.uint8))

    def fresh(self, name: str) -> str:
        """Returns ``name``, lengthened until no node or tensor has it."""
        return unique_name(name, self._taken)

    def constant(self, name: str, value: npt.ArrayLike) -> str:
        """Adds an initializer called about ``name``."""
        tensor = numpy_helper.from_array(np.asarray(value), unique_name(name, self._taken))
        self._initializers.append(tensor)
        self._constants[tensor.name] = tensor
        return str(tensor.name)

    def emit(
        self, node: onnx.NodeProto, op: str, suffix: str, inputs: Sequence[str], output: str = "", **attributes: Any
    ) -> str:
        """Adds an ``op`` that does a part of the work of ``node``, and is called after it.

        Returns its output, which bears the name of the new node if no ``output`` is given.
        """
        name = unique_name(f"{node.name}_{suffix}", self._taken)
        made = helper.make_node(op, list(inputs), [output or name], name=name, **attributes)
        note_origin(made, node)
        self._nodes.append(made)
        return output or name

    def replace(
        self, node: onnx.NodeProto, op: str, inputs: Sequence[str], output: str = "", dropped: Sequence[str] = ()
    ) -> str:
        """Adds ``op`` by the name of ``node`` and with its attributes, but those ``dropped``; returns its output."""
        output = output or unique_name(f"{node.output[0]}_float", self._taken)
        made = helper.make_node(op, list(inputs), [output], name=node.name)
        made.attribute.extend(attribute for attribute in node.attribute if attribute.name not in dropped)
        note_origin(made, node)
        self._nodes.append(made)
        return output

    def split(self, node: onnx.NodeProto, suffix: str, tensor: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Splits ``tensor``, for ``node``, in parts of ``sizes`` along ``axis``; returns them."""
        if len(sizes) == 1:
            return [tensor]
        name = unique_name(f"{node.name}_{suffix}", self._taken)
        parts = [unique_name(f"{name}_{index}", self._taken) for index in range(len(sizes))]
        extents = self._shared_sizes.get(tuple(sizes))
        if extents is None:
            extents = self._shared_sizes[tuple(sizes)] = self.constant("sizes", np.array(sizes, np.int64))
        made = helper.make_node("Split", [tensor, extents], parts, name=name, axis=axis)
        note_origin(made, node)
        self._nodes.append(made)
        return parts

    def columns(self, node: onnx.NodeProto, matrix: str, sizes: Sequence[int]) -> list[str]:
        """Returns the columns of a matrix, constant or of ``dequantized_matrix``, in parts of ``sizes``."""
        value, ends = self.value(matrix), np.cumsum(sizes)[:-1]
        if value is not None:
            parts = np.split(value, ends, axis=1)
            return [self.constant(f"{matrix}_{at}", np.ascontiguousarray(part)) for at, part in enumerate(parts)]
        made = next(each for each in reversed(self._nodes) if matrix in each.output)
        given = [self.value(name) for name in made.input]
        found = []
        for at in range(len(sizes)):
            names = []
            for name, array in zip(made.input, given, strict=True):
                assert array is not None
                whole = array.ndim == 0 or (array.ndim == 1 and attribute_of(made, "axis", 1) == 0)
                part = array if whole else np.split(array, ends, axis=array.ndim - 1)[at]
                names.append(name if whole else self.constant(f"{name}_{at}", np.ascontiguousarray(part)))
            attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in made.attribute}
            found.append(self.emit(node, "DequantizeLinear", f"{matrix}_{at}", names, **attributes))
        return found

    def dequantized_matrix(self, node: onnx.NodeProto, source: onnx.NodeProto, index: int) -> str:
        """Dequantizes the transpose of one matrix of constants that ``source`` dequantizes, three axes of them.

        Returns its name; empty if they, their scales or zero points are not constants, or lie otherwise.
        """
        values = [self.value(name) for name in source.input]
        if any(value is None for value in values) or attribute_of(source, "block_size", 0):
            return ""
        axis = attribute_of(source, "axis", 1) % 3
        integers, *parameters = [value for value in values if value is not None]
        if integers.ndim != 3:
            return ""
        names = [self.constant(f"{source.input[0]}_{index}", np.ascontiguousarray(integers[index].T))]
        vector = any(value.size > 1 for value in parameters) and axis > 0
        for name, value in zip(source.input[1:], parameters, strict=True):
            own = value.reshape(-1)
            own = own if vector else own[index if own.size > 1 else 0]
            names.append(self.constant(f"{name}_{index}", own))
        attributes = {"axis": 2 - axis} if vector else {}
        return self.emit(node, "DequantizeLinear", f"{source.input[0]}_matrix_{index}", names, **attributes)

    def dequantize(self, node: onnx.NodeProto, tensor: str, quantum: QuantizationNames, axis: int | None = None) -> str:
        """Dequantizes an operand of ``node``, once for all who want the same; returns the float tensor.

        Args:
            node: whose operand it is.
            tensor: its name.
            quantum: its scale and zero point.
            axis: that a scale of more than one element runs along.

        Raises:
            UnsupportedOperator: the scale or zero point has more than one element, and more axes than one.
        """
        along = axis if self._is_vector(node, quantum) else None
        key = tensor, quantum, along
        if key not in self._shared:
            inputs = [tensor, *self._parameters(quantum, tensor)]
            attributes: dict[str, Any] = {} if along is None else {"axis": along}
            self._shared[key] = self.emit(node, "DequantizeLinear", f"{tensor}_dequantize", inputs, **attributes)
        return self._shared[key]

    def quantize(self, node: onnx.NodeProto, tensor: str, quantum: QuantizationNames, like: str = "") -> None:
        """Quantizes ``tensor`` to the output of ``node``; without a zero point it is 0, of the type of ``like``.

        Raises:
            UnsupportedOperator: neither says which type that is, or the result has more than one scale.
        """
        if self._is_vector(node, quantum):
            raise UnsupportedOperator(f"{node.op_type}: its result has more than one scale", field=f"node:{node.name}")
        if not quantum.zero_point:
            known = self.value(like)
            if known is None:
                raise UnsupportedOperator(
                    f"{node.op_type}: the type of its result is not stated", field=f"node:{node.name}"
                )
            quantum = QuantizationNames(quantum.scale, self.constant(f"{tensor}_zero_point", np.zeros((), known.dtype)))
        inputs = [tensor, *self._parameters(quantum, tensor)]
        self.emit(node, "QuantizeLinear", "quantize", inputs, str(node.output[0]))

    def model(self) -> onnx.ModelProto:
        """Returns the model of the nodes so far, with the constants that they use."""
        source = self.source
        used = {name for node in self._nodes for name in node.input} | {output.name for output in source.graph.output}
        kept = (tensor for tensor in (*source.graph.initializer, *self._initializers) if tensor.name in used)
        microsoft = any(node.domain == MICROSOFT for node in self._nodes)
        # a copy of the whole would copy the weights twice
        result = onnx.ModelProto(
            ir_version=source.ir_version,
            producer_name=source.producer_name,
            producer_version=source.producer_version,
            opset_import=[entry for entry in source.opset_import if microsoft or entry.domain != MICROSOFT],
            metadata_props=source.metadata_props,
        )
        result.graph.name = source.graph.name
        result.graph.node.extend(self._nodes)
        result.graph.initializer.extend(kept)
        result.graph.input.extend(source.graph.input)
        result.graph.output.extend(source.graph.output)
        result.graph.value_info.extend(source.graph.value_info)
        return result

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        alike = without_weights(self.source)
        for node in alike.graph.node:
            if node.domain == MICROSOFT and node.input:  # by now a softmax, of which ONNX knows nothing
                node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output[:1], name=node.name))
        return known_shapes(alike)

    def _parameters(self, quantum: QuantizationNames, tensor: str) -> list[str]:
        """The scale and zero point of one shape: scalars are without axes, and a vector takes the other along."""
        names = [name for name in (quantum.scale, quantum.zero_point) if name]
        values = [self.value(name) for name in names]
        sizes = [1 if value is None else value.size for value in values]
        shape = () if max(sizes) == 1 else (max(sizes),)
        for index, value in enumerate(values):
            if value is not None and value.shape != shape:
                one = np.broadcast_to(value.reshape(() if value.size == 1 else value.shape), shape)
                names[index] = self.constant(f"{tensor}_{('scale', 'zero_point')[index]}", np.ascontiguousarray(one))
        return names

    def _is_vector(self, node: onnx.NodeProto, quantum: QuantizationNames) -> bool:
        """Whether the scale or the zero point has more than one element; both of them as many, if so."""
        values = [self.value(name) for name in (quantum.scale, quantum.zero_point) if name]
        sizes = {value.size for value in values if value is not None} - {1}
        if len(sizes) > 1 or 0 in sizes:
            raise InvalidModel(f"{node.op_type}: its scales and zero points differ in size", field=f"node:{node.name}")
        if any(value is not None and value.size > 1 and value.ndim > 1 for value in values):
            raise UnsupportedOperator(
                f"{node.op_type}: a scale or zero point has more than one axis", field=f"node:{node.name}"
            )
        return bool(sizes)
