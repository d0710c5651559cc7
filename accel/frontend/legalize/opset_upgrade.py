"""Models of older opsets as models of opset 13, the first whose quantisation is per channel.

A node keeps its name and its outputs. Where an attribute has become an input, a constant is added that is called
after the node; where Softmax has lost its flattening, so are the two nodes around it. Operators that are not
listed mean in opset 13 what they meant in opset 9.

Source: the operators' changelog, https://github.com/onnx/onnx/blob/main/docs/Changelog.md.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from accel.errors import InvalidModel, UnsupportedOperator
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS, unique_name
from accel.frontend.onnx_model.shape_inference import Shape

OPSET = 13
_FLOAT_MAX = float(np.finfo(np.float32).max)


def upgrade(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> None:
    """Brings a checked ``model``, whose nodes have names, up to opset 13 in place, if it is older.

    Args:
        model: of opset 9 or later.
        shapes: of its tensors.

    Raises:
        InvalidModel: an attribute is missing that the old opset let be missing.
        UnsupportedOperator: a node has no equal in opset 13.
    """
    entries = [entry for entry in model.opset_import if entry.domain in ONNX_DOMAINS]
    opset = entries[0].version
    if opset >= OPSET:
        return
    upgrading = _Upgrade(model.graph, shapes)
    for node in list(model.graph.node):
        rule = CHANGES.get(node.op_type)
        if rule is not None and opset <= rule[0]:
            rule[1](upgrading, node)
    for entry in entries:
        entry.version = OPSET


class _Upgrade:
    """A graph on its way."""

    def __init__(self, graph: onnx.GraphProto, shapes: Mapping[str, Shape]) -> None:
        self.graph = graph
        self.shapes = shapes
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants.update((node.output[0], a.t) for a in node.attribute if a.HasField("t"))
        self._taken = {*shapes, *(node.name for node in graph.node)}

    def constant(self, node: onnx.NodeProto, name: str, value: npt.ArrayLike) -> str:
        """Returns a new constant for ``node``; ``name`` says what it is to it."""
        tensor = numpy_helper.from_array(np.asarray(value), self.name(node, name))
        self.graph.initializer.append(tensor)
        return tensor.name

    def name(self, node: onnx.NodeProto, suffix: str) -> str:
        """Returns a name that nothing has, after the node's own."""
        return unique_name(f"{node.name}_{suffix}", self._taken)


def _take(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """Remove an attribute; its value, or ``default`` if there is none."""
    for index, attribute in enumerate(node.attribute):
        if attribute.name == name:
            value = helper.get_attribute_value(attribute)
            del node.attribute[index]
            return value
    return default


def _clip(graph: _Upgrade, node: onnx.NodeProto) -> None:
    for name, unbounded in (("min", -_FLOAT_MAX), ("max", _FLOAT_MAX)):
        node.input.append(graph.constant(node, name, np.float32(_take(node, name, unbounded))))


def _dropout(graph: _Upgrade, node: onnx.NodeProto) -> None:
    node.input.append(graph.constant(node, "ratio", np.float32(_take(node, "ratio", 0.5))))


def _pad(graph: _Upgrade, node: onnx.NodeProto) -> None:
    node.input.append(graph.constant(node, "pads", np.array(_take(node, "pads"), np.int64)))
    node.input.append(graph.constant(node, "value", np.float32(_take(node, "value", 0.0))))


def _slice(graph: _Upgrade, node: onnx.NodeProto) -> None:
    for name in ("starts", "ends", "axes"):
        value = _take(node, name)
        if value is not None:
            node.input.append(graph.constant(node, name, np.array(value, np.int64)))


def _top_k(graph: _Upgrade, node: onnx.NodeProto) -> None:
    node.input.append(graph.constant(node, "k", np.array([_take(node, "k")], np.int64)))


def _scatter(_graph: _Upgrade, node: onnx.NodeProto) -> None:
    node.op_type = "ScatterElements"


def _listed(attribute: str) -> Callable[[_Upgrade, onnx.NodeProto], None]:
    """An attribute, a list of integers, that became the second input."""

    def change(graph: _Upgrade, node: onnx.NodeProto) -> None:
        value = _take(node, attribute)
        if value is not None:
            node.input.append(graph.constant(node, attribute, np.array(value, np.int64)))

    return change


def _resize(graph: _Upgrade, node: onnx.NodeProto) -> None:
    """Element ``i`` came from ``i / scale``, rounded down where the tensor grows and up where it shrinks.

    The rounding is not in ONNX's specification; it is what onnxruntime does.
    """
    data, scales = node.input
    factors = array_of(graph.constants[scales]) if scales in graph.constants else np.ones(1)
    shrinks = bool((factors < 1).any())
    mode = _take(node, "mode", b"nearest")
    if shrinks and mode == b"nearest" and (factors > 1).any():
        raise UnsupportedOperator(
            "Resize of opset 10 that grows one axis and shrinks another is not supported", field=f"node:{node.name}"
        )
    node.op_type = "Resize"
    node.input[:] = [data, "", scales]
    rounding = {"nearest_mode": "ceil" if shrinks else "floor"} if mode == b"nearest" else {}
    attributes = {"mode": mode, "coordinate_transformation_mode": "asymmetric"} | rounding
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())


def _softmax(graph: _Upgrade, node: onnx.NodeProto) -> None:
    """The axes from ``axis`` on were one: flatten to it, unless all but one of them are of one element."""
    shape = graph.shapes[node.input[0]]
    axis = _take(node, "axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise InvalidModel(
            f"{node.op_type} of a tensor of {len(shape)} axes has no axis {axis}", field=f"node:{node.name}"
        )
    axis = axis + len(shape) if axis < 0 else axis
    wide = [index for index in range(axis, len(shape)) if shape[index] > 1]
    if len(wide) <= 1 and axis < len(shape):
        node.attribute.append(helper.make_attribute("axis", wide[0] if wide else axis))
        return
    flat = [math.prod(shape[:axis]), math.prod(shape[axis:])]
    data, result = node.input[0], node.output[0]
    flattened, soft = graph.name(node, "flattened"), graph.name(node, "flat")
    before = helper.make_node(
        "Reshape",
        [data, graph.constant(node, "flat_shape", np.array(flat))],
        [flattened],
        name=graph.name(node, "flatten"),
    )
    after = helper.make_node(
        "Reshape", [soft, graph.constant(node, "shape", np.array(shape))], [result], name=graph.name(node, "restore")
    )
    node.input[0], node.output[0] = flattened, soft
    node.attribute.append(helper.make_attribute("axis", 1))
    index = next(index for index, other in enumerate(graph.graph.node) if other.name == node.name)
    for made, at in ((before, index), (after, index + 2)):
        note_origin(made, node)
        graph.graph.node.insert(at, made)


CHANGES: Mapping[str, tuple[int, Callable[[_Upgrade, onnx.NodeProto], None]]] = {
    "Clip": (10, _clip),
    "Dropout": (11, _dropout),
    "Hardmax": (12, _softmax),
    "LogSoftmax": (12, _softmax),
    "Pad": (10, _pad),
    "ReduceSum": (12, _listed("axes")),
    "Resize": (10, _resize),
    "Scatter": (10, _scatter),
    "Slice": (9, _slice),
    "Softmax": (12, _softmax),
    "Split": (12, _listed("split")),
    "Squeeze": (12, _listed("axes")),
    "TopK": (9, _top_k),
    "Unsqueeze": (12, _listed("axes")),
    "Upsample": (9, _resize),
}
"""For each operator that changed, the last opset of its old form, and what makes the new one of it."""
