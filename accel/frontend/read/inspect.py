"""Inspection of an uploaded model: is it one that can be run, and what is in it."""

import math
from collections import Counter

import onnx

from accel.errors import InvalidModel, UnsupportedShape
from accel.frontend.model.limits import LIMITS, Limits
from accel.frontend.model.shapes import infer, tensor_shapes
from accel.frontend.model.tensors import check_type
from accel.frontend.operator_form.form import has_operator_form, in_qdq_form
from accel.frontend.read.downgrade import check_computed_before
from accel.frontend.read.info import ModelInfo, TensorInfo
from accel.frontend.read.macs import macs_of
from accel.frontend.read.parse import opset_of, parse_model


def inspect_model(data: bytes, limits: Limits = LIMITS) -> ModelInfo:
    """Check the ONNX file ``data`` and describe it.

    Raises:
        InvalidModel: not ONNX, truncated, malformed, of an opset outside ``OPSETS``.
        ModelTooLarge: more bytes, nodes or parts of nodes than ``limits`` allow.
        ExternalData: a tensor is kept in another file.
        UnsupportedShape: a shape is dynamic, negative, empty, or beyond ``limits``.
        UnsupportedType: an element type other than float32, int8, uint8, int32, int64, bool.
        UnsupportedOperator: an operator unknown to ONNX, of another domain, random, or with a subgraph.
    """
    return model_info(parse_model(data, limits), limits)


def model_info(model: onnx.ModelProto, limits: Limits = LIMITS) -> ModelInfo:
    """What is in a model that ``parse_model`` has checked.

    Raises:
        InvalidModel, and its subclasses: as for :func:`inspect_model`, of what the nodes compute.
    """
    plain = in_qdq_form(model)
    inferred = infer(plain)
    check_computed_before(plain, inferred.types)
    shapes = tensor_shapes(plain, inferred, limits)
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
    field = f"output:{info.name}"  # that of inputs was checked when they were parsed
    if info.name not in shapes:
        raise InvalidModel(f"nothing computes the output {info.name!r}", field=field)
    check_type(info.type.tensor_type.elem_type, field)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return TensorInfo(name=info.name, dtype=str(dtype), shape=shapes[info.name])
