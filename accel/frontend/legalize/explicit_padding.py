"""Explicit padding: in place of ``auto_pad`` and ``output_shape``, and of Pad nodes before convolution and pooling."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.node_origins import join_origins
from accel.frontend.onnx_model.onnx_nodes import attribute_of, set_attributes
from accel.frontend.onnx_model.shape_inference import known_shapes

_WINDOWED = ("AveragePool", "Conv", "ConvTranspose", "MaxPool")


def make_padding_explicit(model: onnx.ModelProto) -> None:
    """Replaces ``auto_pad`` and ``output_shape`` by the ``pads`` that they stand for, in place.

    Shapes must be static. A convolution or pooling of SAME padding gives ``ceil(size / stride)`` elements, a
    transposed convolution ``size * stride``, or those that it states.
    """
    automatic = [node for node in model.graph.node if node.op_type in _WINDOWED and _is_automatic(node)]
    shapes = known_shapes(model) if automatic else {}
    for node in automatic:
        data = shapes[node.input[0]][2:]
        kernel = attribute_of(node, "kernel_shape", None) or shapes[node.input[1]][2:]
        set_attributes(node, pads=pads_of(node, data, kernel))
        if node.op_type == "ConvTranspose":
            totals = _totals(node, data, kernel)
            added = attribute_of(node, "output_padding", [0] * len(totals))
            set_attributes(node, output_padding=[a + max(-t, 0) for a, t in zip(added, totals, strict=True)])
        set_attributes(node, auto_pad=None, output_shape=None)


def pads_of(node: onnx.NodeProto, data: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """Returns the padding of a convolution or pooling ahead of each axis, and behind each, also if it is automatic.

    Args:
        node: the convolution or pooling.
        data: the extents of what it reads, without batch and channels.
        kernel: those of its windows.
    """
    if not _is_automatic(node):
        return list(attribute_of(node, "pads", [0] * 2 * len(data)))
    totals = [max(total, 0) for total in _totals(node, data, kernel)]
    less, rest = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return [*less, *rest] if _mode(node) == b"SAME_UPPER" else [*rest, *less]


def _totals(node: onnx.NodeProto, data: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """The padding along each axis, both ends; of a transposed convolution it may be below zero."""
    ones = [1] * len(data)
    if _mode(node) == b"VALID" and not attribute_of(node, "output_shape", []):
        return [0] * len(data)
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


_LOWEST = float(np.finfo(np.float32).min)
_NEVER_NEGATIVE = ("Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax")
_KEEPING = ("AveragePool", "Dropout", "GlobalAveragePool", "Identity", "MaxPool", "Reshape", "Transpose")  # the sign
_POOLS = ("AveragePool", "MaxPool")
_FIRST_WITH_INPUTS = 11  # the opset in which the widths became an input


def join_pads(model: onnx.ModelProto) -> None:
    """Moves the widths of each Pad into the ``pads`` of the node that alone reads it, in place, where that is the same.

    Zeros join a convolution and an average, the lowest number a maximum; zeros join a maximum of what is never
    negative.
    """
    opset = max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if opset >= _FIRST_WITH_INPUTS and any(node.op_type == "Pad" for node in model.graph.node):
        _Joining(model.graph).join()


class _Joining:
    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output}
        self.readers: dict[str, list[onnx.NodeProto]] = {info.name: [] for info in graph.output}
        outputs = set(self.readers)
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.alone = {name: nodes[0] for name, nodes in self.readers.items() if len(nodes) == 1 and name not in outputs}

    def join(self) -> None:
        joined: set[str] = set()
        for pad in self.graph.node:
            reader = self.alone.get(pad.output[0]) if pad.op_type == "Pad" else None
            widths = self._widths(pad, reader) if reader is not None and reader.input[0] == pad.output[0] else None
            if reader is None or widths is None or not self._fits(pad, reader, widths):
                continue
            pads = np.array(attribute_of(reader, "pads", [0] * len(widths))) + widths
            set_attributes(reader, pads=pads.tolist())
            if reader.op_type == "AveragePool":
                set_attributes(reader, count_include_pad=1)
            reader.input[0] = pad.input[0]
            join_origins(reader, pad)
            joined.add(pad.output[0])
        for index in reversed(range(len(self.graph.node))):
            if not joined.isdisjoint(self.graph.node[index].output):
                del self.graph.node[index]

    def _fits(self, pad: onnx.NodeProto, reader: onnx.NodeProto, widths: npt.NDArray[np.int64]) -> bool:
        """Whether the reader's own padding gives what the node ``pad`` does."""
        value = self._value(pad)
        own = np.array(attribute_of(reader, "pads", [0] * len(widths)))
        if value is None or attribute_of(reader, "auto_pad", b"NOTSET") != b"NOTSET":
            return False
        if reader.op_type == "Conv":
            return value == 0
        if attribute_of(reader, "ceil_mode", 0):
            return False
        if (own + widths >= np.tile(attribute_of(reader, "kernel_shape", []), 2)).any():
            return False  # onnxruntime allows no window of padding alone
        if reader.op_type == "AveragePool":
            return value == 0 and (not own.any() or bool(attribute_of(reader, "count_include_pad", 0)))
        return value <= _LOWEST or (value == 0 and not own.any() and self._never_negative(pad.input[0]))

    def _widths(self, pad: onnx.NodeProto, reader: onnx.NodeProto) -> npt.NDArray[np.int64] | None:
        """What is added before and after each axis but the first two, if nothing else is."""
        given, axes, rank = self._constant(pad, 1), self._constant(pad, 3), self._rank(reader)
        unknown = given is None or (axes is None and len(pad.input) > 3 and pad.input[3])
        if unknown or given is None or not rank or attribute_of(pad, "mode", b"constant") != b"constant":
            return None
        table = np.zeros((2, rank), np.int64)
        table[:, np.arange(rank) if axes is None else axes] = given.reshape(2, -1)
        return None if table[:, :2].any() or (table < 0).any() else table[:, 2:].ravel()

    def _rank(self, reader: onnx.NodeProto) -> int:
        """The axes of what a convolution or pooling reads, 0 if it is none."""
        if reader.op_type == "Conv":
            weight = self.constants.get(reader.input[1])
            return 0 if weight is None else len(weight.dims)
        return len(attribute_of(reader, "kernel_shape", [])) + 2 if reader.op_type in _POOLS else 0

    def _value(self, pad: onnx.NodeProto) -> float | None:
        if len(pad.input) < 3 or not pad.input[2]:
            return 0.0
        value = self._constant(pad, 2)
        return None if value is None else float(value.item())

    def _constant(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any] | None:
        name = node.input[index] if len(node.input) > index else ""
        tensor = self.constants.get(name)
        if tensor is None and name in self.makers and self.makers[name].op_type == "Constant":
            tensor = next((a.t for a in self.makers[name].attribute if a.HasField("t")), None)
        return None if tensor is None else array_of(tensor)

    def _never_negative(self, name: str) -> bool:
        while (maker := self.makers.get(name)) is not None and maker.op_type in _KEEPING:
            name = maker.input[0]
        if maker is None:
            return False
        low = self._constant(maker, 1) if maker.op_type == "Clip" else None
        return maker.op_type in _NEVER_NEGATIVE or (low is not None and bool((low >= 0).all()))
