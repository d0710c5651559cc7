"""The operators that a host graph may call, the bounds of their attributes, and how much work a node is.

None has a graph as an attribute, draws random numbers, or has a result whose shape depends on data.
"""

import math
import re
from collections.abc import Callable, Mapping

import numpy as np

from accel.errors import InvalidProgram
from accel.host import json_fields
from accel.host.host_graph import HostNode
from accel.host.json_fields import Tensor
from accel.util.arrays import Int64

_NAMES = (
    "Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift "
    "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Concat "
    "ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Div Dropout "
    "DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND "
    "Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization "
    "HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Less "
    "LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool Mean "
    "MeanVarianceNormalization Min Mish Mod Mul Neg Not OneHot Or PRelu Pad Pow QuantizeLinear RMSNormalization "
    "Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare Relu Reshape Resize RoiAlign Round ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign "
    "Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh "
    "ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor"
)
OPERATORS = frozenset(_NAMES.split())

_LEAST = {"strides": 1, "dilations": 1, "kernel_shape": 1, "pads": 0, "group": 1, "output_padding": 0, "blocksize": 1,
          "num_groups": 1, "output_height": 1, "output_width": 1, "sampling_ratio": 0, "size": 1, "num_outputs": 1,
          "kernel_size": 1, "block_size": 0}  # fmt: skip
_MOST = 1 << 24  # of such an attribute
_REFUSED = {("Resize", "antialias", 1), ("Dropout", "training_mode", 1), ("BatchNormalization", "training_mode", 1)}


_LABELS = r"[A-Za-z ]*(\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(rf"{_LABELS}(,{_LABELS})*(->{_LABELS})?")


def is_equation(text: str) -> bool:
    """Returns whether ``text`` has the form of Einsum's equations; onnx's shape inference never ends on some others."""
    return _EQUATION.fullmatch(text) is not None


def check_attributes(node: HostNode, where: str) -> None:
    """Refuses attributes that an operator's implementation may trust to be sensible.

    Raises:
        InvalidProgram: the message names the attribute.
    """
    for name, value in node.attributes.items():
        if (node.op, name, value if isinstance(value, int) else None) in _REFUSED:
            raise json_fields.wrong(f"{where}.attributes.{name}", "0", value)
        if name not in _LEAST:
            continue
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, int | float) or not _LEAST[name] <= item <= _MOST:
                raise json_fields.wrong(f"{where}.attributes.{name}", f"integers of {_LEAST[name]} to {_MOST}", value)
    if node.op == "ConvTranspose" and any(
        added >= step
        for added, step in zip(
            node.attributes.get("output_padding", ()), node.attributes.get("strides", (1,) * 3), strict=False
        )
    ):
        raise InvalidProgram(f"{where}.attributes.output_padding: expected less than the strides")
    if node.op in _POOLS:
        _check_window(node, where)
    if node.op == "Einsum" and not is_equation(node.attributes["equation"]):
        raise json_fields.wrong(f"{where}.attributes.equation", "labels as in ij,jk->ik", node.attributes["equation"])


def _check_window(node: HostNode, where: str) -> None:
    kernel, pads = node.attributes.get("kernel_shape", []), node.attributes.get("pads", [])
    if any(width >= size for width, size in zip(pads, [*kernel, *kernel], strict=False)):
        raise InvalidProgram(f"{where}.attributes.pads: expected less than the kernel's extents; got {pads}")


_POOLS = ("AveragePool", "LpPool", "MaxPool")


def work_of(node: HostNode, types: Mapping[str, Tensor]) -> int:
    """Returns about how many multiplications, additions or moves of an element a node takes."""
    each = _EACH.get(node.op)
    made = sum(_size(types[name]) for name in node.outputs if name)
    read = sum(_size(types[name]) for name in node.inputs if name)
    return read + made * (each(node, types) if each is not None else 1)


def _size(tensor: Tensor) -> int:
    return math.prod(tensor[0])


def _weights(node: HostNode, types: Mapping[str, Tensor]) -> int:
    return math.prod(types[node.inputs[1]][0][1:])


def _depth(node: HostNode, types: Mapping[str, Tensor]) -> int:
    shape = types[node.inputs[0]][0]
    if node.op == "Gemm" and node.attributes.get("transA", 0):
        return shape[0]
    return shape[-1] if shape else 1


def _kernel(node: HostNode, _types: Mapping[str, Tensor]) -> int:
    return math.prod(int(extent) for extent in node.attributes.get("kernel_shape", [1]))


def _labels(node: HostNode, types: Mapping[str, Tensor]) -> int:
    """Products that a sum over all of an equation's labels has."""
    return math.prod(label_extents(node, types).values())


def label_extents(node: HostNode, types: Mapping[str, Tensor]) -> dict[str | int, int]:
    """Returns the extent of each label of an Einsum's equation; the axes of an ellipsis are -1, -2 and so on."""
    extents: dict[str | int, int] = {}
    terms = str(node.attributes["equation"]).replace(" ", "").split("->")[0].split(",")
    for term, name in zip(terms, node.inputs, strict=False):
        shape = types[name][0]
        before, dots, after = term.partition("...")
        hidden = range(-max(len(shape) - len(before) - len(after), 0), 0) if dots else ()
        for label, size in zip([*before, *hidden, *after], shape, strict=False):
            extents[label] = max(extents.get(label, 1), size)
    return extents


_LONG = 64  # elements of a cubic neighbourhood in three dimensions
_EACH: dict[str, Callable[[HostNode, Mapping[str, Tensor]], int]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose"), _weights),
    **dict.fromkeys(("MatMul", "MatMulInteger", "Gemm"), _depth),
    **dict.fromkeys(_POOLS, _kernel),
    **dict.fromkeys(("Resize", "GridSample", "TopK"), lambda _node, _types: _LONG),
    "LRN": lambda node, _types: int(node.attributes.get("size", 1)),
    "Einsum": _labels,
    "RoiAlign": lambda node, types: 4 * math.prod(types[node.inputs[0]][0][2:]),
}


def scratch_of(node: HostNode, types: Mapping[str, Tensor]) -> int:
    """Returns about how many bytes a node takes beside its operands and results."""
    if node.op in ("Conv", "ConvInteger", "ConvTranspose"):  # patches, laid out for a product of matrices
        weights, image = types[node.inputs[1]][0], node.inputs[0] if node.op == "ConvTranspose" else node.outputs[0]
        return 4 * math.prod(weights[1:]) * math.prod(types[image][0][2:])
    if node.op == "Einsum":
        return 4 * _labels(node, types)
    if node.op in ("MatMulInteger", "Gemm", "MatMul"):
        return sum(8 * _size(types[name]) for name in (*node.inputs, *node.outputs) if name)
    return 0


_INDEXED = {"Gather": 1, "GatherElements": 1, "ScatterElements": 1}


def index_bounds(node: HostNode, types: Mapping[str, Tensor]) -> tuple[int, Int64] | None:
    """Returns which input of a node holds indices, and the extents that they index; None if none does."""
    shape = types[node.inputs[0]][0]
    if node.op in _INDEXED:
        return 1, np.array(shape[int(node.attributes.get("axis", 0))], np.int64)
    if node.op in ("GatherND", "ScatterND"):
        batch = int(node.attributes.get("batch_dims", 0))
        depth = types[node.inputs[1]][0][-1]
        return 1, np.array(shape[batch : batch + depth], np.int64)
    return None
