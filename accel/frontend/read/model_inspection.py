"""Inspection of an uploaded model: whether it can run, its contents, and its multiply-accumulates."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from accel.errors import InvalidModel, UnsupportedShape
from accel.frontend.fold.affine_channels import OPERATORS
from accel.frontend.legalize.einsum_products import einsum_macs
from accel.frontend.legalize.function_operators import attention_macs
from accel.frontend.legalize.opset_downgrade import check_computed_before
from accel.frontend.legalize.qdq_form import has_operator_form, in_qdq_form
from accel.frontend.legalize.recurrent_cells import RECURRENT
from accel.frontend.onnx_model.model_limits import LIMITS, ModelLimits
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.onnx_model.onnx_nodes import opset_of
from accel.frontend.onnx_model.shape_inference import Inferred, infer_shapes, tensor_shapes
from accel.frontend.onnx_model.tensor_types import check_type
from accel.frontend.read.empty_tensors import remove_empty_tensors
from accel.frontend.read.model_info import NO_AXES, Axes, FixedInputs, ModelContents, ModelInfo, ModelTensor, TensorInfo
from accel.frontend.read.model_parser import parse_model

Shape = tuple[int, ...]

_OPERANDS = {
    "Conv": (0, 1),
    "ConvInteger": (0, 1),
    "QLinearConv": (0, 3),
    "ConvTranspose": (0, 1),
    "Gemm": (0, 1),
    "MatMul": (0, 1),
    "MatMulInteger": (0, 1),
    "QLinearMatMul": (0, 3),
}
_OWN_COUNTS = {"Einsum": einsum_macs, "Attention": attention_macs}


def macs_of(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """Returns the multiply-accumulates of ``node``, padding included; 0 if it is neither product nor convolution.

    A recurrent layer's are those of all its steps. A convolution that replaces a batch norm has none.
    """
    if node.op_type in RECURRENT:
        steps = math.prod(shapes[node.input[0]][:2])  # of all sequences, each with its input and its state
        return steps * sum(math.prod(shapes[node.input[index]]) for index in (1, 2))
    if node.op_type in _OWN_COUNTS:
        return _OWN_COUNTS[node.op_type](node, shapes)
    if node.op_type not in _OPERANDS or origins_of(node).get(node.name) in OPERATORS:
        return 0
    return _macs_of_operands(node, shapes)


def _macs_of_operands(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """The multiply-accumulates of a product or convolution."""
    data, weight = (shapes[node.input[index]] for index in _OPERANDS[node.op_type])
    out = math.prod(shapes[node.output[0]])
    if node.op_type == "ConvTranspose":
        return math.prod(data) * math.prod(weight[1:])
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv"):
        return out * math.prod(weight[1:])
    if node.op_type == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return out * data[0 if transposed else 1]
    return out * data[-1]


def inspect_model(data: bytes, limits: ModelLimits = LIMITS, axes: Axes = NO_AXES) -> ModelInfo:
    """Checks the ONNX file ``data`` and describes it, with its dynamic axes set to the extents of ``axes``, or to 1.

    Raises:
        InvalidModel: not ONNX, truncated, malformed, of an opset outside ``OPSETS``.
        InvalidAxes: the model has no such axes.
        ModelTooLarge: more bytes, nodes or parts of nodes than ``limits`` allow.
        ExternalData: a tensor is kept in another file.
        UnsupportedShape: a shape is unknown, negative, empty, or beyond ``limits``.
        UnsupportedType: an element type other than float32, int8, uint8, int32, int64, bool.
        UnsupportedOperator: an operator unknown to ONNX, of another domain, random, or with a subgraph.
    """
    parsed = parse_model(data, limits, axes)
    return infer_model(parsed.model, parsed.fixed, limits).info


def inspect_upload(data: bytes, limits: ModelLimits = LIMITS) -> ModelContents:
    """Checks the ONNX file ``data`` and describes it as uploaded, with its dynamic axes.

    Raises:
        InvalidModel, and its subclasses: as :func:`inspect_model`; but shapes that contradict each other when every
            dynamic axis is 1 may do so for no other reason.
    """
    parsed = parse_model(data, limits)
    try:
        info = infer_model(parsed.model, parsed.fixed, limits).info
    except InvalidModel as error:
        if not parsed.fixed.unset or None in parsed.outputs or not _may_depend_on_axes(error):
            raise
        shapeless = _counts(parsed.model)
        return ModelContents(inputs=parsed.inputs, outputs=_all(parsed.outputs), macs=None, **shapeless)
    if not parsed.fixed.unset:
        return ModelContents(**info.model_dump(exclude={"unset", "converted"}))
    outputs = [
        described or ModelTensor(name=found.name, dtype=found.dtype, shape=(None,) * len(found.shape))
        for described, found in zip(parsed.outputs, info.outputs, strict=True)
    ]
    return ModelContents(inputs=parsed.inputs, outputs=outputs, macs=info.macs, **_counts(parsed.model))


@dataclass(frozen=True)
class InferredModel:
    """What follows from a model without running it: its description, types and values, and every tensor's shape."""

    info: ModelInfo
    inferred: Inferred
    shapes: dict[str, Shape]


