"""Recovery of convolutions, of lines and images, and of dense layers, all with constant weights."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.composite_functions import ConvolutionWindow
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor, shape_of
from accel.frontend.integer_recovery.int8_operands import (
    Weights,
    from_int8,
    int8_output,
    integer_weights,
    to_int8,
    zero_point_as_int8,
)
from accel.frontend.integer_recovery.int32_sums import (
    as_real_numbers,
    balanced,
    clipped,
    requantised_by_host,
    stored_composite,
)
from accel.frontend.integer_recovery.qdq_chains import Chain, follow_chain
from accel.frontend.integer_recovery.requantization import (
    INT32_MAX,
    Accumulator,
    Narrowing,
    Requantize,
    as_float32_factor,
    epilogue_of,
)
from accel.frontend.integer_recovery.transposed_convolution import Phases, image_phases
from accel.util.arrays import Array

_SPACE = {
    "relax.nn.conv1d": 1,
    "relax.nn.conv2d": 2,
    "relax.nn.conv1d_transpose": 1,
    "relax.nn.conv2d_transpose": 2,
}  # the axes; a line becomes an image of height 1
CONTRACTIONS = frozenset({"relax.matmul", *_SPACE})
"""The operators."""


@dataclass(frozen=True)
class ContractionWeights:
    """The weights as the composites take them, [O, C / groups, KH, KW] or [K, N], and how they meet the data.

    ``value`` are the integers, ``weights`` what they stand for; the output channels are along ``axis`` of both. They
    are those of the model, but for a transposed convolution, which has ``phases`` of each. ``window`` is None for a
    dense layer. ``macs`` are the multiply-accumulates that the model states.
    """

    value: Array
    weights: QuantisedTensor
    axis: int
    window: ConvolutionWindow | None
    phases: Phases | None
    macs: int

    @property
    def channels(self) -> int:
        """Output channels of the model."""
        return int(self.value.shape[self.axis]) // (self.phases.count if self.phases else 1)

    def along(self, channels: Array) -> Array:
        """Returns one number, or one for each output channel of the model, for those that the weights have."""
        return self.phases.along(channels) if self.phases is not None else channels


def contraction_of(call: tvm.ir.Call, value: Array, weights: QuantisedTensor) -> ContractionWeights | None:
    """Returns what ``call`` contracts with constant weights; None if the weights are of another kind.

    Args:
        call: of one of ``CONTRACTIONS``.
        value: the integers of the weights.
        weights: what they stand for.
    """
    result = [int(extent) for extent in call.ty.shape.values]
    if call.op.name == "relax.matmul":
        macs = math.prod(result) * value.shape[0]
        return ContractionWeights(value, weights, 1, None, None, macs) if value.ndim == 2 else None
    axes = _SPACE[call.op.name]
    data = [int(extent) for extent in call.args[0].ty.shape.values]
    window = _window(call, axes)
    if axes == 1:
        value = np.expand_dims(value, 2)
    if not call.op.name.endswith("transpose"):
        return ContractionWeights(value, weights, 0, window, None, math.prod(result) * math.prod(value.shape[1:]))
    macs = math.prod(data) * math.prod(value.shape[1:])
    planes = [[1, *shape[2:]][-2:] for shape in (data, result)]
    phases = image_phases(planes[0], planes[1], value.shape[2:], window)
    spread = phases.weights(value, weights)
    return ContractionWeights(*spread, 0, phases.window, phases, macs) if spread is not None else None


def _window(call: tvm.ir.Call, axes: int) -> ConvolutionWindow:
    """How an operator of one or two axes of space walks an image."""
    attributes = call.attrs
    padding = [int(width) for width in attributes.padding]
    before, after = padding[:axes], padding[axes:]
    lines = 2 - axes
    return ConvolutionWindow(
        (*[1] * lines, *map(int, attributes.strides)),
        (*[0] * lines, *before, *[0] * lines, *after),
        (*[1] * lines, *map(int, attributes.dilation)),
        int(attributes.groups),
    )


_LINE = 3  # axes: batch, channels, and one of space


@dataclass(frozen=True)
class IntegerContraction:
    """A contraction in integers: ``acc = op(x - zero_point, weights) + bias``, worth ``scale`` a unit.

    ``bias`` is int64 [O], with the part of the zero point folded in, or None; ``scale`` is a scalar or [O].
    ``window`` is None for a dense layer. ``macs`` are the model's own. ``phases``: it is a transposed convolution, and
    O its channels times those. ``average``: it is the mean of a window of each channel, with weights of one;
    ``averages``: it is a mean, whatever the weights.
    """

    chain: Chain
    x: QuantisedTensor
    zero_point: int
    weights: Weights
    bias: npt.NDArray[np.int64] | None
    scale: npt.NDArray[np.float64]
    window: composite_functions.ConvolutionWindow | None
    macs: int
    phases: Phases | None = None
    average: bool = False
    averages: bool = False

    @property
    def magnitude(self) -> npt.NDArray[np.int64]:
        """A bound on each channel's accumulator, in absolute value, from the weights at hand; [O]."""
        return self.weights.magnitude() + (0 if self.bias is None else np.abs(self.bias))

    @property
    def is_of_one_scale(self) -> bool:
        """Whether a unit of every sum is worth the same."""
        return bool((self.scale == self.scale.reshape(-1)[0]).all())

    def along_channels(self, values: Array) -> Array:
        """Returns a scalar or [O] array, shaped to broadcast with the accumulator."""
        return values.reshape((1, -1, 1, 1) if self.window else (1, -1))


