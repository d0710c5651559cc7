"""Why the host computes a node: what the accelerator has no instruction for, or what this compiler does not map to one.

No accelerator document can say exp, a logarithm, a root or a division (docs/expressions.md), so of those it is the
instructions that lack them. Everything else is a limit of the compiler, which a model of another form may keep to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from accel.frontend.legalize.recurrent_cells import RECURRENT

_EXP, _DIVISION, _ROOT = "exp or division", "division", "square roots or division"
_INEXPRESSIBLE: Mapping[str, str] = {
    **dict.fromkeys(("LogSoftmax", "Sigmoid", "Silu", "Softmax", "Swish", "Tanh"), _EXP),
    **dict.fromkeys(("Div", "Reciprocal", "Softsign"), _DIVISION),
    **dict.fromkeys(("Celu", "Elu", "Exp", "Selu"), "exp"),
    **dict.fromkeys(("Mish", "ReduceLogSumExp", "Softplus"), "exp or logarithms"),
    **dict.fromkeys(("Log", "ReduceLogSum"), "logarithms"),
    **dict.fromkeys(("Erf", "Gelu"), "exp or the error function"),
    **dict.fromkeys(("ReduceL2", "Sqrt"), "square roots"),
    **dict.fromkeys(
        (
            "BatchNormalization",
            "GroupNormalization",
            "InstanceNormalization",
            "LRN",
            "LayerNormalization",
            "LpNormalization",
            "MeanVarianceNormalization",
            "RMSNormalization",
            "SimplifiedLayerNormalization",
        ),
        _ROOT,
    ),
    "Pow": "powers",
    **dict.fromkeys(
        ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan"),
        "trigonometric functions",
    ),
}  # fmt: skip
_MOVES = frozenset((
    "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape",
    "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
))  # fmt: skip
_CONTRACTIONS: Mapping[str, str] = {
    "Conv": "one of lines, images or volumes",
    "ConvTranspose": "one of lines, images or volumes",
    "ConvInteger": "one of lines or images",
    "Gemm": "one with a matrix of weights, and a bias for each column or none",
    "MatMul": "one with a matrix of weights",
    "MatMulInteger": "one with a matrix of weights",
}
_WHERE_WEIGHTS_ARE = 1
_ELEMENTWISE = frozenset(("Add", "Clip", "Max", "Min", "Mul", "Relu", "Sub", "Sum"))
_MEANS = "means of int8 images and lines over windows of one size, padding counted, whose result is quantised"
_WINDOWED: Mapping[str, str] = {
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "ReduceMean"), _MEANS),
    "MaxPool": "maxima of int8 images with one scale, in and out, and no indices",
}
_TOLD: Mapping[str, str] = {
    "Concat": "its operands are copied to lie side by side, which {title} has no instruction for",
    "DequantizeLinear": (
        "int8 becomes float32 on the host, where a float operator or a model output follows the accelerator"
    ),
    "DynamicQuantizeLinear": "it finds the range of float32 data at run time, which no instruction of {title} does",
    "QuantizeLinear": (
        "float32 becomes int8 on the host, where a float operator or a model input feeds the accelerator"
    ),
}


@dataclass(frozen=True)
class HostGraphFacts:
    """What is known of the nodes that are left to the host: which tensors are constants, and which are dequantised."""

    nodes: Mapping[str, onnx.NodeProto] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()
    dequantised: frozenset[str] = frozenset()

    @classmethod
    def of(cls, model: onnx.ModelProto) -> "HostGraphFacts":
        """Returns the facts of the nodes of ``model``."""
        constants = {tensor.name for tensor in model.graph.initializer}
        for node in model.graph.node:
            if all(name in constants or not name for name in node.input):
                constants.update(node.output)
        integers = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
        return cls({node.name: node for node in model.graph.node}, frozenset(constants), frozenset(integers))


def host_reason(name: str, op: str, title: str, facts: HostGraphFacts) -> str:
    """Returns why the host computes the node ``name``, of ``op``, and what would change that.

    Args:
        name: of a node of the quantised model.
        op: its operator.
        title: of the accelerator.
        facts: of the nodes that are left to the host.
    """
    node = facts.nodes.get(name)
    if op in _TOLD:
        return _TOLD[op].format(title=title)
    if op in _MOVES:
        return (
            f"{op} only moves elements in DRAM, between layers: {title} has no instruction for that; the host does it"
        )
    if op in _INEXPRESSIBLE:
        return f"{op}: {title} has no instruction for {_INEXPRESSIBLE[op]}; the host computes it"
    if op in _CONTRACTIONS or op in _ELEMENTWISE:
        return (_contraction if op in _CONTRACTIONS else _elementwise)(op, node, facts)
    if op in _WINDOWED:
        return f"{op}: this compiler maps {_WINDOWED[op]}; this one is another; the host computes it"
    return f"{op}: this compiler maps it to no accelerator's instructions; the host computes it"


def recurrent_reason(op: str, title: str, *, shared: bool) -> str:
    """Returns why the host has a part of a recurrent layer, or all of it if the accelerator does not share it."""
    assert op in RECURRENT
    if shared:
        return (
            f"{title} runs its products with the weights; the host computes the rest of each step in float32: "
            f"{title} has no instruction for {_EXP}, which its activations take"
        )
    return (
        f"{op}: this compiler maps its products of int8 with constant weights; the model leaves their data or weights "
        "in float32: quantise X and the weights, or give the float model; the host computes it"
    )


def _contraction(op: str, node: onnx.NodeProto | None, facts: HostGraphFacts) -> str:
    """A product or convolution that is none of those that the compiler maps."""
    ending = "; it runs on the host"
    if node is None or len(node.input) <= _WHERE_WEIGHTS_ARE:
        return f"{op}: this compiler maps {_CONTRACTIONS[op]}, of int8 with constant weights; this is another{ending}"
    operands = node.input[: _WHERE_WEIGHTS_ARE + 1]
    if facts.constants.isdisjoint(operands):
        return f"{op} of two activations: this compiler maps products with constant weights only{ending}"
    if operands[_WHERE_WEIGHTS_ARE] not in facts.constants:
        return f"{op} with its constant in front: this compiler maps products with constant weights behind{ending}"
    if op not in ("ConvInteger", "MatMulInteger") and not facts.dequantised.issuperset(operands):
        which = "weights" if operands[0] in facts.dequantised else "data"
        return (
            f"{op} of float32: this compiler maps products of int8, and the model does not quantise its {which}; "
            f"quantise data and weights{ending}"
        )
    return (
        f"{op}: this compiler maps {_CONTRACTIONS[op]}, with one scale for the data and one, or one a channel, for the "
        f"weights, and sums within int32; this is another{ending}"
    )


def _elementwise(op: str, node: onnx.NodeProto | None, facts: HostGraphFacts) -> str:
    """An operator that the compiler maps where its operands and its result are quantised."""
    given = () if node is None else node.input[: 1 if op == "Clip" else None]
    floats = [name for name in given if name and name not in facts.dequantised and name not in facts.constants]
    why = (
        "the model leaves its operands in float32: quantise them and its result"
        if floats
        else "its shapes, its scales or a result in float32 do not allow that"
    )
    return (
        f"{op}: this compiler maps it on int8 tensors of one shape with one scale each, whose result is quantised too; "
        f"{why}; the host computes it"
    )
