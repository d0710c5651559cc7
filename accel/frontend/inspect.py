"""Inspection of an uploaded model: is it one that can be run, and what is in it."""

import math
from collections import Counter
from typing import Literal

import onnx
import pydantic
from onnx import TensorProto

from accel.errors import UnsupportedShape
from accel.frontend.limits import LIMITS, Limits
from accel.frontend.load import ITEM_BYTES, invalid, is_static, load_model, opset_of, static_shape
from accel.frontend.macs import macs_of


class TensorInfo(pydantic.BaseModel):
    """An input or output of the model."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class ModelInfo(pydantic.BaseModel):
    """What is in a model. ``operators`` counts the nodes of each type; ``parameters`` the elements of the constants."""

    format: Literal["float", "qdq"]
    opset: int
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    operators: dict[str, int]
    nodes: int
    macs: int
    parameters: int


def inspect_model(data: bytes, limits: Limits = LIMITS) -> ModelInfo:
    """Check the ONNX file ``data`` and describe it.

    Raises:
        InvalidModel: not ONNX, truncated, malformed, too large, of an opset outside ``OPSETS``.
        ExternalData: a tensor is kept in another file.
        UnsupportedShape: a shape is dynamic, negative, empty, or beyond ``limits``.
        UnsupportedType: an element type other than float32, int8, uint8, int32, int64, bool.
        UnsupportedOperator: an operator unknown to ONNX, of another domain, random, or with a subgraph.
    """
    model = load_model(data, limits)
    shapes = _tensor_shapes(_infer(model, limits), limits)
    macs = sum(macs_of(node, shapes) for node in model.graph.node)
    if macs > limits.macs:
        raise UnsupportedShape(
            f"the model takes {macs} multiply-accumulates; the limit is {limits.macs}", field="model"
        )
    operators = Counter(node.op_type for node in model.graph.node)
    constants = {tensor.name for tensor in model.graph.initializer}
    return ModelInfo(
        format="qdq" if operators["DequantizeLinear"] else "float",
        opset=opset_of(model),
        inputs=[_describe(info, shapes) for info in model.graph.input if info.name not in constants],
        outputs=[_describe(info, shapes) for info in model.graph.output],
        operators=dict(sorted(operators.items())),
        nodes=len(model.graph.node),
        macs=macs,
        parameters=sum(math.prod(tensor.dims) for tensor in model.graph.initializer),
    )


def _infer(model: onnx.ModelProto, limits: Limits) -> onnx.ModelProto:
    """The model with the shapes of all tensors; integer vectors are computed only if shapes depend on them."""
    inferred = _infer_once(model, data_prop=False)
    known = {info.name: info for info in (*inferred.graph.value_info, *inferred.graph.output)}
    missing = [name for node in model.graph.node for name in node.output if name and not is_static(known.get(name))]
    if not missing:
        return inferred
    for info in known.values():
        tensor = info.type.tensor_type
        # computing such vectors lets a chain of Concat double its length at every node
        vector = tensor.elem_type == TensorProto.INT64 and len(tensor.shape.dim) == 1
        if vector and tensor.shape.dim[0].dim_value > limits.shape_tensor_elements:
            return inferred
    return _infer_once(model, data_prop=True)


def _infer_once(model: onnx.ModelProto, *, data_prop: bool) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=data_prop)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise invalid(error) from error


def _tensor_shapes(model: onnx.ModelProto, limits: Limits) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor, all of them within the limits."""
    graph = model.graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    total = sum(math.prod(tensor.dims) * ITEM_BYTES[tensor.data_type] for tensor in graph.initializer)
    known = {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}
    fields = {info.name: f"input:{info.name}" for info in graph.input}
    fields |= {name: f"node:{node.name}" for node in graph.node for name in node.output if name}
    for name, field in fields.items():
        info = known.get(name)
        if info is None:
            raise UnsupportedShape(f"the shape of {name!r} cannot be inferred", field=field)
        shapes[name] = static_shape(info, field, limits)
        total += math.prod(shapes[name]) * ITEM_BYTES[info.type.tensor_type.elem_type]
    if total > limits.total_bytes:
        raise UnsupportedShape(f"the tensors take {total} bytes; the limit is {limits.total_bytes}", field="model")
    return shapes


def _describe(info: onnx.ValueInfoProto, shapes: dict[str, tuple[int, ...]]) -> TensorInfo:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return TensorInfo(name=info.name, dtype=str(dtype), shape=shapes[info.name])
