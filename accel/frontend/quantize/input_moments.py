"""The second moments of what layers read: which sums of products of weights go with each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class _Places(NamedTuple):
    """Where some windows of a sample are.

    ``flat`` are their elements' places among those of a channel of all images [taps, windows]; ``outside`` are the
    places around the images [taps, windows], None where there are none.
    """

    flat: Array
    outside: Array | None


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
        self._samples = samples
        self._random = np.random.default_rng(0)
        self._places: dict[tuple[int, ...], list[_Places]] = {}  # of samples to come, by the shape of one
        inputs = math.prod(layer.group_rows.shape[2:])
        self._width = math.ceil(inputs / math.ceil(inputs / BLOCK))
        self._most = math.ceil(_WINDOWS / samples)
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
        self._totals += np.einsum("biw->bi", blocks)  # which takes a third of the time of a sum along the last axis
        self._count += inputs.shape[2]

    def feedback(self) -> Feedback:
        """Returns what they tell of the rounding of the layer's weights.

        Few windows tell little of how inputs go together: what lies off the diagonal counts the less.
        """
        layer, count = self._layer, np.float32(max(self._count, 1))
        moments = self._sums / count
        largest = np.einsum("bii->bi", moments).max(1, keepdims=True)
        if layer.bias is not None and layer.node.op_type != "ConvTranspose":  # each of its taps is off by itself
            means = self._totals / count
            moments -= np.float32(_OF_MEAN) * means[:, :, None] * means[:, None, :]
        diagonal = np.einsum("bii->bi", moments)
        damped = diagonal + _DAMPING * diagonal.mean(1, keepdims=True)
        squares = joined(diagonal, layer.groups, math.prod(layer.group_rows.shape[2:])).copy()
        moments *= self._count * _WORTH / (self._width + self._count * _WORTH)
        diagonal[:] = np.where(damped > 0, damped, 1)
        factor = _upper_factor(moments, diagonal, largest * np.finfo(np.float32).eps * self._width)
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
        places = self._places.setdefault(data.shape, [])
        if not places:
            places += self._places_of(data.shape)
        flat, outside = places.pop(0)
        # from channels that lie together: one after the other is read, and written as it is wanted
        by_channel = data.swapaxes(0, 1).reshape(data.shape[1], -1)
        found = np.take(by_channel, flat, axis=1, mode="clip")  # [channels, taps, windows]
        if outside is not None:
            np.copyto(found, 0, where=outside)
        return np.asarray(found.reshape(layer.groups, -1, found.shape[2]))

    def _places_of(self, shape: Sequence[int]) -> list[_Places]:
        """The places of some windows of each sample: found together, for each step takes longer than what it does."""
        plane, kernel = shape[2:], self._layer.weight.shape[2:]
        strides, dilations, pads = (
            attribute_of(self._layer.node, name, None) or usual
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
        windows = [self._some(shape[0] * math.prod(sizes)) for _ in range(self._samples)]
        if sizes == [*plane] and not any(pads):  # of one tap each
            return [_Places(each[None], None) for each in windows]
        image, *corner = np.unravel_index(np.concatenate(windows), (shape[0], *sizes))
        taps = np.indices(kernel).reshape(len(kernel), -1, 1)
        flat, inside = image * math.prod(plane), np.True_
        for axis, extent in enumerate(plane):
            at = corner[axis] * strides[axis] - pads[axis] + taps[axis] * dilations[axis]  # [taps, windows]
            inside = inside & (at >= 0) & (at < extent)
            flat = flat + at.clip(0, extent - 1) * math.prod(plane[axis + 1 :])
        outside = [None] * self._samples if inside.all() else np.split(~inside, self._samples, 1)
        return [_Places(*each) for each in zip(np.split(flat, self._samples, 1), outside, strict=True)]

    def _some(self, count: int) -> Array:
        """Different numbers below ``count``, as many as there may be."""
        return np.arange(count) if count <= self._most else self._random.choice(count, self._most, replace=False)


def _upper_factor(moments: Array, diagonal: Array, lost: Array) -> Array:
    """Returns the upper triangular root of moments [blocks, width, width], whose ``diagonal`` is a view of them.

    Of inputs whose squares are hardly numbers, or that vary by far less than their means, rounding may leave moments
    that none have: as much as it may have ``lost`` [blocks, 1] is added until they are some. Where they are infinite
    nothing is told.
    """
    width = moments.shape[1]
    if not np.isfinite(moments).all():
        return np.tile(np.eye(width, dtype=np.float32), (len(moments), 1, 1))
    while True:
        try:
            return np.ascontiguousarray(np.linalg.cholesky(moments[:, ::-1, ::-1])[:, ::-1, ::-1])
        except np.linalg.LinAlgError:
            lost = 4 * np.maximum(lost, np.finfo(np.float32).tiny)
            diagonal += lost


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
