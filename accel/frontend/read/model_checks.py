"""Checks of an uploaded model that need no shapes: structure, versions, names, operators, constants, scales.

Fields are counted as they lie in the file: protobuf makes a hundred bytes and more of one that takes two.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.errors import ExternalData, InvalidModel, ModelTooLarge, UnsupportedOperator
from accel.frontend.legalize.opset_downgrade import check_known_before
from accel.frontend.legalize.qdq_form import OPERATORS
from accel.frontend.legalize.qdq_writer import MICROSOFT
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.model_limits import NEWEST_IR_VERSION, OPSETS, ModelLimits
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS, attribute_of, constants_of, opset_of
from accel.frontend.onnx_model.tensor_types import READ_BYTES, check_dimensions, check_type
from accel.host.host_operators import is_equation
from accel.util.safe_names import name_fault, shown, tensor_fault, text_fault

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# the messages that may hold many fields: by their kind, which field of one holds which others
_INSIDE = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph"},
}
_LARGE = 4096  # bytes of a node or attribute that may hold many fields; of smaller ones there cannot be enough
_MOST_NESTED = 16  # subgraphs in each other


def has_more_fields(data: bytes, most: int) -> bool:
    """Returns whether model, graphs, functions and large nodes together have more than ``most`` fields.

    A damaged file is counted up to the damage. The time is that of at most ``most`` fields.
    """
    view = memoryview(data)
    # what is left to count: where a message begins and ends, and its kind
    left = [(0, len(data), "model")]
    count = 0
    try:
        while left:
            at, end, kind = left.pop()
            inside = _INSIDE[kind]
            while at < end:
                count += 1
                if count > most:
                    return True
                key, at = _varint(view, at)
                begin, at = _value(view, at, key & 7)
                found = inside.get(key >> 3) if key & 7 == _BYTES else None
                if found in ("graph", "function") or (found is not None and at - begin > _LARGE):
                    left.append((begin, min(at, end), found))
    except (IndexError, ValueError):
        return False  # protobuf will say so
    return False


def _value(view: memoryview, at: int, kind: int) -> tuple[int, int]:
    """Where the value begins and ends."""
    if kind == _BYTES:
        length, at = _varint(view, at)
        return at, at + length
    if kind == _VARINT:
        return at, _varint(view, at)[1]
    if kind in (_FIXED32, _FIXED64):
        return at, at + (4 if kind == _FIXED32 else 8)
    raise ValueError(kind)


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = view[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    for shift in range(7, 70, 7):
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(value)


def check_unsafe_nodes(model: onnx.ModelProto) -> None:
    """Refuses such nodes.

    Raises:
        InvalidModel: ``field`` names the node.
    """
    for node in model.graph.node:
        if node.op_type == "Split":
            _check_split(node)


def _check_split(node: onnx.NodeProto) -> None:
    parts = attribute_of(node, "num_outputs", None)
    if parts is not None and parts != len(node.output):
        raise InvalidModel(f"Split in {parts} parts has {len(node.output)} outputs", field=f"node:{node.name}")


_DROPOUT_MODE = 2  # the input of Dropout that states its mode
_QUANTIZERS = ("DequantizeLinear", "QuantizeLinear")


_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def check_structure(model: onnx.ModelProto, limits: ModelLimits) -> None:
    """Refuses a model without version, nodes or outputs, with parts that are not supported, or beyond ``limits``.

    Raises:
        InvalidModel: a part is missing or not supported, or a name is invalid or too long.
        ModelTooLarge: it has more nodes or parts of nodes than ``limits`` allow.
    """
    graph = model.graph
    if not model.ir_version or not graph.node or not graph.output:
        raise InvalidModel("the file is not ONNX, or is empty: it has no version, nodes or outputs", field="model")
    if model.training_info:
        raise InvalidModel("models with training information are not accepted", field="model")
    graphs = list(_graphs(graph))
    for function in model.functions:
        graphs += [inner for node in function.node for inner in _inner_graphs(node, 1)]
    if len(graph.node) > limits.nodes:
        raise ModelTooLarge(f"the graph has {len(graph.node)} nodes; the limit is {limits.nodes}", field="model")
    parts = _count_parts(model, graphs)
    if parts > limits.parts:
        raise ModelTooLarge(
            f"nodes and graph have {parts} inputs, outputs, attributes and constants; the limit is {limits.parts}",
            field="model",
        )
    for name in _names(model, graphs):
        # protobuf gives bytes where the file has no valid UTF-8
        if not isinstance(name, str):
            raise InvalidModel(f"the name {name!r} is not UTF-8", field="model")
        if len(name) > limits.name_length:
            raise InvalidModel(f"a name is longer than {limits.name_length} characters", field="model")
    _check_names(model, graphs)


def _graphs(graph: onnx.GraphProto, depth: int = 0) -> Iterator[onnx.GraphProto]:
    """The graph and all within it."""
    if depth > _MOST_NESTED:
        raise ModelTooLarge(f"more than {_MOST_NESTED} subgraphs lie in each other", field="model")
    yield graph
    for node in graph.node:
        yield from _inner_graphs(node, depth + 1)


def _inner_graphs(node: onnx.NodeProto, depth: int) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            yield from _graphs(graph, depth)


def check_versions(model: onnx.ModelProto) -> None:
    """Refuses versions of the format and of the operators that are not supported."""
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


def _check_names(model: onnx.ModelProto, graphs: Sequence[onnx.GraphProto]) -> None:
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
    for name in map(str, _names(model, graphs)):
        if name != graph.name and (fault := name_fault(name)):
            raise InvalidModel(f"a name cannot be '{shown(name)}': {fault}", field="model")


def _count_parts(model: onnx.ModelProto, graphs: Sequence[onnx.GraphProto]) -> int:
    nodes = [node for holder in (*graphs, *model.functions) for node in holder.node]
    parts = sum(len(node.input) + len(node.output) + len(node.attribute) for node in nodes)
    parts += len(nodes) - len(model.graph.node) + len(model.opset_import)
    for graph in graphs:
        lists = (graph.initializer, graph.sparse_initializer, graph.input, graph.output, graph.value_info)
        parts += sum(len(each) for each in lists)
    for function in model.functions:
        lists = (function.input, function.output, function.attribute, function.attribute_proto, function.value_info)
        parts += sum(len(each) for each in lists) + len(function.opset_import)
    return parts


def _names(model: onnx.ModelProto, graphs: Sequence[onnx.GraphProto]) -> Iterator[object]:
    """Every name that the compiler reads."""
    for holder in (*graphs, *model.functions):
        for node in holder.node:
            yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)
    for graph in graphs:
        for named in (graph, *graph.initializer, *graph.input, *graph.output, *graph.value_info):
            yield named.name
        yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)
        yield from (entry.domain for entry in function.opset_import)
    yield from (entry.domain for entry in model.opset_import)
    for info in (*model.graph.input, *model.graph.output):
        yield from (size.dim_param for size in info.type.tensor_type.shape.dim)


def check_operators(model: onnx.ModelProto) -> None:
    """Refuses operators, and attributes of them, that Cyclops does not support.

    Raises:
        InvalidModel: an attribute that onnx itself does not survive.
        UnsupportedOperator: the first node that uses one.
    """
    opset = opset_of(model)
    for node in model.graph.node:
        field, op = f"node:{node.name}", node.op_type
        if node.domain not in ONNX_DOMAINS and (node.domain, op) not in OPERATORS:
            raise _unknown_domain(node)
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise UnsupportedOperator(
                f"{op} has a subgraph; of such operators this compiler unrolls If, Loop and Scan, and no other",
                field=field,
            )
        if op in _RANDOM:
            raise UnsupportedOperator(f"{op} is random; its result cannot be verified", field=field)
        if node.domain not in ONNX_DOMAINS:
            continue
        try:
            schema = onnx.defs.get_schema(op, opset)
        except onnx.defs.SchemaError as error:
            raise _unknown_operator(node, opset) from error
        if schema.deprecated:
            raise UnsupportedOperator(
                f"{op} is withdrawn in opset {opset}: export the model for a newer or an older one", field=field
            )
        check_known_before(node, opset)
        if op == "Einsum":
            _check_equation(attribute_of(node, "equation", None), field)


def _unknown_domain(node: onnx.NodeProto) -> UnsupportedOperator:
    op, domain = node.op_type, node.domain
    if domain == MICROSOFT:
        known = ", ".join(sorted(name for of, name in OPERATORS if of == MICROSOFT))
        how = f"of that domain {known} are read. onnxruntime's optimiser makes others: give the model ahead of that"
    else:
        how = "it is not known what it computes: export it as operators of ONNX, or with its local function in the file"
    return UnsupportedOperator(f"{op} is of the domain {domain!r}; {how}", field=f"node:{node.name}")


def _unknown_operator(node: onnx.NodeProto, opset: int) -> UnsupportedOperator:
    """Of ONNX's domain, but not of this opset."""
    op = node.op_type
    if onnx.defs.has(op):
        versions = [each.since_version for each in onnx.defs.get_all_schemas_with_history() if each.name == op]
        first = min(versions)
        how = f"it is one from opset {first} on: export the model for that" if first > opset else "it was withdrawn"
    else:
        how = "nor of any other: onnxruntime's optimiser makes such; give the model ahead of that"
    return UnsupportedOperator(f"{op} is not an operator of ONNX opset {opset}; {how}", field=f"node:{node.name}")


