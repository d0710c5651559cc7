"""The second moments of what layers read: which sums of products of weights go with each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.frontend.quantize.quantization_targets import WeightedNode
from accel.util.arrays import Array

BLOCK = 64  # inputs that are looked at together; BLAS starts no threads for products of matrices of this size
_WINDOWS = 512  # of all samples
_WORTH = 4  # inputs of which a window tells how they go together
_OF_MEAN = 0.9  # of what the inputs' means add a bias makes up for, on other data than the samples too
_DAMPING = 0.01


@dataclass(frozen=True)
class Feedback:
    """What a layer's inputs tell of the rounding of its weights.

    The squared error of the sums is that of ``(weights - rounded) U``, weighed by D, for moments ``H = U D U^T``.

    Attributes:
        factor: U, upper triangular with ones [blocks, width, width], float32.
        squares: the mean squares of the inputs [groups, inputs], less what a bias makes up for; float32.
        left: the share of the error of weights rounded each by itself that is left where they make up for each other.
    """

    factor: Array
    squares: Array
    left: float


class InputMoments:
    """The moments of one layer's windows, over some windows of each sample.

    The inputs of an output, in the order of its weights, are cut into blocks; between blocks nothing is counted. Groups
    of channels have blocks of their own.

    Args:
        layer: a Conv, Gemm or MatMul.
        samples: how many there will be.
    """

    def __init__(self, layer: WeightedNode, samples: int) -> None:
        self._layer = layer
        self._most = math.ceil(_WINDOWS / samples)
        self._random = np.random.default_rng(0)
        inputs = math.prod(layer.group_rows.shape[2:])
        self._width = math.ceil(inputs / math.ceil(inputs / BLOCK))
        blocks = layer.groups * math.ceil(inputs / self._width)
        self._sums = np.zeros((blocks, self._width, self._width), np.float32)
        self._totals = np.zeros((blocks, self._width), np.float32)
        self._count = 0

    def add(self, data: Array) -> None:
        """Count some windows of a sample's data."""
        inputs = self.inputs(data)
        blocks = split(np.ascontiguousarray(inputs), self._width)
        for at in range(0, blocks.shape[2], BLOCK):
            some = blocks[:, :, at : at + BLOCK]
            self._sums += some @ some.swapaxes(1, 2)
        self._totals += blocks.sum(2)
        self._count += inputs.shape[2]

    def feedback(self) -> Feedback:
        """Returns what they tell of the rounding of the layer's weights.

        Few windows tell little of how inputs go together: what lies off the diagonal counts the less.
        """
        layer, count = self._layer, np.float32(max(self._count, 1))
        moments = self._sums / count
        if layer.bias is not None and layer.node.op_type != "ConvTranspose":  # each of its taps is off by itself
            means = self._totals / count
            moments -= np.float32(_OF_MEAN) * means[:, :, None] * means[:, None, :]
        diagonal = np.einsum("bii->bi", moments)
        damped = diagonal + _DAMPING * diagonal.mean(1, keepdims=True)
        squares = joined(diagonal, layer.groups, math.prod(layer.group_rows.shape[2:])).copy()
        moments *= self._count * _WORTH / (self._width + self._count * _WORTH)
        diagonal[:] = np.where(damped > 0, damped, 1)
        backwards = np.linalg.cholesky(moments[:, ::-1, ::-1])
        factor = np.ascontiguousarray(backwards[:, ::-1, ::-1])
        roots = np.einsum("bii->bi", factor).copy()
        factor /= roots[:, None, :]
        return Feedback(factor, squares, float((roots**2).sum() / diagonal.sum()))

    def inputs(self, data: Array) -> Array:
        """Returns what some windows of the data are, all if they are few; [groups, inputs, windows]."""
        layer = self._layer
        if layer.node.op_type != "Conv":
            rows = np.moveaxis(data, layer.input_axis, -1).reshape(-1, data.shape[layer.input_axis])
            return np.ascontiguousarray(
                rows[self._some(len(rows))].T.reshape(layer.groups, -1, min(len(rows), self._most))
            )
        channels, plane, kernel = data.shape[1], data.shape[2:], layer.weight.shape[2:]
        strides, dilations, pads = (
            attribute_of(layer.node, name, None) or usual
            for name, usual in (
                ("strides", [1] * len(kernel)),
                ("dilations", [1] * len(kernel)),
                ("pads", [0] * 2 * len(kernel)),
            )
        )
        reach = [(taps - 1) * dilation + 1 for taps, dilation in zip(kernel, dilations, strict=True)]
        sizes = [
            (extent + low + high - span) // stride + 1
            for extent, low, high, span, stride in zip(plane, pads, pads[len(kernel) :], reach, strides, strict=False)
        ]
        image, *corner = np.unravel_index(self._some(len(data) * math.prod(sizes)), (len(data), *sizes))
        taps = np.indices(kernel).reshape(len(kernel), -1)
        places = [
            at[:, None] * stride - low + tap * dilation
            for at, stride, low, tap, dilation in zip(corner, strides, pads, taps, dilations, strict=False)
        ]
        inside = np.logical_and.reduce([(at >= 0) & (at < extent) for at, extent in zip(places, plane, strict=True)])
        flat = np.ravel_multi_index(tuple(places), plane, mode="clip")
        places_of_images = (image[:, None] * math.prod(plane) + flat).T  # [taps, windows]
        # from channels that lie together: one after the other is read, and written as it is wanted
        by_channel = data.swapaxes(0, 1).reshape(channels, -1)
        found = np.take(by_channel, places_of_images, axis=1, mode="clip")  # [channels, taps, windows]
        if not inside.all():
            found[:, ~inside.T] = 0
        return np.asarray(found.reshape(layer.groups, -1, found.shape[2]))

    def _some(self, count: int) -> Array:
        """Different numbers below ``count``, as many as there may be."""
        return np.arange(count) if count <= self._most else self._random.choice(count, self._most, replace=False)


def split(values: Array, width: int) -> Array:
    """Returns [groups, inputs, ...] in blocks [blocks, width, ...], the last of each group filled with zeros."""
    groups, inputs, *rest = values.shape
    blocks = math.ceil(inputs / width)
    if blocks * width > inputs:
        values = np.concatenate([values, np.zeros((groups, blocks * width - inputs, *rest), values.dtype)], 1)
    return values.reshape(groups * blocks, width, *rest)


def joined(blocks: Array, groups: int, inputs: int) -> Array:
    """Returns blocks as :func:`split` makes them as [groups, inputs, ...]."""
    return blocks.reshape(groups, -1, *blocks.shape[2:])[:, :inputs]


def moments_by_tensor(layers: Sequence[WeightedNode], samples: int) -> dict[str, dict[str, InputMoments]]:
    """Returns the moments to count, by the tensor and by the layer's node."""
    found: dict[str, dict[str, InputMoments]] = {}
    for layer in layers:
        found.setdefault(str(layer.node.input[0]), {})[layer.node.name] = InputMoments(layer, samples)
    return found
