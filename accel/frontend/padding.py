"""Explicit padding in place of ONNX's ``auto_pad``."""

from typing import Any

import onnx
from onnx import helper

_WINDOWED = ("AveragePool", "Conv", "MaxPool")


def make_padding_explicit(model: onnx.ModelProto) -> None:
    """Replace ``auto_pad`` of each convolution and pooling by the ``pads`` it stands for, in place.

    Shapes must be static.
    """
    automatic = [node for node in model.graph.node if node.op_type in _WINDOWED and _mode(node) != b"NOTSET"]
    if not automatic:
        return
    graph = onnx.shape_inference.infer_shapes(model).graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for info in (*graph.value_info, *graph.input, *graph.output):
        shapes[info.name] = tuple(size.dim_value for size in info.type.tensor_type.shape.dim)
    for node in automatic:
        mode = _mode(node)
        data = shapes[node.input[0]][2:]
        kernel = _attribute(node, "kernel_shape", None) or shapes[node.input[1]][2:]
        ones = [1] * len(data)
        walks = zip(data, kernel, _attribute(node, "strides", ones), _attribute(node, "dilations", ones), strict=True)
        totals = [0 if mode == b"VALID" else _same(*walk) for walk in walks]
        less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
        pads = [*less, *more] if mode == b"SAME_UPPER" else [*more, *less]
        kept = [attribute for attribute in node.attribute if attribute.name not in ("auto_pad", "pads")]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("pads", pads)])


def _same(size: int, kernel: int, stride: int, dilation: int) -> int:
    """Padding along one axis that makes the output ``ceil(size / stride)``."""
    return max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)


def _mode(node: onnx.NodeProto) -> bytes:
    return bytes(_attribute(node, "auto_pad", b"NOTSET"))


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)
