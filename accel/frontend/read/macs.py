"""Multiply-accumulates of a node, from the shapes of its tensors."""

import math
from collections.abc import Mapping

import onnx

from accel.frontend.folding.affine import OPERATORS
from accel.frontend.model.covers import covered

Shape = tuple[int, ...]

_OPERANDS = {
    "Conv": (0, 1),
    "ConvInteger": (0, 1),
    "QLinearConv": (0, 3),
    "ConvTranspose": (0, 1),
    "Gemm": (0, 1),
    "MatMul": (0, 1),
    "MatMulInteger": (0, 1),
    "QLinearMatMul": (0, 3),
}


def macs_of(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """Multiply-accumulates of ``node``; 0 if it is no convolution or matrix product. Padding counts as data.

    Nor has it any if it is a convolution that we made of a batch norm.
    """
    if node.op_type not in _OPERANDS or covered(node).get(node.name) in OPERATORS:
        return 0
    data, weight = (shapes[node.input[index]] for index in _OPERANDS[node.op_type])
    out = math.prod(shapes[node.output[0]])
    if node.op_type == "ConvTranspose":
        return math.prod(data) * math.prod(weight[1:])
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv"):
        return out * math.prod(weight[1:])
    if node.op_type == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return out * data[0 if transposed else 1]
    return out * data[-1]
