"""Convolutions of volumes as convolutions of images: each plane of the result is an image of the planes that it needs.

The planes of the data that meet the taps along the depth lie side by side as channels, and the planes of the result are
a batch. So all products of an element are one sum, which is requantised once, as the model says; the host moves the
integers before and after. A transposed convolution of volumes becomes one of images in the same way.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx

from accel.errors import UnsupportedShape
from accel.frontend.legalize.qdq_writer import QdqWriter
from accel.frontend.onnx_model.model_limits import LIMITS
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import attribute_of, set_attributes

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_VOLUME = 5  # axes: batch, channels, depth, height, width
_KEEPING = ("Clip", "Relu")  # what may stand between the sums and their quantisation


def with_depth_folded(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, int]]:
    """Returns ``model`` itself, or a copy in which quantised convolutions of volumes are convolutions of images.

    With it come the multiply-accumulates that the model states of those nodes, by name: a transposed convolution of
    images has more, as planes of zeros are among its data.

    Args:
        model: in QDQ form, with explicit padding, static shapes and named nodes. A convolution whose data or weights
            it does not quantise stays as it is.

    Raises:
        UnsupportedShape: the planes side by side are beyond the limits; ``field`` is ``node:<name>``.
    """
    if not any(node.op_type in _CONVOLUTIONS for node in model.graph.node):
        return model, {}
    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    if _VOLUME not in ranks.values():
        return model, {}
    folding = _Folding(model)
    return folding.folded(), folding.macs


class _Folding:
    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._writer = QdqWriter(model)
        self.macs: dict[str, int] = {}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for name in filter(None, node.input):
                self._readers.setdefault(name, []).append(node)
        self._outputs = {info.name for info in model.graph.output}

    def folded(self) -> onnx.ModelProto:
        """Returns the model."""
        done: set[str] = set()
        for node in self._model.graph.node:
            if node.name in done:
                continue
            if self._is_volume(node):
                done.update(self._fold(node))
            else:
                self._writer.keep(node)
        return self._writer.model()

    def _is_volume(self, node: onnx.NodeProto) -> bool:
        """Whether it is a convolution of volumes that are quantised, with weights that are, and are constant."""
        writer = self._writer
        if node.op_type not in _CONVOLUTIONS or len(writer.shape_of(node.input[1]) or ()) != _VOLUME:
            return False
        sources = [writer.producers.get(name) for name in node.input[:2]]
        if any(source is None or source.op_type != "DequantizeLinear" for source in sources):
            return False
        data, weights = (source for source in sources if source is not None)
        known = all(writer.value(name) is not None for name in (*data.input[1:], *weights.input))
        scalars = all(value is not None and value.size == 1 for value in map(writer.value, data.input[1:]))
        shapes = [writer.shape_of(name) for name in (node.input[0], node.output[0])]
        return known and scalars and all(shape is not None and len(shape) == _VOLUME for shape in shapes)

    def _fold(self, node: onnx.NodeProto) -> list[str]:
        """Write the convolution and what belongs to its result; returns the names of those nodes of the model."""
        writer = self._writer
        shape, result = (writer.shape_of(name) or () for name in (node.input[0], node.output[0]))
        elements = shape if node.op_type == "ConvTranspose" else result
        self.macs[node.name] = math.prod(elements) * math.prod(self._kernel(node)[1:])
        images = self._images(node, shape, _taken_planes(node, shape[2], self._kernel(node)[2], result[2]))
        inputs = [images, self._weights(node), *node.input[2:]]
        chain = self._chain(node)
        made = self._image_operator(node, inputs)
        current = made.output[0]
        for follower in chain:
            copy = onnx.NodeProto.FromString(follower.SerializeToString())
            copy.input[0] = current
            current = copy.output[0] = writer.fresh(f"{follower.output[0]}_planes")
            note_origin(copy, follower)
            writer.keep(copy)
        last = (chain or [node])[-1]
        batch, channels, depth, *plane = result
        apart = self._emit(node, "Reshape", "result_planes", [current], shape=[batch, depth, channels, *plane])
        writer.emit(node, "Transpose", "result", [apart], str(last.output[0]), perm=[0, 2, 1, 3, 4])
        return [node.name, *(follower.name for follower in chain)]

    def _kernel(self, node: onnx.NodeProto) -> tuple[int, ...]:
        return self._writer.shape_of(node.input[1]) or ()

    def _images(self, node: onnx.NodeProto, shape: Sequence[int], planes: npt.NDArray[np.int64]) -> str:
        """The data as a batch of images, dequantised; ``planes`` [result's planes, taps] are those that each takes."""
        writer = self._writer
        batch, channels, depth, *plane = shape
        count, taps = planes.shape
        if batch * channels * planes.size * math.prod(plane) > LIMITS.tensor_elements:
            raise UnsupportedShape(
                f"{node.op_type} of volumes: its data, {taps} planes for each of {count}, have more than "
                f"{LIMITS.tensor_elements} elements; make the volume smaller",
                field=f"node:{node.name}",
            )
        source = writer.producers[node.input[0]]
        current = source.input[0]
        if (planes == depth).any():
            zero = writer.value(source.input[2]) if len(source.input) > 2 else np.zeros((), np.uint8)
            assert zero is not None
            widths = writer.constant("widths", np.array([0] * 7 + [1, 0, 0], np.int64))
            value = writer.constant("outside", zero.reshape(()))
            current = writer.emit(node, "Pad", "bounded", [current, widths, value])
        if planes.size != depth or (planes.ravel() != np.arange(depth)).any():
            indices = writer.constant("planes", planes.ravel())
            current = writer.emit(node, "Gather", "planes", [current, indices], axis=2)
        if taps > 1:
            current = self._emit(node, "Reshape", "taps", [current], shape=[batch, channels, count, taps, *plane])
            current = writer.emit(node, "Transpose", "images", [current], perm=[0, 2, 1, 3, 4, 5])
        else:
            current = writer.emit(node, "Transpose", "images", [current], perm=[0, 2, 1, 3, 4])
        current = self._emit(node, "Reshape", "batch", [current], shape=[batch * count, channels * taps, *plane])
        return writer.emit(node, "DequantizeLinear", "data", [current, *source.input[1:]])

    def _weights(self, node: onnx.NodeProto) -> str:
        """The weights with the taps along the depth behind each of the channels that they are summed with."""
        writer = self._writer
        source = writer.producers[node.input[1]]
        integers = writer.value(source.input[0])
        assert integers is not None
        first, second, depth, *plane = integers.shape
        if node.op_type == "ConvTranspose":
            integers = integers.transpose(0, 2, 1, 3, 4).reshape(first * depth, second, *plane)
        else:
            integers = integers.reshape(first, second * depth, *plane)
        name = writer.constant(f"{source.input[0]}_planes", np.ascontiguousarray(integers))
        axis = attribute_of(source, "axis", 1) % _VOLUME
        return writer.emit(node, "DequantizeLinear", "weights", [name, *source.input[1:]], axis=axis)

    def _image_operator(self, node: onnx.NodeProto, inputs: Sequence[str]) -> onnx.NodeProto:
        """Write the convolution of images, by the name of ``node``; returns it."""
        made = onnx.NodeProto()
        made.CopyFrom(node)
        made.input[:] = inputs
        made.output[:] = [self._writer.fresh(f"{node.output[0]}_planes")]
        for name in ("kernel_shape", "strides", "dilations", "output_padding", "pads"):
            values = attribute_of(node, name, None)
            if values is not None:  # the first of three is that of the depth
                set_attributes(made, **{name: [value for at, value in enumerate(values) if at % 3]})
        self._writer.keep(made)
        return made

    def _chain(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """What alone reads the result, each the one before, up to the last quantisation; else to the last relu."""
        found: list[onnx.NodeProto] = []
        ends, current = 0, node
        while True:
            name = current.output[0]
            readers = self._readers.get(name, [])
            if len(readers) != 1 or name in self._outputs or readers[0].input[0] != name:
                break
            current = readers[0]
            quantises = current.op_type in ("DequantizeLinear", "QuantizeLinear")
            scalars = all(
                value is not None and value.size == 1
                for value in map(self._writer.value, filter(None, current.input[1:]))
            )
            if not scalars or not (quantises or current.op_type in _KEEPING):
                break
            found.append(current)
            if current.op_type == "QuantizeLinear":
                ends = len(found)
        if not ends:
            ends = next((at for at, each in enumerate(found) if each.op_type not in _KEEPING), len(found))
        return found[:ends]

    def _emit(self, node: onnx.NodeProto, op: str, suffix: str, inputs: Sequence[str], shape: Sequence[int]) -> str:
        extents = self._writer.constant("extents", np.array(shape, np.int64))
        return self._writer.emit(node, op, suffix, [*inputs, extents])


def _taken_planes(node: onnx.NodeProto, depth: int, taps: int, planes: int) -> npt.NDArray[np.int64]:
    """For each plane of the result, and each tap, the plane of the data; ``depth`` stands for one of zeros."""
    stride, dilation = (attribute_of(node, name, [1] * 3)[0] for name in ("strides", "dilations"))
    before = attribute_of(node, "pads", [0] * 6)[0]
    at, tap = np.arange(planes)[:, None], np.arange(taps)[None]
    if node.op_type == "ConvTranspose":
        found, rest = np.divmod(at + before - tap * dilation, stride)
        inside = (rest == 0) & (found >= 0) & (found < depth)
    else:
        found = at * stride + tap * dilation - before
        inside = (found >= 0) & (found < depth)
    return np.where(inside, found, depth).astype(np.int64)