def recover_contraction(rewrite: DataflowRewrite, binding: relax.Binding, requantize: Requantize) -> bool:
    """Replaces ``binding`` and its chain by ``conv2d`` or ``dense``; False, and nothing done, if they do not fit."""
    layer = layer_of(rewrite, binding.var)
    return layer is not None and recover_layer(rewrite, layer, requantize)


def recover_layer(rewrite: DataflowRewrite, layer: IntegerContraction, requantize: Requantize) -> bool:
    """Replaces the operator that ``layer`` is, and its chain; False, and nothing done, if its sums do not fit int32."""
    if layer.magnitude.max() > INT32_MAX:
        return False
    replace_layer(rewrite, layer, narrowing_of(layer, requantize))
    return True


def replace_layer(rewrite: DataflowRewrite, layer: IntegerContraction, found: Narrowing | str) -> None:
    """Replaces the operator and its chain by the composite with a requantisation, or with why the host has that."""
    root, narrowing = layer.chain.root, None
    if not isinstance(found, str):
        biased = layer.bias is not None or bool(found.addend.any())
        narrowing = balanced(rewrite, layer.chain, found, layer.weights.channels, biased=biased)
    x = _data(rewrite, layer)
    arguments = [x, relax.const(layer.weights.values), *_vectors(layer, narrowing)]
    bias = len(arguments) > 2 + (narrowing is not None and narrowing.factors is not None)
    function, bounds = stored_composite(rewrite, narrowing, partial(_function, rewrite, layer, x, bias=bias))
    callee = rewrite.composite(function, rewrite.origin[root.name], layer.macs)
    result: relax.Expr = tvm.ir.Call(callee, arguments)
    if bounds is not None:
        result = clipped(rewrite, layer.chain, result, bounds)
    if isinstance(found, str):
        result = _left_to_host(rewrite, layer, rewrite.emit(result, root, "acc"), found)
    elif layer.chain.output is not None:
        result = from_int8(rewrite, result, layer.chain)
    known = rewrite.errors_of(layer.x)
    if layer.averages and known is not None:
        rewrite.rounding.errors[str(layer.chain.tail.name)] = known
    rewrite.replace(layer.chain.members)
    rewrite.bind(layer.chain.tail, _like(rewrite, layer, result))


