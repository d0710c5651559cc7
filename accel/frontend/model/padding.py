"""Explicit padding in place of ONNX's ``auto_pad`` and ``output_shape``."""

from collections.abc import Mapping

import onnx

from accel.frontend.model.attributes import attribute_of, set_attributes
from accel.frontend.model.shapes import Shape, known_shapes

_WINDOWED = ("AveragePool", "Conv", "ConvTranspose", "MaxPool")


def make_padding_explicit(model: onnx.ModelProto) -> None:
    """Replace ``auto_pad`` and ``output_shape`` by the ``pads`` that they stand for, in place.

    Shapes must be static. A convolution or pooling of SAME padding gives ``ceil(size / stride)`` elements, a
    transposed convolution ``size * stride``, or those that it states.
    """
    automatic = [node for node in model.graph.node if node.op_type in _WINDOWED and _is_automatic(node)]
    shapes = known_shapes(model) if automatic else {}
    for node in automatic:
        totals = _totals(node, shapes)
        less, rest = [max(t, 0) // 2 for t in totals], [max(t, 0) - max(t, 0) // 2 for t in totals]
        pads = [*less, *rest] if _mode(node) == b"SAME_UPPER" else [*rest, *less]
        set_attributes(node, auto_pad=None, output_shape=None, pads=pads)
        if node.op_type == "ConvTranspose":
            added = attribute_of(node, "output_padding", [0] * len(totals))
            set_attributes(node, output_padding=[a + max(-t, 0) for a, t in zip(added, totals, strict=True)])


def _totals(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> list[int]:
    """The padding along each axis, both ends; of a transposed convolution it may be below zero."""
    data = shapes[node.input[0]][2:]
    ones = [1] * len(data)
    if _mode(node) == b"VALID" and not attribute_of(node, "output_shape", []):
        return [0] * len(data)
    kernel = attribute_of(node, "kernel_shape", None) or shapes[node.input[1]][2:]
    windows = [1 + (k - 1) * d for k, d in zip(kernel, attribute_of(node, "dilations", ones), strict=True)]
    strides = attribute_of(node, "strides", ones)
    walks = list(zip(data, windows, strides, strict=True))
    if node.op_type != "ConvTranspose":
        return [(-(-size // stride) - 1) * stride + window - size for size, window, stride in walks]
    wanted = attribute_of(node, "output_shape", [size * stride for size, _, stride in walks])[-len(data) :]
    added = attribute_of(node, "output_padding", [0] * len(data))
    spans = [stride * (size - 1) + window for size, window, stride in walks]
    return [span + more - size for span, more, size in zip(spans, added, wanted, strict=True)]


def _is_automatic(node: onnx.NodeProto) -> bool:
    return _mode(node) != b"NOTSET" or bool(attribute_of(node, "output_shape", []))


def _mode(node: onnx.NodeProto) -> bytes:
    return bytes(attribute_of(node, "auto_pad", b"NOTSET"))
