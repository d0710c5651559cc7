"""The shapes of a model's tensors, inferred without its weights, and values that follow from shapes.

Exporters compute of ``Shape`` what they give to Reshape, Resize and others.
"""

import contextlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.errors import InvalidModel, UnsupportedShape
from accel.frontend.onnx_model.model_limits import ModelLimits
from accel.frontend.onnx_model.onnx_nodes import opset_of
from accel.frontend.onnx_model.tensor_types import ITEM_BYTES, extents_of, is_static, static_shape
from accel.util.arrays import Array

SMALL = 4096  # elements of the largest tensor that is computed

_OPERATORS = (
    "Abs Add And Cast Ceil Clip Concat Constant ConstantOfShape CumSum Div Equal Expand Flatten Floor Gather "
    "GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not Or Pow Range "
    "ReduceMax ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Shape Sign Size Slice Split Sqrt "
    "Squeeze Sub Sum Tile Transpose Trilu Unsqueeze Where Xor"
)
_COMPUTED = frozenset(_OPERATORS.split())
_OF_SHAPES = ("Shape", "Size")
_KEEPING = ("GroupNormalization",)  # the type of their data, which onnx does not infer


def resolve_values(model: onnx.ModelProto, known: dict[str, onnx.ValueInfoProto]) -> dict[str, onnx.TensorProto]:
    """Returns the values of all computed tensors that do not depend on the inputs' data; adds their types to ``known``.

    Args:
        model: a checked model, with its small constants.
        known: what shape inference found, of tensors by their names.

    Raises:
        InvalidModel: shapes contradict each other.
    """
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    computed: dict[str, onnx.TensorProto] = {}
    for node in model.graph.node:
        computed |= _resolve(model, node, known, values)
    return computed


def _resolve(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    known: dict[str, onnx.ValueInfoProto],
    values: dict[str, onnx.TensorProto],
) -> dict[str, onnx.TensorProto]:
    """Adds the types and the values of what a node makes, as far as they follow; returns the values."""
    if not all(is_static(known.get(name)) for name in node.output if name):
        known.update((info.name, info) for info in _infer_values(model, node, known, values))
    if node.op_type not in _COMPUTED or not _is_small(node, known):
        return {}
    found = _compute(model, node, known, values)
    for name, value in found.items():
        values[name] = value
        known[name] = helper.make_tensor_value_info(name, value.data_type, value.dims)
    return found


class PartialInference:
    """Types and values of the tensors of a graph that is being written, node by node, as far as they follow.

    Args:
        model: whose inputs and constants are the first tensors, and whose opset holds.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
        self._known = {info.name: info for info in model.graph.input}
        self.values: dict[str, TensorProto] = {}
        for tensor in model.graph.initializer:
            self.add_constant(tensor)

    def add_constant(self, tensor: TensorProto) -> None:
        """Note a constant."""
        self._known[tensor.name] = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        if not _is_large(tensor):
            self.values[tensor.name] = tensor

    def add(self, node: onnx.NodeProto) -> None:
        """Note what ``node`` makes; nothing if that cannot be inferred."""
        with contextlib.suppress(InvalidModel, onnx.defs.SchemaError):
            _resolve(self._model, node, self._known, self.values)

    def shape(self, name: str) -> "Shape | None":
        """Returns the shape of a tensor, if it is static."""
        info = self._known.get(name)
        return extents_of(info) if info is not None and is_static(info) else None


def _infer_values(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    known: dict[str, onnx.ValueInfoProto],
    values: dict[str, onnx.TensorProto],
) -> Iterator[onnx.ValueInfoProto]:
    """What is known of the outputs of one node whose inputs are."""
    used = [name for name in node.input if name]
    types = {name: known[name].type for name in used if name in known}
    types |= {
        name: helper.make_tensor_type_proto(values[name].data_type, values[name].dims)
        for name in used
        if name in values
    }
    if any(name not in types for name in used):
        return
    if node.op_type in _KEEPING and node.input[0] in types:
        yield onnx.ValueInfoProto(name=node.output[0], type=types[node.input[0]])
        return
    opset = opset_of(model)
    try:
        found = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, opset),
            node,
            types,
            {name: values[name] for name in used if name in values},
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=model.ir_version,
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        line = (str(error).strip().splitlines() or ["its shape cannot be inferred"])[0]
        raise InvalidModel(f"{node.op_type}: {line}", field=f"node:{node.name}") from error
    for name, type_ in found.items():
        yield onnx.ValueInfoProto(name=name, type=type_)


def _is_small(node: onnx.NodeProto, known: dict[str, onnx.ValueInfoProto]) -> bool:
    """Whether the results are of few elements; of an operator that takes constants, that bounds the work too."""
    infos = [known.get(name) for name in node.output if name]
    return all(is_static(info) for info in infos) and all(
        _elements(info.type.tensor_type) <= SMALL for info in infos if info is not None
    )


def _elements(tensor: onnx.TypeProto.Tensor) -> int:
    count = 1
    for size in tensor.shape.dim:
        count *= max(size.dim_value, 0)
    return count


def _compute(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    known: dict[str, onnx.ValueInfoProto],
    values: dict[str, onnx.TensorProto],
) -> dict[str, onnx.TensorProto]:
    """The results of one node, if its inputs are known."""
    feeds: dict[str, Array] = {}
    try:
        for name in filter(None, node.input):
            if name in values:
                feeds[name] = numpy_helper.to_array(values[name])
            elif node.op_type in _OF_SHAPES and is_static(known.get(name)):
                # its elements do not matter, and take no memory
                feeds[name] = np.broadcast_to(np.float32(0), extents_of(known[name]))
            else:
                return {}
        results = evaluate_node(model, node, feeds)
        return {name: numpy_helper.from_array(np.asarray(value), name) for name, value in results.items()}
    except Exception:  # noqa: BLE001 - onnx raises what it likes; whoever needs the value will tell
        return {}


def evaluate_node(model: onnx.ModelProto, node: onnx.NodeProto, feeds: dict[str, Array]) -> dict[str, Any]:
    """Returns the results of ``node``, of the opset of ``model``, by ONNX's own reference.

    Raises:
        Exception: whatever that raises.
    """
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - few models need it

    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_empty_tensor_value_info(name) for name in feeds],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
    )
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(alone).run(None, feeds)
    return {name: value for name, value in zip(node.output, results, strict=True) if name}


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Inferred:
    """The types of a model's computed tensors and inputs, and the values of those that are as good as constants."""

    types: dict[str, onnx.ValueInfoProto]
    values: dict[str, TensorProto]


