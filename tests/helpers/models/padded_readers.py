"""An image of int8 that several layers read, with and without something around it; in QDQ form."""

from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, shape_inference

from examples.graph import Graph

CHANNELS = 24
_NONE = np.array(0, np.int8)


@dataclass(frozen=True)
class Reader:
    """A layer: a convolution of a square ``kernel``, a maximum over it, or a sum with a convolution of its own."""

    kind: str
    kernel: int = 3
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    stride: int = 1


@dataclass(frozen=True)
class PaddedImage:
    """The image [batch, channels, height, width] behind a convolution and a relu with ``zero_point``, and its readers.

    ``shown``: the image is an output, too.
    """

    batch: int
    channels: int
    height: int
    width: int
    zero_point: int
    readers: tuple[Reader, ...]
    shown: bool = False


@st.composite
def padded_images(draw: st.DrawFn, zero_points: tuple[int, ...], kinds: tuple[str, ...]) -> PaddedImage:
    """Images of any size whose readers pad unlike sides, at unlike strides."""
    readers = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        kernel = draw(st.sampled_from([1, 3, 5])) if kind == "conv" else 3
        pads = [draw(st.integers(0, kernel // 2)) for _ in range(4)] if kind == "conv" else [1, 1, 1, 1]
        stride = draw(st.sampled_from([1, 2])) if kind != "sum" else 1
        readers.append(Reader(kind, kernel, (pads[0], pads[1], pads[2], pads[3]), stride))
    return PaddedImage(
        batch=draw(st.sampled_from([1, 1, 2])),
        channels=draw(st.sampled_from([3, 16, 40])),
        height=draw(st.integers(5, 30)),
        width=draw(st.integers(5, 30)),
        zero_point=draw(st.sampled_from(zero_points)),
        readers=tuple(readers),
        shown=draw(st.booleans()),
    )


def padded_image_model(image: PaddedImage, seed: int) -> onnx.ModelProto:
    """The model; scales are powers of two, so that each machine can requantise."""
    return _Model(image, seed).made()


class _Model:
    def __init__(self, image: PaddedImage, seed: int) -> None:
        self.image, self.graph = image, Graph("padded_image")
        self.random = np.random.default_rng(seed)
        self.ends: list[str] = []

    def made(self) -> onnx.ModelProto:
        image, graph = self.image, self.graph
        shape = (image.batch, image.channels, image.height, image.width)
        given = graph.dequantize(graph.input("x", shape, TensorProto.INT8), 2.0**-5, _NONE)
        first = graph.node(
            "Relu", "first_relu", [self._conv("first", given, (CHANNELS, image.channels), Reader("conv"))]
        )
        read = self._quantised(first, image.zero_point)
        shown = [self.ends.pop()]
        for number, reader in enumerate(image.readers):
            self._read(f"reader{number}", read, reader)
        model = graph.unchecked()
        known = {info.name: info for info in shape_inference.infer_shapes(model, strict_mode=True).graph.value_info}
        model.graph.output.extend(known[name] for name in [*self.ends, *(shown if image.shown else [])])
        onnx.checker.check_model(model, full_check=True)
        return model

    def _read(self, name: str, read: str, reader: Reader) -> None:
        if reader.kind == "max":
            strides = [reader.stride] * 2
            made = self.graph.node("MaxPool", name, [read], kernel_shape=[3, 3], pads=reader.pads, strides=strides)
            self._quantised(made, self.image.zero_point)
            return
        made = self._conv(name, read, (CHANNELS, CHANNELS), reader)
        if reader.kind == "sum":
            made = self.graph.node("Add", f"{name}_sum", [read, self._quantised(made, 0)])
            self.ends.pop()
        self._quantised(self.graph.node("Relu", f"{name}_relu", [made]), -128)

    def _conv(self, name: str, read: str, shape: tuple[int, int], reader: Reader) -> str:
        size, strides = (*shape, reader.kernel, reader.kernel), [reader.stride] * 2
        weight = self.graph.constant(f"{name}_w", self.random.integers(-60, 60, size).astype(np.int8))
        operands = [read, self.graph.dequantize(weight, 2.0**-7, _NONE)]
        return self.graph.node("Conv", name, operands, pads=reader.pads, strides=strides)

    def _quantised(self, made: str, zero_point: int) -> str:
        """The tensor rounded to int8, which is an end unless something reads it."""
        self.ends.append(self.graph.quantize(made, 2.0**-3, np.array(zero_point, np.int8), f"{made}_q"))
        return self.graph.dequantize(self.ends[-1], 2.0**-3, np.array(zero_point, np.int8))