_EXPORT = "export the model for inference: model.eval(), and torch.onnx.export(..., training=TrainingMode.EVAL)"
_STATED = {"BatchNormalization": 14, "Dropout": 12}  # the first opset in which a node states its mode


def check_inference(model: onnx.ModelProto) -> None:
    """Refuses nodes in training mode, whose results depend on the batch or on chance.

    Args:
        model: with all outputs that its nodes have in the file, as an old opset states the mode by their number.

    Raises:
        UnsupportedOperator: a node is in training mode, or may be; ``field`` names it.
    """
    opset, known = opset_of(model), constants_of(model.graph)
    for node in model.graph.node:
        if node.domain not in ONNX_DOMAINS or node.op_type not in _STATED:
            continue
        field, stated = f"node:{node.name}", opset >= _STATED[node.op_type]
        if node.op_type == "BatchNormalization":
            trains = attribute_of(node, "training_mode", 0) if stated else len(list(filter(None, node.output))) > 1
            if trains:
                raise UnsupportedOperator(
                    f"BatchNormalization is in training mode: it normalises by the mean and variance of the batch; "
                    f"{_EXPORT}",
                    field=field,
                )
        elif stated and len(node.input) > _DROPOUT_MODE and node.input[_DROPOUT_MODE]:
            mode = known.get(node.input[_DROPOUT_MODE])
            if mode is None:
                raise UnsupportedOperator(
                    f"whether Dropout is in training mode is decided by {node.input[_DROPOUT_MODE]!r}, which is no "
                    f"constant; {_EXPORT}",
                    field=field,
                )
            if numpy_helper.to_array(mode).any():
                raise UnsupportedOperator(
                    f"Dropout is in training mode: it drops elements at random, so its result cannot be verified; "
                    f"{_EXPORT}",
                    field=field,
                )


