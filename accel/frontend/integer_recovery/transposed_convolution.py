"""Transposed convolution as a convolution with more channels: one for each phase of its result.

Along an axis of stride s, input i meets weight k in element ``s i + d k - p`` of the result (d: dilation, p: padding
before). So the elements of one remainder modulo s, a phase, are a convolution of the input with every s-th weight or
so, backwards. All phases together are one convolution whose kernel is as long as the longest of them needs, with
zeros elsewhere; its results are interleaved, and cut to what the model wants.

Source: https://onnx.ai/onnx/operators/onnx__ConvTranspose.html.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from accel.frontend.integer_recovery.composite_functions import ConvolutionWindow
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor
from accel.util.arrays import Array


@dataclass(frozen=True)
class AxisPhases:
    """The phases along one axis of space.

    ``taps`` [phase][position in the kernel] are indices of weights, -1 for a zero. The interleaved result has
    ``skipped`` elements before the ``extent`` that are wanted.
    """

    taps: tuple[tuple[int, ...], ...]
    dilation: int
    padding: tuple[int, int]
    skipped: int
    extent: int


@dataclass(frozen=True)
class Phases:
    """The phases of an image's two axes, for each group of output channels."""

    axes: tuple[AxisPhases, AxisPhases]
    groups: int

    @property
    def count(self) -> int:
        """Phases, of the same number of channels each."""
        return math.prod(len(axis.taps) for axis in self.axes)

    @property
    def window(self) -> ConvolutionWindow:
        """How the convolution walks."""
        (top, bottom), (left, right) = (axis.padding for axis in self.axes)
        dilation = (self.axes[0].dilation, self.axes[1].dilation)
        return ConvolutionWindow((1, 1), (top, left, bottom, right), dilation, self.groups)

    def weights(self, value: Array, quantised: QuantisedTensor) -> tuple[Array, QuantisedTensor] | None:
        """Returns the convolution's weights [O * phases, C / groups, KH, KW], and their scales along the first axis.

        Args:
            value: [C, O / groups, KH, KW].
            quantised: of it, with one scale, or one for each of the second axis.
        """
        if not (quantised.per_tensor or quantised.axis % value.ndim == 1):
            return None
        inputs, outputs, height, width = value.shape
        wider = np.empty((inputs, outputs, height + 1, width + 1), value.dtype)
        wider[:] = quantised.zero_point.reshape(1, -1, 1, 1)  # tap -1, which stands for zero
        wider[:, :, :-1, :-1] = value
        rows, columns = (np.array(axis.taps) for axis in self.axes)
        spread = wider[:, :, rows[:, None, :, None], columns[None, :, None, :]]
        spread = spread.reshape(self.groups, inputs // self.groups, *spread.shape[1:])
        weights = spread.transpose(0, 2, 3, 4, 1, 5, 6).reshape(-1, inputs // self.groups, *spread.shape[5:])
        scale, zero_point = (
            self.along(np.tile(parameter, self.groups) if parameter.ndim else parameter)
            for parameter in (quantised.scale, quantised.zero_point)
        )
        return weights, QuantisedTensor(quantised.value, scale, zero_point, 0, quantised.dtype)

    def along(self, channels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns a number for each output channel as one for each channel of the convolution; a scalar stays one."""
        return np.repeat(channels, self.count) if channels.ndim else channels

    def interleave(self, rewrite: DataflowRewrite, result: relax.Var, like: relax.Var) -> relax.Expr:
        """Returns the convolution's ``result`` [N, O * phases, U, V] as the model's [N, O, H, W], named as ``like``."""
        batch, channels, *plane = (int(extent) for extent in result.ty.shape)
        strides = [len(axis.taps) for axis in self.axes]
        if self.count > 1:
            apart = [batch, channels // self.count, *strides, *plane]
            parts = rewrite.emit(relax.op.reshape(result, apart), like, "parts")
            turned = rewrite.emit(relax.op.permute_dims(parts, [0, 1, 4, 2, 5, 3]), like, "turned")
            plane = [extent * stride for extent, stride in zip(plane, strides, strict=True)]
            result = rewrite.emit(relax.op.reshape(turned, [batch, channels // self.count, *plane]), like, "image")
        begin = [axis.skipped for axis in self.axes]
        end = [axis.skipped + axis.extent for axis in self.axes]
        return result if begin == [0, 0] and end == plane else relax.op.strided_slice(result, [2, 3], begin, end)


def phases_along(size: int, kernel: int, stride: int, dilation: int, before: int, extent: int) -> AxisPhases:
    """Returns the phases along an axis of ``size`` elements, whose result has ``extent`` after ``before`` are cut off.

    Which element is the first of the first phase is free, as far as the others can be cut off; the kernel is to be
    short.
    """
    found = [_from(skipped, size, kernel, stride, dilation, before, extent) for skipped in range(stride)]
    return min(found, key=lambda axis: len(axis.taps[0]) * -(-(axis.extent + axis.skipped) // stride))


def _from(skipped: int, size: int, kernel: int, stride: int, dilation: int, before: int, extent: int) -> AxisPhases:
    """The phases where the first one begins ``skipped`` elements before the result.

    Element ``stride u + r`` of what is interleaved takes input ``u + offset`` through each weight of phase r.
    """
    offsets: dict[tuple[int, int], int] = {}
    for phase, weight in product(range(stride), range(kernel)):
        offset, rest = divmod(phase + before - skipped - weight * dilation, stride)
        if rest == 0:
            offsets[phase, weight] = offset
    low, high = min(offsets.values()), max(offsets.values())
    step = math.gcd(*(offset - low for offset in offsets.values())) or 1
    low = min(low, -(-low % step))  # a convolution's padding is not below zero
    table = np.full((stride, (high - low) // step + 1), -1)
    for (phase, weight), offset in offsets.items():
        table[phase, (offset - low) // step] = weight
    blocks = -(-(extent + skipped) // stride)
    padding = (-low, max(blocks - 1 + high - (size - 1), 0))
    taps = tuple(tuple(map(int, row)) for row in table)
    return AxisPhases(taps, step, padding, skipped, extent)


def image_phases(
    data: Sequence[int], result: Sequence[int], kernel: Sequence[int], window: ConvolutionWindow
) -> Phases:
    """Returns the phases of a transposed convolution, from its shapes [H, W] and how it walks its result."""
    before = window.padding[:2]
    sizes = zip(data, kernel, window.strides, window.dilation, before, result, strict=True)
    height, width = (phases_along(*along) for along in sizes)
    return Phases((height, width), window.groups)
