"""Parsing of an uploaded model: bytes to a checked model of static inputs.

The file is hostile until proven otherwise. Checks go from the cheap and structural to the costly, and no allocation
depends on an unchecked number of the model.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import helper

from accel.errors import InvalidModel, ModelTooLarge, UnsupportedShape, UnsupportedType
from accel.frontend.legalize.function_operators import state_defaults
from accel.frontend.legalize.qdq_form import in_qdq_form
from accel.frontend.onnx_model.external_data import externalize
from accel.frontend.onnx_model.model_limits import LIMITS, ModelLimits
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS, all_nodes, name_nodes, opset_of
from accel.frontend.onnx_model.shape_inference import invalid_model, without_weights
from accel.frontend.onnx_model.tensor_types import READ_BYTES, check_type, static_shape
from accel.frontend.read.constant_forms import DenseConstants
from accel.frontend.read.flat_graph import flatten
from accel.frontend.read.model_checks import (
    check_constant,
    check_inference,
    check_operators,
    check_scales,
    check_structure,
    check_unsafe_nodes,
    check_versions,
    constants,
    has_more_fields,
)
from accel.frontend.read.model_info import NO_AXES, Axes, FixedInputs, ModelTensor, fix_axes
from accel.frontend.read.single_precision import convert_to_single

_ZIP = b"PK\x03\x04"  # the service unpacks one, and the command line reads files beside the model

_INITIALIZERS_APART = 4  # the first IR version whose initializers need not be inputs


@dataclass(frozen=True)
class Parsed:
    """A checked model with static inputs, their axes, and the inputs and outputs as uploaded.

    ``uploaded`` is the model as it was in the file, if it is kept.
    """

    model: onnx.ModelProto
    fixed: FixedInputs
    inputs: list[ModelTensor]
    outputs: list[ModelTensor | None]
    uploaded: onnx.ModelProto | None = None


def parse_model(
    data: bytes, limits: ModelLimits = LIMITS, axes: Axes = NO_AXES, directory: Path | None = None
) -> Parsed:
    """Parses and checks ``data``, except for the shapes of computed tensors, and sets its dynamic axes.

    In the result every node has a unique name, no initializer is also an input, floats are float32, and there are no
    functions, subgraphs or sparse tensors. With a ``directory`` large constants are in files there, and the model as
    it was uploaded is kept.

    Raises:
        InvalidAxes: the model has no such axes, or contradicts them.
        InvalidModel, and its subclasses: as for ``inspect_model``.
    """
    model = decode_model(data, limits)
    name_nodes(model)
    _use_default_domain(model)
    for where, tensor in constants(model):
        check_constant(where, tensor, limits)
    uploaded = None
    if directory is not None:
        uploaded = externalize(model, directory)
        model = onnx.ModelProto()
        model.CopyFrom(uploaded)
    inputs = _inputs(model)
    outputs = [_described(info) for info in model.graph.output]
    converted = convert_to_single(model)
    dense = DenseConstants(limits)
    dense.convert_graph(model.graph)
    stated = {each.name: each.dtype for each in outputs if each is not None}
    fixed = replace(fix_axes(inputs, axes), converted=converted, outputs=stated)
    _set_axes(model, fixed, limits)
    flatten(model, limits, dense)
    check_operators(model)
    state_defaults(model)
    check_inference(model)
    check_scales(model)
    _fix_initializers(model)
    _drop_unread(model)
    light = without_weights(model)
    for info in light.graph.output:
        info.type.tensor_type.shape.SetInParent()  # the checker wants one; it is inferred where there is none
    try:
        onnx.checker.check_model(light)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise invalid_model(error) from error
    plain = in_qdq_form(model)
    if plain is not model:
        check_scales(plain)
    check_unsafe_nodes(plain)
    return Parsed(model, fixed, inputs, outputs, uploaded)


def decode_model(data: bytes, limits: ModelLimits) -> onnx.ModelProto:
    """Returns the model in the file ``data``, once its structure and versions are checked.

    Raises:
        InvalidModel: it is not ONNX, or has parts or versions that are not supported.
        ModelTooLarge: it has more bytes, nodes or parts of nodes than ``limits`` allow.
    """
    if len(data) > limits.file_bytes:
        raise ModelTooLarge(f"the file has {len(data)} bytes; the limit is {limits.file_bytes}", field="model")
    most = limits.nodes + limits.parts
    if has_more_fields(data, most):
        raise ModelTooLarge(f"the model has more than {most} nodes, constants and other fields", field="model")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        told = "a zip: unpack it" if data.startswith(_ZIP) else "not ONNX, or is truncated"
        raise InvalidModel(f"the file is {told}", field="model") from error
    check_structure(model, limits)
    check_versions(model)
    return model


def _fix_initializers(model: onnx.ModelProto) -> None:
    """Initializers are constants: before IR version 4 each had to be declared as an input, a default value."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in constants]
    if len(inputs) < len(model.graph.input):
        inputs = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in inputs]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, _INITIALIZERS_APART)


