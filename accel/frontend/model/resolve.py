"""Values that follow from shapes: what exporters compute of ``Shape``, and give to Reshape, Resize and others.

onnx's own propagation of data knows few operators. Here, every node of constants and static shapes is computed
whose tensors are small, and the shapes that depend on it are inferred.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from accel.errors import InvalidModel
from accel.frontend.model.tensors import is_static

Array = npt.NDArray[Any]
SMALL = 4096  # elements of the largest tensor that is computed

_OPERATORS = (
    "Abs Add And Cast Ceil Concat Constant ConstantOfShape Div Equal Expand Flatten Floor Gather Greater Identity Less "
    "Max Min Mod Mul Neg Not Or Pow Range ReduceMax ReduceMin ReduceProd ReduceSum Reshape Round Shape Size Slice "
    "Split Sqrt Squeeze Sub Tile Transpose Unsqueeze Where"
)
_COMPUTED = frozenset(_OPERATORS.split())
_OF_SHAPES = ("Shape", "Size")
_KEEPING = ("GroupNormalization",)  # the type of their data, which onnx does not infer


def resolve(model: onnx.ModelProto, known: dict[str, onnx.ValueInfoProto]) -> dict[str, onnx.TensorProto]:
    """The values of all computed tensors that do not depend on the inputs' data; ``known`` gains what they tell.

    Args:
        model: a checked model, with its small constants.
        known: what shape inference found, of tensors by their names.

    Raises:
        InvalidModel: shapes contradict each other.
    """
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    computed: dict[str, onnx.TensorProto] = {}
    for node in model.graph.node:
        if not all(is_static(known.get(name)) for name in node.output if name):
            known.update((info.name, info) for info in _infer(model, node, known, values))
        if node.op_type in _COMPUTED and _is_small(node, known):
            for name, value in _compute(model, node, known, values).items():
                computed[name] = values[name] = value
                known[name] = helper.make_tensor_value_info(name, value.data_type, value.dims)
    return computed


def _infer(
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
    opset = model.opset_import[0]
    try:
        found = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, opset.version),
            node,
            types,
            {name: values[name] for name in used if name in values},
            opset_imports=[helper.make_opsetid("", opset.version)],
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
                sizes = [size.dim_value for size in known[name].type.tensor_type.shape.dim]
                feeds[name] = np.broadcast_to(np.float32(0), sizes)
            else:
                return {}
        results = _evaluate(model, node, feeds)
        return {name: numpy_helper.from_array(np.asarray(value), name) for name, value in results.items()}
    except Exception:  # noqa: BLE001 - onnx raises what it likes; whoever needs the value will tell
        return {}


def _evaluate(model: onnx.ModelProto, node: onnx.NodeProto, feeds: dict[str, Array]) -> dict[str, Any]:
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
