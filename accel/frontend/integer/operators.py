"""What the float operators say that contract data with weights: dense layers, and convolutions of lines and images."""

import math
from dataclasses import dataclass

import numpy as np
import tvm

from accel.frontend.integer.composites import Window
from accel.frontend.integer.dataflow import Array, Quantised
from accel.frontend.integer.phases import Phases, image_phases

_SPACE = {
    "relax.nn.conv1d": 1,
    "relax.nn.conv2d": 2,
    "relax.nn.conv1d_transpose": 1,
    "relax.nn.conv2d_transpose": 2,
}  # the axes; a line becomes an image of height 1
CONTRACTIONS = frozenset({"relax.matmul", *_SPACE})
"""The operators."""


@dataclass(frozen=True)
class Contraction:
    """The weights as the composites take them, [O, C / groups, KH, KW] or [K, N], and how they meet the data.

    ``value`` are the integers, ``weights`` what they stand for; the output channels are along ``axis`` of both. They
    are those of the model, but for a transposed convolution, which has ``phases`` of each. ``window`` is None for a
    dense layer. ``macs`` are the multiply-accumulates that the model states.
    """

    value: Array
    weights: Quantised
    axis: int
    window: Window | None
    phases: Phases | None
    macs: int

    @property
    def channels(self) -> int:
        """Output channels of the model."""
        return int(self.value.shape[self.axis]) // (self.phases.count if self.phases else 1)

    def along(self, channels: Array) -> Array:
        """One number, or one for each output channel of the model, for those that the weights have."""
        return self.phases.along(channels) if self.phases is not None else channels


def contraction_of(call: tvm.ir.Call, value: Array, weights: Quantised) -> Contraction | None:
    """What ``call`` contracts with constant weights; None if the weights are of another kind.

    Args:
        call: of one of ``CONTRACTIONS``.
        value: the integers of the weights.
        weights: what they stand for.
    """
    result = [int(extent) for extent in call.ty.shape.values]
    if call.op.name == "relax.matmul":
        macs = math.prod(result) * value.shape[0]
        return Contraction(value, weights, 1, None, None, macs) if value.ndim == 2 else None
    axes = _SPACE[call.op.name]
    data = [int(extent) for extent in call.args[0].ty.shape.values]
    window = _window(call, axes)
    if axes == 1:
        value = np.expand_dims(value, 2)
    if not call.op.name.endswith("transpose"):
        return Contraction(value, weights, 0, window, None, math.prod(result) * math.prod(value.shape[1:]))
    macs = math.prod(data) * math.prod(value.shape[1:])
    planes = [[1, *shape[2:]][-2:] for shape in (data, result)]
    phases = image_phases(planes[0], planes[1], value.shape[2:], window)
    spread = phases.weights(value, weights)
    return Contraction(*spread, 0, phases.window, phases, macs) if spread is not None else None


def _window(call: tvm.ir.Call, axes: int) -> Window:
    """How an operator of one or two axes of space walks an image."""
    attributes = call.attrs
    padding = [int(width) for width in attributes.padding]
    before, after = padding[:axes], padding[axes:]
    lines = 2 - axes
    return Window(
        (*[1] * lines, *map(int, attributes.strides)),
        (*[0] * lines, *before, *[0] * lines, *after),
        (*[1] * lines, *map(int, attributes.dilation)),
        int(attributes.groups),
    )
