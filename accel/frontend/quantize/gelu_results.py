"""The activations of a float model that are GELU of another: stores that compute it as integers leave no zero point.

No form of it is known here: what elementwise nodes make of one activation is evaluated, and compared with the function.
"""

import math
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from accel.frontend.onnx_model.external_data import embedded
from accel.frontend.quantize.quantization_targets import Targets
from accel.host.host_executor import open_session

_PARTS = frozenset(("Add", "Cast", "Clip", "Div", "Erf", "Gelu", "Identity", "Mul", "Neg", "Pow", "Sub", "Tanh"))
_TELLING = frozenset(("Erf", "Gelu", "Tanh"))
_MOST_NODES = 16
_REACH, _POINTS = 8, 257  # what is evaluated, from -8 to 8
_LIKE = 0.01  # how far the function may be off, as with a hyperbolic tangent in place of erf


def gelu_results(model: onnx.ModelProto, targets: Targets) -> frozenset[str]:
    """Returns the activations of ``targets`` that are GELU of another, but for a factor."""
    makers = {str(name): node for node in model.graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    known = set(targets.activations)
    return frozenset(name for name in targets.activations if _is_gelu(model, name, known - {name}, makers, constants))


def _is_gelu(
    model: onnx.ModelProto,
    result: str,
    known: set[str],
    makers: Mapping[str, onnx.NodeProto],
    constants: Mapping[str, onnx.TensorProto],
) -> bool:
    """Whether elementwise nodes between one of ``known`` and ``result`` are the function."""
    nodes, sources, used = dict[str, onnx.NodeProto](), set[str](), set[str]()
    pending = [result]
    while pending:
        name = pending.pop()
        node = makers.get(name)
        if name in known:
            sources.add(name)
        elif name in constants and math.prod(constants[name].dims) == 1:
            used.add(name)
        elif node is None or node.op_type not in _PARTS or len(nodes) >= _MOST_NODES:
            return False
        elif name not in nodes:
            nodes[name] = node
            pending += filter(None, node.input)
    if len(sources) != 1 or _TELLING.isdisjoint(node.op_type for node in nodes.values()):
        return False
    (source,) = sources
    kept = {id(node) for node in nodes.values()}
    graph = helper.make_graph(
        [node for node in model.graph.node if id(makers.get(str(node.output[0]))) in kept],
        "gelu",
        [helper.make_tensor_value_info(source, onnx.TensorProto.FLOAT, [_POINTS])],
        [onnx.ValueInfoProto(name=result)],
        [embedded(constants[name]) for name in sorted(used)],
    )
    made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    x = np.linspace(-_REACH, _REACH, _POINTS, dtype=np.float32)
    try:
        (found,) = open_session(made.SerializeToString()).run([result], {source: x})
    except Exception:  # noqa: BLE001 - onnxruntime's exceptions have no common base; then it is none
        return False
    values = found.reshape(-1).astype(np.float64)
    gelu = x / 2 * (1 + np.array([math.erf(each / math.sqrt(2)) for each in x]))
    factor = float(values @ gelu / (gelu @ gelu))
    return values.size == gelu.size and bool(np.abs(values - factor * gelu).max() <= _LIKE * abs(factor))
