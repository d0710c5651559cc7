"""Parsing of an uploaded model: the checks that need no shape inference.

The file is hostile until proven otherwise. The checks go from the cheap and structural to the costly, and
nothing is allocated because the model says so.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, helper, numpy_helper

from accel.errors import (
    ExternalData,
    InvalidModel,
    ModelTooLarge,
    UnsupportedOperator,
    UnsupportedShape,
    UnsupportedType,
)
from accel.frontend.model.limits import LIMITS, NEWEST_IR_VERSION, OPSETS, Limits
from accel.frontend.model.names import name_nodes
from accel.frontend.model.shapes import invalid, without_weights
from accel.frontend.model.tensors import ITEM_BYTES, check_dimensions, check_type, static_shape
from accel.frontend.operator_form.form import OPERATORS, in_qdq_form
from accel.frontend.read.axes import FixedInputs, fix_axes
from accel.frontend.read.downgrade import check_known_before
from accel.frontend.read.flood import has_more_fields
from accel.frontend.read.hazards import check_hazards
from accel.frontend.read.info import ModelTensor
from accel.names import name_fault, shown, tensor_fault, text_fault
from accel.options import NO_AXES, Axes

_ZIP = b"PK\x03\x04"  # the service unpacks one, and the command line reads files beside the model
_ONNX_DOMAINS = ("", "ai.onnx")
_INITIALIZERS_APART = 4  # the first IR version whose initializers need not be inputs
_QUANTIZERS = ("DequantizeLinear", "QuantizeLinear")
_TRAINED = ("BatchNormalization", "Dropout", "MaxPool")
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


@dataclass(frozen=True)
class Parsed:
    """A checked model whose inputs are static, their axes, and the inputs and outputs as they were."""

    model: onnx.ModelProto
    fixed: FixedInputs
    inputs: list[ModelTensor]
    outputs: list[ModelTensor | None]


def parse_model(data: bytes, limits: Limits = LIMITS, axes: Axes = NO_AXES) -> Parsed:
    """Parse and check ``data``, all but the shapes of what the nodes compute, and set its dynamic axes.

    In the result every node has a unique name, and no initializer is also an input.

    Raises:
        InvalidAxes: the axes are none of the model's.
        InvalidModel, and its subclasses: as for ``inspect_model``.
    """
    model = decode(data, limits)
    name_nodes(model)
    _use_default_domain(model)
    _check_operators(model)
    for where, tensor in constants(model):
        _check_constant(where, tensor, limits)
    inputs = _inputs(model)
    outputs = [_described(info) for info in model.graph.output]
    fixed = fix_axes(inputs, axes)
    _set_axes(model, fixed, limits)
    _check_scales(model)
    _fix_initializers(model)
    _drop_unread(model)
    light = without_weights(model)
    for info in light.graph.output:
        info.type.tensor_type.shape.SetInParent()  # the checker wants one; it is inferred where there is none
    try:
        onnx.checker.check_model(light)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise invalid(error) from error
    plain = in_qdq_form(model)
    if plain is not model:
        _check_scales(plain)
    check_hazards(plain)
    return Parsed(model, fixed, inputs, outputs)


def decode(data: bytes, limits: Limits) -> onnx.ModelProto:
    """The model in the file ``data``, whose structure and versions are ones that are read.

    Raises:
        InvalidModel: it is not ONNX, or has parts or versions that are not read.
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
    _check_structure(model, limits)
    _check_versions(model)
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
    for named in (*model.opset_import, *model.graph.node):
        if named.domain in filter(None, _ONNX_DOMAINS):
            named.ClearField("domain")


def _drop_unread(model: onnx.ModelProto) -> None:
    """Outputs that are there for training, where nobody reads them; the shapes of some cannot be inferred."""
    read = {name for node in model.graph.node for name in node.input} | {info.name for info in model.graph.output}
    for node in model.graph.node:
        if node.op_type in _TRAINED:
            while len(node.output) > 1 and node.output[-1] not in read:
                node.output.pop()


def _check_structure(model: onnx.ModelProto, limits: Limits) -> None:
    """The parts that every model has, and those that none may have."""
    graph = model.graph
    if not model.ir_version or not graph.node or not graph.output:
        raise InvalidModel("the file is not ONNX, or is empty: it has no version, nodes or outputs", field="model")
    for part, present in (
        ("functions", model.functions),
        ("training information", model.training_info),
        ("sparse initializers", graph.sparse_initializer),
    ):
        if present:
            raise InvalidModel(f"models with {part} are not accepted", field="model")
    if len(graph.node) > limits.nodes:
        raise ModelTooLarge(f"the graph has {len(graph.node)} nodes; the limit is {limits.nodes}", field="model")
    parts = _count_parts(model)
    if parts > limits.parts:
        raise ModelTooLarge(
            f"nodes and graph have {parts} inputs, outputs, attributes and constants; the limit is {limits.parts}",
            field="model",
        )
    for name in _names(model):
        # protobuf gives bytes where the file has no valid UTF-8
        if not isinstance(name, str):
            raise InvalidModel(f"the name {name!r} is not UTF-8", field="model")
        if len(name) > limits.name_length:
            raise InvalidModel(f"a name is longer than {limits.name_length} characters", field="model")
    _check_names(model)


def _check_versions(model: onnx.ModelProto) -> None:
    """The versions of the format and of the operators are ones that are read."""
    if model.ir_version > NEWEST_IR_VERSION:
        raise InvalidModel(
            f"the model is of IR version {model.ir_version}; those up to {NEWEST_IR_VERSION} are read: save it with "
            "an older release of onnx",
            field="model",
        )
    opset, accepted = opset_of(model), f"{OPSETS.start} to {OPSETS.stop - 1}"
    if not opset:
        raise InvalidModel(f"the model states no opset of ONNX; {accepted} are read", field="model")
    if opset not in OPSETS:
        raise InvalidModel(
            f"the model is of opset {opset}; {accepted} are read: export it for one of them, say with "
            f"torch.onnx.export(..., opset_version=20), or have onnx.version_converter convert it",
            field="model",
        )