def infer_model(model: onnx.ModelProto, fixed: FixedInputs, limits: ModelLimits = LIMITS) -> InferredModel:
    """Infers a model that ``parse_model`` has checked, and whose axes it has set.

    Raises:
        InvalidModel, and its subclasses: as for :func:`inspect_model`, for the shapes of computed tensors.
    """
    try:
        return _infer_model(model, fixed, limits)
    except InvalidModel as error:
        if not _may_depend_on_axes(error):
            raise
        raise type(error)(f"{error.detail}{fixed.hint}", field=error.field) from error


def _are_constant(graph: onnx.GraphProto) -> list[bool]:
    """Of each node whether it makes constants of constants, as it does once and for all."""
    known = {tensor.name for tensor in graph.initializer} - {given.name for given in graph.input} | {""}
    found = []
    for node in graph.node:
        found.append(known.issuperset(node.input))
        if found[-1]:
            known.update(node.output)
    return found


def _may_depend_on_axes(error: InvalidModel) -> bool:
    return type(error) in {InvalidModel, UnsupportedShape} and "TypeInferenceError" not in error.detail


def _infer_model(model: onnx.ModelProto, fixed: FixedInputs, limits: ModelLimits) -> InferredModel:
    plain = in_qdq_form(model)
    inferred = infer_shapes(plain)
    while remove_empty_tensors(model, inferred):  # what followed from one may be another
        plain = in_qdq_form(model)
        inferred = infer_shapes(plain)
    check_computed_before(plain, inferred.types)
    shapes = tensor_shapes(plain, inferred, limits)
    counts = [macs_of(node, shapes) for node in plain.graph.node]
    if sum(counts) > limits.macs:
        raise UnsupportedShape(
            f"the model takes {sum(counts)} multiply-accumulates; the limit is {limits.macs}", field="model"
        )
    macs = sum(count for count, once in zip(counts, _are_constant(plain.graph), strict=True) if not once)
    info = ModelInfo(
        inputs=fixed.inputs,
        outputs=[_describe(info, shapes, fixed) for info in model.graph.output],
        macs=macs,
        unset=fixed.unset,
        converted=fixed.converted,
        **_counts(model),
    )
    return InferredModel(info, inferred, shapes)


def _counts(model: onnx.ModelProto) -> dict[str, Any]:
    """The fields that no shape is needed for."""
    operators = Counter(node.op_type for node in model.graph.node)
    return {
        "format": "qdq" if operators["DequantizeLinear"] or has_operator_form(model) else "float",
        "opset": opset_of(model),
        "operators": dict(sorted(operators.items())),
        "nodes": len(model.graph.node),
        "parameters": sum(math.prod(tensor.dims) for tensor in model.graph.initializer),
    }


def _all(tensors: Sequence[ModelTensor | None]) -> list[ModelTensor]:
    return [tensor for tensor in tensors if tensor is not None]


def _describe(info: onnx.ValueInfoProto, shapes: dict[str, tuple[int, ...]], fixed: FixedInputs) -> TensorInfo:
    field = f"output:{info.name}"  # that of inputs was checked when they were parsed
    if info.name not in shapes:
        raise InvalidModel(f"nothing computes the output {info.name!r}", field=field)
    check_type(info.type.tensor_type.elem_type, field)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return TensorInfo(name=info.name, dtype=fixed.outputs.get(info.name, str(dtype)), shape=shapes[info.name])
