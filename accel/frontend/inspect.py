"""Inspection of an uploaded model: is it one that can be run, and what is in it."""

import math
from collections import Counter
from typing import Literal

import onnx
import pydantic

from accel.errors import UnsupportedShape
from accel.frontend.limits import LIMITS, Limits
from accel.frontend.macs import macs_of
from accel.frontend.operator_form import has_operator_form, in_qdq_form
from accel.frontend.parse import opset_of, parse_model
from accel.frontend.shapes import infer, tensor_shapes


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
    model = parse_model(data, limits)
    plain = in_qdq_form(model)
    shapes = tensor_shapes(plain, infer(plain), limits)
    macs = sum(macs_of(node, shapes) for node in plain.graph.node)
    if macs > limits.macs:
        raise UnsupportedShape(
            f"the model takes {macs} multiply-accumulates; the limit is {limits.macs}", field="model"
        )
    operators = Counter(node.op_type for node in model.graph.node)
    constants = {tensor.name for tensor in model.graph.initializer}
    return ModelInfo(
        format="qdq" if operators["DequantizeLinear"] or has_operator_form(model) else "float",
        opset=opset_of(model),
        inputs=[_describe(info, shapes) for info in model.graph.input if info.name not in constants],
        outputs=[_describe(info, shapes) for info in model.graph.output],
        operators=dict(sorted(operators.items())),
        nodes=len(model.graph.node),
        macs=macs,
        parameters=sum(math.prod(tensor.dims) for tensor in model.graph.initializer),
    )


def _describe(info: onnx.ValueInfoProto, shapes: dict[str, tuple[int, ...]]) -> TensorInfo:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return TensorInfo(name=info.name, dtype=str(dtype), shape=shapes[info.name])
