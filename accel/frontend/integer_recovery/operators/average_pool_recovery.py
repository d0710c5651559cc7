"""Recovery of average pooling: a depthwise convolution whose weights are one, worth a part of its data's scale."""

import math

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.dataflow_block import Dataflow, DataflowRewrite
from accel.frontend.integer_recovery.int8_operands import Weights, zero_point_as_int8
from accel.frontend.integer_recovery.operators.contraction_recovery import (
    IntegerContraction,
    narrowing_of,
    recover_layer,
)
from accel.frontend.integer_recovery.qdq_chains import follow_chain
from accel.frontend.integer_recovery.requantization import FINER, Narrowing, Requantize

_POOLS = {"relax.nn.avg_pool1d": "NCW", "relax.nn.avg_pool2d": "NCHW"}  # and how their data lie
_PLACES = (3, 4)  # axes of lines, which become images of height 1, and of images


def recover_average_pool(rewrite: DataflowRewrite, binding: relax.Binding, requantize: Requantize) -> bool:
    """Replaces a mean over windows of an int8 or uint8 image or line, and its chain, by the composite ``conv2d``.

    False, and nothing done, where windows average different numbers of elements, or no quantize follows.
    """
    call = rewrite.graph.call(binding.var)
    found = _averaged(call) if call is not None else None
    x = rewrite.graph.dequantised(call.args[0]) if call is not None and found is not None else None
    if call is None or found is None or x is None or not x.per_tensor or x.dtype not in ("int8", "uint8"):
        return False
    chain = follow_chain(rewrite.graph, binding.var, bias_size=None)
    if chain.output is None:
        return False  # nobody wants it in integers
    kernel, window = found

    def layer(weight: int) -> IntegerContraction:
        weights = Weights(np.full((window.groups, 1, *kernel), weight, np.int8), 0)
        zero_point = zero_point_as_int8(x)
        bias = None if zero_point == 0 else np.asarray(-zero_point * weights.sums(), np.int64)
        scale = np.asarray(x.scale / math.prod(kernel) / weight)
        return IntegerContraction(
            chain, x, zero_point, weights, bias, scale, window, macs=0, average=weight == 1, averages=True
        )

    plain = layer(1)
    narrowing = narrowing_of(plain, requantize)
    coarse = isinstance(narrowing, Narrowing) and narrowing.too_coarse(window.groups)
    return recover_layer(rewrite, layer(FINER) if coarse else plain, requantize)


def is_mean_of_rows(graph: Dataflow, binding: relax.Binding) -> bool:
    """Returns whether it is a mean along the last of three axes, which machines that compute with floats do as it is.

    As an average of lines it would be a layer whose windows the host lays out.
    """
    call = graph.call(binding.var, "relax.mean")
    return call is not None and call.args[0].ty.ndim == min(_PLACES) and _averaged(call) is not None


def _averaged(call: tvm.ir.Call) -> tuple[tuple[int, int], composite_functions.ConvolutionWindow] | None:
    """The window of a pooling or of a mean over the plane; None if it is neither, or elements count differently."""
    if not isinstance(call.args[0].ty, relax.TensorType) or call.args[0].ty.ndim not in _PLACES:
        return None
    _, channels, *plane = (int(extent) for extent in call.args[0].ty.shape)
    attributes, flat = call.attrs, [1] * (2 - len(plane))
    if call.op.name == "relax.mean":
        rank = len(plane) + 2
        axes = sorted(int(axis) % rank for axis in attributes.axis) if attributes.axis is not None else None
        if axes != list(range(2, rank)):
            return None
        height, width = (*flat, *plane)
        return (height, width), composite_functions.ConvolutionWindow((1, 1), (0, 0, 0, 0), (1, 1), channels)
    if call.op.name not in _POOLS or attributes.ceil_mode or str(attributes.layout) != _POOLS[call.op.name]:
        return None
    widths = [int(width) for width in attributes.padding]
    if any(widths) and not attributes.count_include_pad:
        return None
    (height, width), strides, dilation = (
        (*flat, *map(int, values)) for values in (attributes.pool_size, attributes.strides, attributes.dilation)
    )
    none = [0] * len(flat)
    padding = (*none, *widths[: len(plane)], *none, *widths[len(plane) :])
    return (height, width), composite_functions.ConvolutionWindow(strides, padding, dilation, channels)