def _check_names(model: onnx.ModelProto) -> None:
    """Names that can be shown; inputs and outputs are members of npz files besides."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    if fault := text_fault(graph.name):
        raise InvalidModel(f"the graph cannot be called '{shown(graph.name)}': {fault}", field="model")
    for kind, infos in (("input", graph.input), ("output", graph.output)):
        for info in infos:
            if info.name not in constants and (fault := tensor_fault(info.name)):
                called = shown(info.name)
                raise InvalidModel(f"the {kind} cannot be called '{called}': {fault}", field=f"{kind}:{called}")
    for node in graph.node:
        if fault := name_fault(node.name):
            called = shown(node.name)
            raise InvalidModel(f"the node cannot be called '{called}': {fault}", field=f"node:{called}")
    for name in map(str, _names(model)):
        if name != graph.name and (fault := name_fault(name)):
            raise InvalidModel(f"a name cannot be '{shown(name)}': {fault}", field="model")


def _count_parts(model: onnx.ModelProto) -> int:
    graph = model.graph
    nodes = sum(len(node.input) + len(node.output) + len(node.attribute) for node in graph.node)
    lists = (graph.initializer, graph.input, graph.output, graph.value_info, model.opset_import)
    return nodes + sum(len(each) for each in lists)


def _names(model: onnx.ModelProto) -> Iterator[object]:
    """Every name that the compiler reads."""
    graph = model.graph
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for named in (graph, *graph.initializer, *graph.input, *graph.output, *graph.value_info):
        yield named.name
    yield from (entry.domain for entry in model.opset_import)
    for info in (*graph.input, *graph.output):
        yield from (size.dim_param for size in info.type.tensor_type.shape.dim)


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the ONNX operators, 0 if not stated."""
    return next((int(entry.version) for entry in model.opset_import if entry.domain in _ONNX_DOMAINS), 0)


def _check_operators(model: onnx.ModelProto) -> None:
    opset = opset_of(model)
    for node in model.graph.node:
        field, op = f"node:{node.name}", node.op_type
        if node.domain not in _ONNX_DOMAINS and (node.domain, op) not in OPERATORS:
            raise UnsupportedOperator(
                f"{op} is of the domain {node.domain!r}; of other domains than ONNX's only the quantised operators of "
                "com.microsoft are known",
                field=field,
            )
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise UnsupportedOperator(f"{op} has a subgraph; control flow cannot be compiled", field=field)
        if op in _RANDOM:
            raise UnsupportedOperator(f"{op} is random; its result cannot be verified", field=field)
        if node.domain not in _ONNX_DOMAINS:
            continue
        try:
            onnx.defs.get_schema(op, opset)
        except onnx.defs.SchemaError as error:
            raise UnsupportedOperator(f"{op} is not an operator of ONNX opset {opset}", field=field) from error
        check_known_before(node, opset)


def constants(model: onnx.ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """Every tensor stored in the model, and the field that names it."""
    for tensor in model.graph.initializer:
        yield f"initializer:{tensor.name}", tensor
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.sparse_tensors or attribute.HasField("sparse_tensor"):
                raise InvalidModel("sparse tensors are not accepted", field=f"node:{node.name}")
            for tensor in (attribute.t, *attribute.tensors) if attribute.HasField("t") else attribute.tensors:
                yield f"node:{node.name}", tensor


def is_elsewhere(tensor: TensorProto) -> bool:
    """Whether the tensor's elements are kept in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL or tensor.external_data)


def _check_constant(field: str, tensor: TensorProto, limits: Limits) -> None:
    """Kept in the file, of a known type, and with as many bytes as its shape says."""
    if is_elsewhere(tensor):
        raise ExternalData(f"the elements of {tensor.name!r} are kept in another file", field=field)
    if tensor.HasField("segment"):
        raise InvalidModel(f"{tensor.name!r} is in segments, which nobody reads", field=field)
    check_type(tensor.data_type, field)
    # a constant may be empty: Resize and Clip have such inputs
    check_dimensions(tuple(tensor.dims), field, limits, smallest=0)
    count, item = math.prod(tensor.dims), ITEM_BYTES[tensor.data_type]
    if tensor.HasField("raw_data"):
        found, wanted = len(tensor.raw_data), count * item
    else:
        found, wanted = max(len(tensor.float_data), len(tensor.int32_data), len(tensor.int64_data)), count
    if found != wanted:
        raise InvalidModel(f"{tensor.name!r} of shape {tuple(tensor.dims)} is truncated or too long", field=field)


def _check_scales(model: onnx.ModelProto) -> None:
    """The scales of quantize and dequantize are positive numbers."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        tensor = constants.get(node.input[1]) if node.op_type in _QUANTIZERS and len(node.input) > 1 else None
        if tensor is None or tensor.data_type != TensorProto.FLOAT:
            continue
        scale = numpy_helper.to_array(tensor)
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise InvalidModel("a scale is not a positive number", field=f"initializer:{tensor.name}")


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
    if tensor.elem_type not in ITEM_BYTES or not tensor.HasField("shape"):
        return None
    shape = [size.dim_value if size.HasField("dim_value") else size.dim_param or None for size in tensor.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return ModelTensor(name=info.name, dtype=str(dtype), shape=tuple(shape))


def _set_axes(model: onnx.ModelProto, fixed: FixedInputs, limits: Limits) -> None:
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
