"""Operators that ONNX defines by others, and that compilers do not know, as those others.

The bodies are ONNX's own (``onnx.defs``), which may depend on the types of what a node is given. What they compute of
shapes follows once shapes are inferred again.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from accel.errors import UnsupportedOperator
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS, attribute_of, set_attributes, unique_name

_BODIES = ("Attention", "CenterCropPad", "RotaryEmbedding")
_EPSILON = 1e-5
_PAST_KEY = 4  # its place among the inputs of Attention
_MOMENT_AXES = (0, 2, 3)  # of MeanVarianceNormalization that states none

Types = Mapping[str, onnx.ValueInfoProto]


def state_defaults(model: onnx.ModelProto) -> None:
    """States attributes whose default value ``onnx`` does not find in the bodies of operators, in place."""
    for node in model.graph.node:
        if node.op_type == "MeanVarianceNormalization" and node.domain in ONNX_DOMAINS:
            set_attributes(node, axes=list(attribute_of(node, "axes", _MOMENT_AXES)))


def expand_functions(model: onnx.ModelProto, types: Types) -> bool:
    """Replaces such operators by what they are defined as, in place; returns whether there were any.

    Args:
        model: whose nodes have unique names.
        types: of its inputs and computed tensors, of static shapes.

    Raises:
        UnsupportedOperator: ``onnx`` has no body for a node with these attributes; ``field`` names it.
    """
    if not any(node.op_type in _RULES and node.domain in ONNX_DOMAINS for node in model.graph.node):
        return False
    expansion = _Expansion(model, types)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        rule = _RULES.get(node.op_type) if node.domain in ONNX_DOMAINS else None
        made = [node] if rule is None else rule(expansion, node)
        for each in made if rule is not None else ():
            note_origin(each, node)
        nodes += [onnx.NodeProto.FromString(each.SerializeToString()) for each in made]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return True


def attention_macs(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Returns the multiply-accumulates of an Attention: of the scores, and of the values that they weigh."""
    query, key, value = (shapes[name] for name in node.input[:3])
    tokens, keys = query[-2], key[-2]
    if len(node.input) > _PAST_KEY and node.input[_PAST_KEY]:
        keys += shapes[node.input[_PAST_KEY]][-2]
    if len(query) == len(("batch", "tokens", "channels")):
        heads, kept = (int(attribute_of(node, name, 1)) for name in ("q_num_heads", "kv_num_heads"))
        return query[0] * tokens * keys * (query[2] + value[2] * heads // kept)
    return query[0] * query[1] * tokens * keys * (query[3] + value[3])


class _Expansion:
    """A graph whose nodes are expanded; new names are after the node's own."""

    def __init__(self, model: onnx.ModelProto, types: Types) -> None:
        self._model = model
        self._types = {info.name: info.type for info in types.values()}
        self._types |= {
            tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            for tensor in model.graph.initializer
        }
        self._taken = {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}
        self._taken |= set(self._types)

    def shape(self, name: str) -> list[int]:
        """Returns the extents of a tensor."""
        return [int(size.dim_value) for size in self._types[name].tensor_type.shape.dim]

    def name(self, node: onnx.NodeProto, suffix: str) -> str:
        """Returns a name that nothing has."""
        return unique_name(f"{node.name}/{suffix}", self._taken)

    def constant(self, node: onnx.NodeProto, suffix: str, value: Any) -> str:
        """Returns a new constant."""
        name = self.name(node, suffix)
        self._model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def body(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Returns the nodes by which ONNX defines ``node``."""
        given = dict.fromkeys(name for name in node.input if name)
        graph = helper.make_graph(
            [node],
            "body",
            [onnx.ValueInfoProto(name=name, type=self._types[name]) for name in given],
            [onnx.ValueInfoProto(name=name, type=self._types[name]) for name in node.output if name],
        )
        alone = helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version)
        try:
            made = inliner.inline_selected_functions(alone, [("", node.op_type)], inline_schema_functions=True)
        except (RuntimeError, ValueError) as error:
            raise self._without_body(node) from error
        if any(each.op_type == node.op_type for each in made.graph.node):
            raise self._without_body(node)
        outside = {*given, *node.output, ""}
        names: dict[str, str] = {}
        for index, each in enumerate(made.graph.node):
            each.name = self.name(node, f"{each.op_type}_{index}")
            for result in each.output:
                if result not in outside:
                    names[result] = self.name(node, result)
        for each in made.graph.node:
            each.input[:] = [names.get(name, name) for name in each.input]
            each.output[:] = [names.get(name, name) for name in each.output]
        return list(made.graph.node)

    def cast_like(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Returns a CastLike as the Cast to a type that is known: it does not depend on the other tensor's data."""
        data, like = node.input
        to = self._types[like].tensor_type.elem_type
        return [helper.make_node("Cast", [data], list(node.output), name=node.name, to=to)]

    @staticmethod
    def _without_body(node: onnx.NodeProto) -> UnsupportedOperator:
        return UnsupportedOperator(
            f"{node.op_type}: ONNX does not say by which operators it is computed with these attributes and inputs; "
            "export it as the simpler operators that it consists of",
            field=f"node:{node.name}",
        )

    def group_norm(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Returns a GroupNormalization as the InstanceNormalization of its groups, and a scale and bias a channel."""
        data, scale, bias = node.input
        shape = self.shape(data)
        groups = int(attribute_of(node, "num_groups", 1))
        channels = [shape[1], *[1] * (len(shape) - 2)]
        made: list[onnx.NodeProto] = []

        def emit(op: str, inputs: list[str], result: str = "", **attributes: Any) -> str:
            out = result or self.name(node, op)
            made.append(helper.make_node(op, inputs, [out], name=self.name(node, f"{op}_node"), **attributes))
            return out

        grouped = emit("Reshape", [data, self.constant(node, "groups", np.array([shape[0], groups, -1], np.int64))])
        one, zero = (self.constant(node, name, np.full(groups, value, np.float32)) for name, value in _UNITS.items())
        epsilon = attribute_of(node, "epsilon", _EPSILON)
        normal = emit("InstanceNormalization", [grouped, one, zero], epsilon=epsilon)
        whole = emit("Reshape", [normal, self.constant(node, "shape", np.array(shape, np.int64))])
        along = self.constant(node, "channels", np.array(channels, np.int64))
        scaled = emit("Mul", [whole, emit("Reshape", [scale, along])])
        emit("Add", [scaled, emit("Reshape", [bias, along])], str(node.output[0]))
        return made


_UNITS = {"one": 1.0, "zero": 0.0}
_RULES: Mapping[str, Callable[[_Expansion, onnx.NodeProto], list[onnx.NodeProto]]] = {
    **dict.fromkeys(_BODIES, _Expansion.body),
    "CastLike": _Expansion.cast_like,
    "GroupNormalization": _Expansion.group_norm,
}