def _check_equation(equation: object, field: str) -> None:
    if not isinstance(equation, bytes) or not is_equation(equation.decode(errors="replace")):
        raise InvalidModel(f"the equation of Einsum has labels, as ij,jk->ik has; it is {equation!r:.100}", field=field)


def constants(model: onnx.ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """Yields every tensor stored in the model, those of subgraphs and functions too, and the field that names it."""
    yield from _graph_constants(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _node_constants(node)


def _graph_constants(graph: onnx.GraphProto) -> Iterator[tuple[str, TensorProto]]:
    for tensor in graph.initializer:
        yield f"initializer:{tensor.name}", tensor
    for sparse in graph.sparse_initializer:
        yield from ((f"initializer:{sparse.values.name}", part) for part in (sparse.values, sparse.indices))
    for node in graph.node:
        yield from _node_constants(node)


def _node_constants(node: onnx.NodeProto) -> Iterator[tuple[str, TensorProto]]:
    field = f"node:{node.name}"
    for attribute in node.attribute:
        if attribute.sparse_tensors:
            raise InvalidModel("lists of sparse tensors are not accepted", field=field)
        if attribute.HasField("t"):
            yield field, attribute.t
        yield from ((field, tensor) for tensor in attribute.tensors)
        if attribute.HasField("sparse_tensor"):
            yield field, attribute.sparse_tensor.values
            yield field, attribute.sparse_tensor.indices
        for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            yield from _graph_constants(graph)


def is_in_other_file(tensor: TensorProto) -> bool:
    """Returns whether the tensor's elements are kept in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL or tensor.external_data)


def check_constant(field: str, tensor: TensorProto, limits: ModelLimits) -> None:
    """Refuses a constant that is not in the file, of an unknown type, or without the bytes that its shape needs."""
    if is_in_other_file(tensor):
        where = "" if tensor.external_data else ", and it does not say in which; it must be in the model's folder"
        raise ExternalData(f"the elements of {tensor.name!r} are kept in another file{where}", field=field)
    if tensor.HasField("segment"):
        raise InvalidModel(f"{tensor.name!r} is stored in segments, which are not supported", field=field)
    check_type(tensor.data_type, field)
    # a constant may be empty: Resize and Clip have such inputs
    check_dimensions(tuple(tensor.dims), field, limits, smallest=0)
    count, item = math.prod(tensor.dims), READ_BYTES[tensor.data_type]
    if tensor.HasField("raw_data"):
        found, wanted = len(tensor.raw_data), count * item
    else:
        found, wanted = len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type))), count
    if found != wanted:
        raise InvalidModel(f"{tensor.name!r} of shape {tuple(tensor.dims)} is truncated or too long", field=field)


def check_scales(model: onnx.ModelProto) -> None:
    """Refuses scales of quantize and dequantize that are not positive numbers."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        tensor = constants.get(node.input[1]) if node.op_type in _QUANTIZERS and len(node.input) > 1 else None
        if tensor is None or tensor.data_type != TensorProto.FLOAT:
            continue
        scale = array_of(tensor)
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise InvalidModel("a scale is not a positive number", field=f"initializer:{tensor.name}")