def _vectors(layer: IntegerContraction, narrowing: Narrowing | None) -> list[relax.Expr]:
    """The bias, with what an epilogue adds to it, and the multipliers, where there are any."""
    channels = layer.weights.channels
    addend = np.zeros((), np.int64) if narrowing is None else narrowing.addend
    vectors = []
    if layer.bias is not None or addend.any():
        bias = np.broadcast_to(addend, channels) + (0 if layer.bias is None else layer.bias)
        vectors.append(bias)
    if narrowing is not None and narrowing.factors is not None:
        vectors.append(narrowing.factors)
    return [relax.const(layer.along_channels(vector.astype(np.int32))) for vector in vectors]


def layer_of(rewrite: DataflowRewrite, var: relax.Var) -> IntegerContraction | None:
    """Returns the layer whose operator ``var`` is bound to, if its data are quantised and its weights constant."""
    graph = rewrite.graph
    call = graph.call(var)
    if call is None or call.op.name not in CONTRACTIONS:
        return None
    x, w = (graph.dequantised(argument) for argument in call.args)
    value = graph.constant(w.value) if w is not None else None
    if x is None or w is None or value is None or not x.per_tensor or x.dtype not in ("int8", "uint8"):
        return None
    found = contraction_of(call, value, w)
    weights = integer_weights(found.value, found.weights, found.axis) if found is not None else None
    if found is None or weights is None:
        return None
    chain = follow_chain(graph, var, bias_size=found.channels, axis=1 if found.window else -1)
    zero_point = zero_point_as_int8(x)
    scale = x.scale * found.weights.scale
    if (chain.integer or chain.gain is not None) and not (scale == 1).all():
        return None
    if chain.gain is not None:
        scale = scale * found.along(chain.gain.astype(np.float64).reshape(() if chain.gain.size == 1 else -1))
    bias = np.zeros(weights.channels)
    if chain.bias is not None:
        known = rewrite.errors_of(x)
        expected = 0.0 if known is None else sums_of(found, known / float(x.scale))  # units of the accumulator
        # apart, and without the last digits: scales that are halves of each other only nearly move no halves then
        bias = np.rint(found.along(chain.bias.reshape(-1)) / scale) - np.rint(np.round(expected, 6))
    bias = bias - zero_point * weights.sums()
    if not np.abs(bias).max() < INT32_MAX:
        return None
    absent = chain.bias is None and zero_point == 0
    integers = None if absent else bias.astype(np.int64)
    return IntegerContraction(chain, x, zero_point, weights, integers, scale, found.window, found.macs, found.phases)


def sums_of(found: ContractionWeights, means: Array) -> Array | float:
    """Returns what the weights make of data that are ``means`` [channels] everywhere; [O], in units of both."""
    zero_point = found.weights.zero_point
    centred = found.value.astype(np.float64)
    if zero_point.any():
        shape = [1] * centred.ndim
        shape[found.axis] = -1
        centred -= zero_point.reshape(shape)
    if found.window is None:
        return means @ centred if len(means) == len(centred) else 0.0
    groups = found.window.groups
    if found.phases is not None or len(means) != groups * centred.shape[1]:
        return 0.0
    taps = centred.sum((2, 3)).reshape(groups, -1, centred.shape[1])
    sums: Array = np.einsum("goi,gi->go", taps, means.reshape(groups, -1)).reshape(-1)
    return sums


def narrowing_of(layer: IntegerContraction, requantize: Requantize) -> Narrowing | str:
    """Returns the requantisation inside the composite, or why there is none."""
    output = layer.chain.output
    if output is None:
        return f"the result is wanted in {'int32' if layer.chain.integer else 'float32'}"
    acc = Accumulator(layer.scale, layer.magnitude, channels=layer.weights.channels)
    return epilogue_of(acc, int8_output(layer.chain), requantize)


