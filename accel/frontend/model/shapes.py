"""The shapes of a model's tensors, inferred without its weights.

onnx's checker and shape inference take a copy of the model, as bytes, and parse it again. What they need of a
weight is its type and shape; so the model that they get has an input in its place.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from accel.errors import InvalidModel, UnsupportedShape
from accel.frontend.model.limits import Limits
from accel.frontend.model.resolve import SMALL, resolve
from accel.frontend.model.tensors import ITEM_BYTES, is_static, static_shape

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Inferred:
    """The types of a model's computed tensors and inputs, and the values of those that are as good as constants."""

    types: dict[str, onnx.ValueInfoProto]
    values: dict[str, TensorProto]


def infer(model: onnx.ModelProto) -> Inferred:
    """What there is to know of a checked model before it is run.

    Raises:
        InvalidModel: shapes contradict each other.
    """
    return _infer(without_weights(model), strict=True)


def tensor_shapes(model: onnx.ModelProto, inferred: Inferred, limits: Limits) -> dict[str, Shape]:
    """The shape of every tensor of a checked model.

    Raises:
        UnsupportedShape: one is not known, dynamic, empty, or the limits are exceeded.
        UnsupportedType: a tensor is of a type that is not supported.
    """
    graph = model.graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    total = sum(math.prod(tensor.dims) * ITEM_BYTES[tensor.data_type] for tensor in graph.initializer)
    fields = {info.name: f"input:{info.name}" for info in graph.input}
    fields |= {name: f"node:{node.name}" for node in graph.node for name in node.output if name}
    # a constant may be empty: Resize and Clip have such inputs
    may_be_empty = {
        *inferred.values,
        *(name for node in graph.node if node.op_type == "Constant" for name in node.output),
    }
    for name, field in fields.items():
        info = inferred.types.get(name)
        if info is None:
            raise UnsupportedShape(f"the shape of {name!r} cannot be inferred", field=field)
        shapes[name] = static_shape(info, field, limits, smallest=0 if name in may_be_empty else 1)
        total += math.prod(shapes[name]) * ITEM_BYTES[info.type.tensor_type.elem_type]
    if total > limits.total_bytes:
        raise UnsupportedShape(f"the tensors take {total} bytes; the limit is {limits.total_bytes}", field="model")
    return shapes


def known_shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """Those shapes of a valid model that are static."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for name, info in _infer(without_weights(model), strict=False).types.items():
        if is_static(info):
            shapes[name] = tuple(size.dim_value for size in info.type.tensor_type.shape.dim)
    return shapes


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of ``model`` in which large constants are inputs of their type and shape."""
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    graph, source = light.graph, model.graph
    graph.name = source.name
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    weights: list[tuple[str, TensorProto]] = []
    for tensor in source.initializer:
        if _is_large(tensor):
            weights.append((tensor.name, tensor))
        else:
            graph.initializer.append(tensor)
    for node in source.node:
        value = next(_values(node), None)
        if value is not None and _is_large(value):
            weights.append((node.output[0], value))
        else:
            graph.node.append(node)
    replaced = {name for name, _ in weights}
    graph.input.extend(info for info in source.input if info.name not in replaced)
    graph.input.extend(helper.make_tensor_value_info(name, value.data_type, value.dims) for name, value in weights)
    return light


def invalid(error: Exception) -> InvalidModel:
    """An exception of onnx as ours, with the node that it names."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    found = re.search(r"node name: ([^),\s]+)", str(error))
    return InvalidModel(line, field=f"node:{found[1]}" if found else "model")


def _is_large(tensor: TensorProto) -> bool:
    return int(math.prod(tensor.dims)) > SMALL


def _values(node: onnx.NodeProto) -> Iterator[TensorProto]:
    if node.op_type == "Constant" and not node.input and len(node.output) == len(node.attribute) == 1:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _infer(light: onnx.ModelProto, *, strict: bool) -> Inferred:
    known = _infer_once(light, strict=strict)
    outputs = [(node.op_type, name) for node in light.graph.node for name in node.output if name]
    missing = any(not is_static(known.get(name)) for _, name in outputs)
    values = resolve(light, known) if missing or any(op == "Shape" for op, _ in outputs) else {}
    return Inferred(known, values)


def _infer_once(model: onnx.ModelProto, *, strict: bool) -> dict[str, onnx.ValueInfoProto]:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=strict)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise invalid(error) from error
    graph = inferred.graph
    return {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}