def _use_default_domain(model: onnx.ModelProto) -> None:
    """ONNX's own domain has two names, of which its checker knows one."""
    named = [*model.opset_import, *all_nodes(model)]
    for each in (*named, *(entry for function in model.functions for entry in function.opset_import)):
        if each.domain in filter(None, ONNX_DOMAINS):
            each.ClearField("domain")


def _drop_unread(model: onnx.ModelProto) -> None:
    """Optional outputs that nobody reads; the shapes of some, which are there for training, cannot be inferred."""
    read = {name for node in model.graph.node for name in node.input} | {info.name for info in model.graph.output}
    opset = opset_of(model)
    for node in model.graph.node:
        if len(node.output) < 2 or node.domain not in ONNX_DOMAINS:
            continue
        schema = onnx.defs.get_schema(node.op_type, opset)
        if schema.outputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
            if "" in node.output:  # they count, and onnxruntime crashes of them
                raise InvalidModel(f"{node.op_type} has an output without a name", field=f"node:{node.name}")
            continue
        while len(node.output) > max(schema.min_output, 1) and node.output[-1] not in read - {""}:
            node.output.pop()


def _inputs(model: onnx.ModelProto) -> list[ModelTensor]:
    """The inputs as they are described, each of a supported type."""
    constants = {tensor.name for tensor in model.graph.initializer}
    found: list[ModelTensor] = []
    for info in model.graph.input:
        if info.name in constants:
            continue
        field = f"input:{info.name}"
        if not info.type.HasField("tensor_type"):
            raise UnsupportedType(f"{info.name!r} is not a dense tensor", field=field)
        check_type(info.type.tensor_type.elem_type, field)
        described = _described(info)
        if described is None:
            raise UnsupportedShape(f"{info.name!r} has no shape; export it with one", field=field)
        found.append(described)
    if not found:
        raise InvalidModel("the model has no inputs", field="model")
    return found


def _described(info: onnx.ValueInfoProto) -> ModelTensor | None:
    """An input or output as the model states it; None if it states no supported type or no shape."""
    tensor = info.type.tensor_type
    if tensor.elem_type not in READ_BYTES or not tensor.HasField("shape"):
        return None
    shape = [size.dim_value if size.HasField("dim_value") else size.dim_param or None for size in tensor.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return ModelTensor(name=info.name, dtype=str(dtype), shape=tuple(shape))


def _set_axes(model: onnx.ModelProto, fixed: FixedInputs, limits: ModelLimits) -> None:
    """Give the inputs their extents, and drop what the model says of other tensors where that depends on them."""
    extents = {tensor.name: tensor.shape for tensor in fixed.inputs}
    for info in model.graph.input:
        if info.name not in extents:
            continue
        for size, extent in zip(info.type.tensor_type.shape.dim, extents[info.name], strict=True):
            size.dim_value = extent
        static_shape(info, f"input:{info.name}", limits)
    if not fixed.dims and not fixed.unset:
        return
    for info in (*model.graph.value_info, *model.graph.output):
        for size in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if size.dim_param in fixed.dims:
                size.dim_value = fixed.dims[size.dim_param]
