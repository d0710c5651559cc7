"""Why the host computes a node: what the accelerator has no instruction for, or what this compiler does not map to one.

An accelerator without a memory of floats has no instruction for exp, a logarithm, a root or a division, so of those it
is the instructions that lack them. Everything else is a limit of the compiler, which a model of another form may keep
to; the reason says of which. Of one that computes with floats it is what its vector programs lack (``vector_reason``).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import onnx

from accel.frontend.legalize.recurrent_cells import RECURRENT

_EXP, _DIVISION, _ROOT = "exp or division", "division", "square roots or division"
_INEXPRESSIBLE: Mapping[str, str] = {
    **dict.fromkeys(("Hardmax", "TopK"), "sorting"),
    **dict.fromkeys(("LogSoftmax", "Sigmoid", "Silu", "Softmax", "Swish", "Tanh"), _EXP),
    **dict.fromkeys(("Div", "Reciprocal", "Softsign"), _DIVISION),
    **dict.fromkeys(("Celu", "Elu", "Exp", "Selu"), "exp"),
    **dict.fromkeys(("Mish", "ReduceLogSumExp", "Softplus"), "exp or logarithms"),
    **dict.fromkeys(("Log", "ReduceLogSum"), "logarithms"),
    **dict.fromkeys(("Erf", "Gelu"), "exp or the error function"),
    **dict.fromkeys(("GlobalLpPool", "LpPool", "ReduceL2", "Sqrt"), "square roots"),
    **dict.fromkeys(
        (
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
    "ReduceProd": "products along an axis",
    **dict.fromkeys(
        ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan"),
        "trigonometric functions",
    ),
}  # fmt: skip
_ONE_TENSOR = frozenset((
    "Abs", "Ceil", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu", "Neg", "PRelu", "Round", "Shrink", "Sign",
    "ThresholdedRelu",
))  # fmt: skip
_FUNCTIONS = _ONE_TENSOR | {
    op for op, lacks in _INEXPRESSIBLE.items() if lacks in (_EXP, "exp", "exp or logarithms", "trigonometric functions")
} - {"LogSoftmax", "ReduceLogSumExp", "Softmax"} | {"Erf", "Gelu", "Log", "Reciprocal", "Softsign", "Sqrt"}  # fmt: skip
_MOVES = frozenset((
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad",
    "QLinearConcat", "Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose",
    "Trilu", "Unsqueeze",
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
_MATRIX = 2  # axes
_ELEMENTWISE = frozenset(("Add", "Clip", "Max", "Min", "Mul", "Relu", "Sub", "Sum"))
_ADDITIONS = frozenset(("Add", "Max", "Min", "Sub", "Sum"))
_MEANS = "means of int8 images and lines over windows of one size, padding counted, whose result is quantised"
_WINDOWED: Mapping[str, str] = {
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "ReduceMean"), _MEANS),
    "MaxPool": "maxima of int8 images with one scale, in and out, and no indices",
}
_SELECTING = "it has no comparisons or selections on accelerators"
_OTHERWISE: Mapping[str, str] = {
    **dict.fromkeys(
        ("And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"),
        f"{_SELECTING}; Max, Min, Relu and Clip of quantised tensors it maps",
    ),
    "Where": f"{_SELECTING}; Max, Min, Relu and Clip of quantised tensors it maps",
    **dict.fromkeys(
        ("ReduceL1", "ReduceMin", "ReduceSum", "ReduceSumSquare"),
        "of reductions it maps means over all places of an image or a line (GlobalAveragePool, ReduceMean)",
    ),
    **dict.fromkeys(
        ("GlobalMaxPool", "ReduceMax"),
        "of maxima over places it maps MaxPool of quantised images: one with the image's size as its kernel would be",
    ),
    **dict.fromkeys(("ArgMax", "ArgMin"), "it maps no search for places; a model may end ahead of it"),
    **dict.fromkeys(("CumSum",), "it maps sums along no axis; a product with a constant triangle of ones would be"),
    "Mean": "of more than one tensor it maps Sum; the factor is for the layer behind it",
    **dict.fromkeys(
        ("Resize", "Upsample"), "it maps no interpolation; a ConvTranspose with its factors as weights would be"
    ),
    "Einsum": "of two tensors it maps what is one product of matrices, or of stacks of them, and nothing else",
    "Cast": "tensors on accelerators are of the type that the document states; the host converts others",
    "OneHot": "it maps no selection by data; Gather of a constant is a table that the host reads",
    "Mod": "it maps sums, differences, products, maxima and minima of quantised tensors, and no remainders",
    **dict.fromkeys(
        ("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
        "it maps sums, differences, products, maxima and minima of quantised tensors, and nothing on their bits",
    ),
    **dict.fromkeys(
        ("GridSample", "RoiAlign"),
        "where it reads depends on data, and the loads of a program are at fixed addresses",
    ),
    **dict.fromkeys(
        ("Scatter", "ScatterElements", "ScatterND"),
        "it has no stores at places that a tensor says; Concat or Pad of what is not replaced is the host's too",
    ),
    "BatchNormalization": (
        "it multiplies one with constant statistics into the convolution, or product, that alone comes before or "
        "behind it; this one has no such neighbour"
    ),
}
_NOTHING_LIKE_IT = (
    "it maps convolutions, products of matrices, means and maxima over windows, and sums, maxima and "
    "products of quantised tensors"
)
_RESIZING = ("Resize", "Upsample")
_TOLD: Mapping[str, str] = {
    "DequantizeLinear": (
        "int8 becomes float32 on the host, where a float operator or a model output follows the accelerator"
    ),
    "DynamicQuantizeLinear": "it finds the range of float32 data at run time, which no instruction of {title} does",
    "QuantizeLinear": (
        "float32 becomes int8 on the host, where a float operator or a model input feeds the accelerator"
    ),
}
_ENDING = "; the host computes it"


def is_movement(op: str) -> bool:
    """Returns whether an operator only moves elements, or converts them at a border."""
    return op in _MOVES or op in _TOLD


def vector_reason(op: str, reason: str, title: str) -> str:
    """Returns why no vector program of an accelerator that computes with floats has a node."""
    return f"{op}: no vector program of {title} has it, as {reason}{_ENDING}"


def refused_reason(op: str, refusal: str) -> str:
    """Returns why a node is none of the integers that an accelerator has for its function; empty without a refusal."""
    return f"{op}: {refusal}{_ENDING}" if refusal else ""


def movement_reason(op: str, reason: str, title: str) -> str:
    """Returns why neither loads nor stores of an accelerator do what only moves elements, or converts them.

    ``reason`` is empty of what this compiler knows no addresses for.
    """
    if op in _TOLD:
        return _TOLD[op].format(title=title)
    if not reason:
        by_data = op.startswith("Gather") or op in ("OneHot", "ReverseSequence")
        reason = _BY_DATA if by_data else _UNADDRESSED.get(op, _NO_STEPS)
    return f"{op} only moves elements, and {reason.format(title=title)}; the host does it"


_NO_STEPS = "its elements lie at no steps of one size, by which loads and stores go"
_UNADDRESSED = {"Trilu": "puts zeros for some, which a product with a constant triangle of ones would be"}
_BY_DATA = (
    "where it reads depends on data, or is not at steps of one size, and loads of a program are at fixed addresses"
)


@dataclass(frozen=True)
class HostGraphFacts:
    """What is known of the nodes that are left to the host.

    Attributes:
        nodes: by name.
        constants: the tensors that are, and the number of their axes where they are initializers.
        dequantised: the tensors that are int8 before.
        floats: whether the model was uploaded in floats, and quantised here.
        rows: the functions of rows that stores of the accelerator compute.
    """

    nodes: Mapping[str, onnx.NodeProto] = field(default_factory=dict)
    constants: Mapping[str, int | None] = field(default_factory=dict)
    dequantised: frozenset[str] = frozenset()
    floats: bool = False
    rows: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: onnx.ModelProto, *, floats: bool = False, rows: Collection[str] = ()) -> "HostGraphFacts":
        """Returns the facts of the nodes of ``model``, for stores that compute these functions of ``rows``."""
        constants: dict[str, int | None] = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
        for node in model.graph.node:
            if all(name in constants or not name for name in node.input):
                moved = node.op_type in ("DequantizeLinear", "Identity") and constants.get(str(node.input[0]))
                constants.update(dict.fromkeys(node.output, moved or None))
        integers = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
        return cls({node.name: node for node in model.graph.node}, constants, frozenset(integers), floats, tuple(rows))


def host_reason(name: str, op: str, title: str, facts: HostGraphFacts) -> str:
    """Returns why the host computes the node ``name``, of ``op``, and what would change that.

    Args:
        name: of a node of the quantised model.
        op: its operator, which is none of :func:`is_movement`.
        title: of the accelerator.
        facts: of the nodes that are left to the host.
    """
    node = facts.nodes.get(name)
    if op in _CONTRACTIONS:
        return _contraction(op, node, facts)
    if op in _ELEMENTWISE or (op == "Div" and facts.floats and _is_by_a_constant(node, facts)):
        return _elementwise(op, node, facts)
    if op in _RESIZING and _is_nearest(node):
        return movement_reason(op, "", title)
    return f"{op}: {_lacking(op, title, facts.rows)}{_ENDING}"


def _lacking(op: str, title: str, rows: Collection[str]) -> str:
    """What is missing for an operator that the compiler does not map as it stands."""
    if rows and _INEXPRESSIBLE.get(op) == _ROOT:  # a store may have roots and divisions, of its own function alone
        known = " and ".join(rows).replace("_", " ")
        return f"of rows the stores of {title} compute {known} by its document, which says no other function of them"
    if op in _INEXPRESSIBLE:
        table = f"; {_AS_TABLE}" if op in _FUNCTIONS else ""
        return f"{title} has no instruction for {_INEXPRESSIBLE[op]}{table}"
    if op in _WINDOWED:
        return f"this compiler maps {_WINDOWED[op]}; this one is another"
    if op in _ONE_TENSOR:
        return f"of the functions of one tensor this compiler maps Relu and Clip; {_AS_TABLE}"
    return f"this compiler maps it to no accelerator's instructions: {_OTHERWISE.get(op, _NOTHING_LIKE_IT)}"


_AS_TABLE = "between an int8 tensor and its next quantisation it is a table of 256 entries, without floats"


def composed_reason(op: str, parts: Mapping[str, str]) -> str:
    """Returns why the host computes a node of ``op`` that is computed as several operators.

    Args:
        op: the operator of the model.
        parts: those that the host has, each with its reason, in the order in which they run.
    """
    kinds = list(parts)
    known = [[kind for kind in kinds if kind in told] for told in (_CONTRACTIONS, _INEXPRESSIBLE)]
    others = [kind for kind in kinds if not is_movement(kind)]
    telling = next(iter((*known[0], *known[1], *others, *kinds)))
    return f"{op} is computed as {', '.join(kinds)}; {parts[telling]}"


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
        f"in float32: quantise X and the weights, or give the float model{_ENDING}"
    )


def _is_by_a_constant(node: onnx.NodeProto | None, facts: HostGraphFacts) -> bool:
    return node is not None and node.input[1] in facts.constants


def _is_nearest(node: onnx.NodeProto | None) -> bool:
    """Whether a Resize copies elements."""
    mode = next((attribute.s for attribute in node.attribute if attribute.name == "mode"), b"") if node else b"linear"
    return mode in (b"", b"nearest")


def _contraction(op: str, node: onnx.NodeProto | None, facts: HostGraphFacts) -> str:
    """A product or convolution that is none of those that the compiler maps."""
    ending = "; it runs on the host"
    if node is None:
        return f"{op}: this compiler maps {_CONTRACTIONS[op]}, of int8 with constant weights; this is another{ending}"
    operands = node.input[: _WHERE_WEIGHTS_ARE + 1]
    if facts.constants.keys().isdisjoint(operands):
        return f"{op} of two activations: {_of_activations(op, operands, facts)}{ending}"
    if operands[_WHERE_WEIGHTS_ARE] not in facts.constants:
        return f"{op} with its constant in front: this compiler maps products with constant weights behind{ending}"
    axes = facts.constants[operands[_WHERE_WEIGHTS_ARE]]
    if op in ("Gemm", "MatMul", "MatMulInteger") and axes is not None and axes > _MATRIX:
        return (
            f"{op} with weights of {axes} axes: this compiler maps {_CONTRACTIONS[op]}; one product for each of these "
            f"matrices would be{ending}"
        )
    if op not in ("ConvInteger", "MatMulInteger") and not facts.dequantised.issuperset(operands):
        which = "weights" if operands[0] in facts.dequantised else "data"
        return (
            f"{op}: this compiler quantises and maps {_CONTRACTIONS[op]}; this is another{ending}"
            if facts.floats
            else f"{op} of float32: this compiler maps products of int8, and the model does not quantise its {which}; "
            f"quantise data and weights{ending}"
        )
    return (
        f"{op}: this compiler maps {_CONTRACTIONS[op]}, with one scale for the data and one, or one a channel, for the "
        f"weights, and sums within int32; this is another{ending}"
    )


def _of_activations(op: str, operands: Collection[str], facts: HostGraphFacts) -> str:
    """Why a product of two activations is none of those that the compiler maps."""
    if op != "MatMul":
        return f"this compiler maps {op} with constant weights, and of products of two activations MatMul"
    if facts.floats or facts.dequantised.issuperset(operands):
        return (
            "this compiler maps those of two matrices, or stacks of them, with one scale each, and sums within int32; "
            "this is another"
        )
    return "this compiler maps products of int8, and the model does not quantise both: quantise them"


def _elementwise(op: str, node: onnx.NodeProto | None, facts: HostGraphFacts) -> str:
    """An operator that the compiler maps where its operands and its result are quantised."""
    given = [name for name in (() if node is None else node.input[: 1 if op == "Clip" else None]) if name]
    floats = [name for name in given if name not in facts.dequantised and name not in facts.constants]
    if facts.floats and node is not None:
        return f"{op}: {_unquantised(op, [name for name in given if name not in facts.constants])}{_ENDING}"
    if floats:
        why = "the model leaves its operands in float32: quantise them and its result"
    else:
        why = "its result is float32, or its scales or zero points are not of that kind: quantise its result too"
    return (
        f"{op}: this compiler maps it on int8 tensors of one shape with one scale each, whose result is quantised too; "
        f"{why}{_ENDING}"
    )


def _unquantised(op: str, activations: list[str]) -> str:
    """Why this compiler's quantisation of a float model leaves an elementwise operator in floats."""
    if op in ("Clip", "Relu"):
        return (
            "this compiler quantises it behind a convolution, product, sum, mean or pooling that alone it reads; what "
            "it reads is none, or is float32"
        )
    if op in ("Div", "Mul") and len(activations) == 1:
        return (
            "this compiler multiplies a constant into the weights of the layer, with constant ones, before or behind "
            "it; this one has no such layer: multiply it into weights farther away"
        )
    if op == "Mul":
        return (
            "of products of two activations this compiler quantises those of an image, or a line, and one factor for "
            "each of its channels; others it maps in a model that is quantised around them"
        )
    if op in _ADDITIONS and len(activations) > 1:
        return (
            "this compiler quantises it except ahead of a softmax, whose scores it would round, or in a step of a "
            "recurrent layer"
        )
    return (
        "this compiler quantises sums, maxima and minima of two activations, and adds a constant to the layer before "
        "or behind it; this one has no such layer"
    )