def _data(rewrite: DataflowRewrite, layer: IntegerContraction) -> relax.Expr:
    """The layer's input as the composite takes it: int8, explicitly padded if zero is not 0, two axes if dense.

    Channels whose weights have several parts are there as often.
    """
    root, weights = layer.chain.root, layer.weights
    x = to_int8(rewrite, layer.x, root)
    if layer.window is None and len(shape_of(x)) != 2:
        x = rewrite.emit(relax.op.reshape(x, (-1, weights.depth)), root, "x_rows")
    if weights.repeated:
        groups = layer.window.groups if layer.window else 1
        again = f"{len(set(weights.repeated))} of {weights.inputs}" + (" in each group" if groups > 1 else "")
        cause = f"input channels whose weights minus the zero points int8 cannot hold come again: {again}"
        lanes = relax.const(weights.lanes(groups))
        x = rewrite.emit(relax.op.take(x, lanes, axis=1, mode="clip"), root, "x_lanes", cause)
    if layer.window is None:
        return x
    if len(shape_of(x)) == _LINE:
        batch, channels, length = shape_of(x)
        x = rewrite.emit(relax.op.reshape(x, [batch, channels, 1, length]), root, "x_image")
    if layer.zero_point and any(layer.window.padding):
        top, left, bottom, right = layer.window.padding
        widths = [0, 0, 0, 0, top, bottom, left, right]
        cause = f"its data are padded with their zero point, as int8 {layer.zero_point}, and loads pad with 0 alone"
        x = rewrite.emit(relax.op.nn.pad(x, widths, pad_value=layer.zero_point), root, "x_padded", cause)
    return x


def _function(
    rewrite: DataflowRewrite,
    layer: IntegerContraction,
    x: relax.Expr,
    narrowing: Narrowing | None,
    *,
    bias: bool,
) -> relax.Function:
    """The composite function."""
    epilogue = narrowing.epilogue if narrowing is not None else None
    # without the epilogue, the chain after the bias is the host's
    members = layer.chain.members if epilogue else layer.chain.members[: layer.chain.summed]
    nodes = rewrite.nodes([layer.chain.root, *members])
    shape, window = layer.weights.values.shape, layer.window
    rounds = bias and layer.bias is None and layer.chain.output is not None and int8_output(layer.chain).zero_point == 0
    if window is None:
        return composite_functions.dense(nodes, shape_of(x), shape, bias=bias, epilogue=epilogue, rounds=rounds)
    if layer.zero_point:
        window = composite_functions.ConvolutionWindow(window.strides, (0, 0, 0, 0), window.dilation, window.groups)
    return composite_functions.conv2d(
        nodes, shape_of(x), shape, window, bias=bias, epilogue=epilogue, average=layer.average, rounds=rounds
    )


def _left_to_host(rewrite: DataflowRewrite, layer: IntegerContraction, acc: relax.Var, cause: str) -> relax.Expr:
    """The accumulator as the rest of the graph wants it, which the host makes of it for a ``cause``; or as it is."""
    chain = layer.chain
    if chain.output is not None:
        scale = layer.along_channels(as_float32_factor(layer.scale / chain.output.scale))
        return requantised_by_host(rewrite, chain, acc, scale, cause, chain.tail)
    if chain.integer:
        return acc
    return as_real_numbers(rewrite, chain, acc, layer.along_channels(as_float32_factor(layer.scale)))


def _like(rewrite: DataflowRewrite, layer: IntegerContraction, result: relax.Expr) -> relax.Expr:
    """``result`` as the chain's tail: the phases interleaved; the data may have had other axes than the composite's."""
    tail = layer.chain.tail
    if layer.phases is not None:
        rewrite.origin[tail.name] = rewrite.origin[layer.chain.root.name]
        result = layer.phases.interleave(rewrite, rewrite.emit(result, tail, "phases"), tail)
    shape = shape_of(tail)
    if len(shape) == (4 if layer.window is not None else 2):
        return result
    return relax.op.reshape(rewrite.emit(result, tail, "rows"), shape)