def infer_shapes(model: onnx.ModelProto) -> Inferred:
    """Returns the types and values that can be inferred of a checked model without running it.

    Raises:
        InvalidModel: shapes contradict each other.
    """
    return _infer(without_weights(model), strict=True)


def tensor_shapes(model: onnx.ModelProto, inferred: Inferred, limits: ModelLimits) -> dict[str, Shape]:
    """Returns the shape of every tensor of a checked model.

    Raises:
        UnsupportedShape: one is not known, dynamic, empty, or the limits are exceeded.
        UnsupportedType: a tensor is of a type that is not supported.
    """
    graph = model.graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    total = sum(math.prod(tensor.dims) * ITEM_BYTES[tensor.data_type] for tensor in graph.initializer)
    fields = {info.name: f"input:{info.name}" for info in graph.input}
    fields |= {name: f"node:{node.name}" for node in graph.node for name in node.output if name}
    makers = {name: node for node in graph.node for name in node.output if name}
    # a constant may be empty: Resize and Clip have such inputs
    may_be_empty = {
        *inferred.values,
        *(name for node in graph.node if node.op_type == "Constant" for name in node.output),
    }
    for name, field in fields.items():
        info = inferred.types.get(name)
        if info is None:
            raise UnsupportedShape(f"the shape of {name!r} cannot be inferred", field=field)
        if name in makers and info.type.HasField("tensor_type") and not is_static(info):
            raise _depends_on_data(makers[name], name, info)
        shapes[name] = static_shape(info, field, limits, smallest=0 if name in may_be_empty else 1)
        total += math.prod(shapes[name]) * ITEM_BYTES[info.type.tensor_type.elem_type]
    if total > limits.total_bytes:
        raise UnsupportedShape(f"the tensors take {total} bytes; the limit is {limits.total_bytes}", field="model")
    return shapes


def _depends_on_data(node: onnx.NodeProto, name: str, info: onnx.ValueInfoProto) -> UnsupportedShape:
    """The error of the first tensor whose extents are unknown although those of all inputs are set."""
    extents = [size.dim_value if size.HasField("dim_value") else "?" for size in info.type.tensor_type.shape.dim]
    return UnsupportedShape(
        f"{node.op_type}: the shape {', '.join(map(str, extents))} of {name!r} depends on the inputs' data, and a "
        "program has tensors of one size: give what it follows from as constants, or end the model ahead of this node",
        field=f"node:{node.name}",
    )


def known_shapes(model: onnx.ModelProto, kind: int | None = None) -> dict[str, Shape]:
    """Returns the static shapes of a valid model's tensors, by name; ``kind``: those of such elements alone."""
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for name, info in _infer(without_weights(model), strict=False).types.items():
        if is_static(info):
            shapes[name], kinds[name] = extents_of(info), info.type.tensor_type.elem_type
    return {name: shape for name, shape in shapes.items() if kind in (None, kinds[name])}


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a copy of ``model`` in which large constants are inputs of their type and shape."""
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


def invalid_model(error: Exception) -> InvalidModel:
    """Returns an exception of onnx as ours, with the node that it names."""
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
    values = resolve_values(light, known) if missing or any(op == "Shape" for op, _ in outputs) else {}
    return Inferred(known, values)


def _infer_once(model: onnx.ModelProto, *, strict: bool) -> dict[str, onnx.ValueInfoProto]:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=strict)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise invalid_model(error) from error
    graph = inferred.graph
    return {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}
