"""Recovery of convolutions and dense layers with constant weights."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from accel.frontend import composites
from accel.frontend.chains import Chain, follow
from accel.frontend.dataflow import Array, Quantised
from accel.frontend.epilogues import Accumulator, Requantize, epilogue_of
from accel.frontend.rewrite import Rewrite
from accel.frontend.scales import INT32_MAX, factor
from accel.frontend.weights import UINT8_OFFSET, Weights, integer_weights, zero_point_as_int8


@dataclass(frozen=True)
class Layer:
    """A contraction in integers: ``acc = op(x - zero_point, weights) + bias``, worth ``scale`` a unit.

    ``bias`` is int64 [O], with the part of the zero point folded in, or None; ``scale`` is a scalar or [O].
    ``window`` is None for a dense layer. ``average``: it is the mean of a window of each channel, with weights of one.
    """

    chain: Chain
    x: Quantised
    zero_point: int
    weights: Weights
    bias: npt.NDArray[np.int64] | None
    scale: npt.NDArray[np.float64]
    window: composites.Window | None
    average: bool = False

    @property
    def magnitude(self) -> int:
        """A bound on the accumulator's absolute value, from the weights at hand."""
        return int((self.weights.magnitude() + (0 if self.bias is None else np.abs(self.bias))).max())

    def along_channels(self, values: Array) -> Array:
        """A scalar or [O] array, shaped to broadcast with the accumulator."""
        return values.reshape((1, -1, 1, 1) if self.window else (1, -1))


def recover(rewrite: Rewrite, binding: relax.Binding, requantize: Requantize) -> bool:
    """Replace ``binding`` and its chain by ``conv2d`` or ``dense``; False, and nothing done, if they do not fit."""
    layer = _layer(rewrite, binding.var)
    return layer is not None and recover_layer(rewrite, layer, requantize)


def recover_layer(rewrite: Rewrite, layer: Layer, requantize: Requantize) -> bool:
    """Replace the operator that ``layer`` is, and its chain; False, and nothing done, if its sums do not fit int32."""
    if layer.magnitude > INT32_MAX:
        return False
    root = layer.chain.root
    found = _epilogue(layer, requantize)
    epilogue = None if isinstance(found, str) else found
    x = _data(rewrite, layer)
    callee = _composite(rewrite, layer, x, epilogue)
    arguments = [x, relax.const(layer.weights.values)]
    if layer.bias is not None:
        # the channel of ones has no bias
        bias = np.pad(layer.bias, (0, int(layer.weights.offset is not None))).astype(np.int32)
        arguments.append(relax.const(layer.along_channels(bias)))
    result: relax.Expr = tvm.ir.Call(callee, arguments)
    if isinstance(found, str):
        acc = _accumulator(rewrite, layer, rewrite.emit(result, root, "acc"))
        result = _requantised(rewrite, layer, acc, found) if layer.chain.output else _dequantised(rewrite, layer, acc)
    rewrite.replace(layer.chain.members)
    rewrite.bind(layer.chain.tail, _like(rewrite, layer, result))
    return True


def _layer(rewrite: Rewrite, var: relax.Var) -> Layer | None:
    """The layer whose float operator ``var`` is bound to, if its data are quantised and its weights constant."""
    graph = rewrite.graph
    conv = graph.call(var, "relax.nn.conv2d")
    call = conv if conv is not None else graph.call(var, "relax.matmul")
    x, w = (graph.dequantised(argument) for argument in call.args) if call is not None else (None, None)
    if x is None or w is None or not x.per_tensor or x.dtype not in ("int8", "uint8"):
        return None
    window = _window(conv) if conv is not None else None
    value = graph.constant(w.value)
    if value is None or value.ndim != (4 if window else 2):
        return None
    weights = integer_weights(value, w, 0 if window else 1, window.groups if window else 1)
    if weights is None:
        return None
    chain = follow(graph, var, bias_size=weights.channels)
    zero_point = zero_point_as_int8(x)
    scale = x.scale * w.scale
    if chain.integer and not (scale == 1).all():
        return None
    bias = np.zeros(weights.channels) if chain.bias is None else np.rint(chain.bias.reshape(-1) / scale)
    bias = bias - zero_point * weights.sums()
    if not np.abs(bias).max() < INT32_MAX:
        return None
    absent = chain.bias is None and zero_point == 0
    return Layer(chain, x, zero_point, weights, None if absent else bias.astype(np.int64), scale, window)


def _window(conv: tvm.ir.Call) -> composites.Window:
    attributes = conv.attrs
    return composites.Window(
        tuple(map(int, attributes.strides)),
        tuple(map(int, attributes.padding)),
        tuple(map(int, attributes.dilation)),
        int(attributes.groups),
    )


def _epilogue(layer: Layer, requantize: Requantize) -> composites.AnyEpilogue | str:
    """The requantisation inside the composite, or why there is none."""
    output = layer.chain.output
    if output is None:
        return f"the result is wanted in {'int32' if layer.chain.integer else 'float32'}"
    obstacles = {
        f"the result is {output.dtype}": output.dtype != "int8",
        "the result's zero point is not 0": bool(output.zero_point != 0),
        "int8 cannot hold the weights minus their zero points": layer.weights.offset is not None,
        "each channel has a scale of its own": layer.scale.ndim > 0,
    }
    for cause, present in obstacles.items():
        if present:
            return cause
    acc = Accumulator(float(layer.scale), layer.magnitude)
    return epilogue_of(acc, float(output.scale), layer.chain.limits, requantize)


def _data(rewrite: Rewrite, layer: Layer) -> relax.Expr:
    """The layer's input as the composite takes it: int8, explicitly padded if zero is not 0, two axes if dense."""
    x, root = layer.x.value, layer.chain.root
    if layer.x.dtype == "uint8":
        x = rewrite.emit(relax.op.astype(x, "int16"), root, "x_wide")
        x = rewrite.emit(relax.op.subtract(x, relax.const(UINT8_OFFSET, "int16")), root, "x_centred")
        x = rewrite.emit(relax.op.astype(x, "int8"), root, "x_int8")
    if layer.window is None:
        rows = (-1, layer.weights.depth)
        return x if len(_shape(x)) == 2 else rewrite.emit(relax.op.reshape(x, rows), root, "x_rows")
    if layer.zero_point and any(layer.window.padding):
        top, left, bottom, right = layer.window.padding
        widths = [0, 0, 0, 0, top, bottom, left, right]
        x = rewrite.emit(relax.op.nn.pad(x, widths, pad_value=layer.zero_point), root, "x_padded")
    return x


def _composite(
    rewrite: Rewrite, layer: Layer, x: relax.Expr, epilogue: composites.AnyEpilogue | None
) -> tvm.ir.GlobalVar:
    """Add the composite function and its multiply-accumulates."""
    # without the epilogue, the chain after the bias is the host's
    members = layer.chain.members if epilogue else layer.chain.members[: int(layer.chain.bias is not None)]
    nodes, bias = rewrite.nodes([layer.chain.root, *members]), layer.bias is not None
    shape, window = layer.weights.values.shape, layer.window
    if window is None:
        function = composites.dense(nodes, _shape(x), shape, bias=bias, epilogue=epilogue)
    else:
        if layer.zero_point:
            window = composites.Window(window.strides, (0, 0, 0, 0), window.dilation, window.groups)
        function = composites.conv2d(nodes, _shape(x), shape, window, bias=bias, epilogue=epilogue)
        if layer.average:
            function = function.with_attr("average", 1)
    macs = 0 if layer.average else int(np.prod(_shape(layer.chain.root))) * layer.weights.depth
    return rewrite.composite(function, rewrite.origin[layer.chain.root.name], macs)


def _accumulator(rewrite: Rewrite, layer: Layer, acc: relax.Var) -> relax.Var:
    """The accumulator of the model's output channels, with the weights' offset taken off."""
    offset, channels, root = layer.weights.offset, layer.weights.channels, layer.chain.root
    if offset is None:
        return acc
    sums = rewrite.emit(relax.op.strided_slice(acc, [1], [channels], [channels + 1]), root, "acc_sum")
    acc = rewrite.emit(relax.op.strided_slice(acc, [1], [0], [channels]), root, "acc_channels")
    factors = relax.const(layer.along_channels(offset.astype(np.int32)))
    return rewrite.emit(
        relax.op.subtract(acc, rewrite.emit(relax.op.multiply(sums, factors), root, "acc_offset")), root, "acc_centred"
    )


def _requantised(rewrite: Rewrite, layer: Layer, acc: relax.Var, cause: str) -> relax.Expr:
    """The host's requantisation of the accumulator, and why it is the host's."""
    output = layer.chain.output
    assert output is not None
    scale = layer.along_channels(factor(layer.scale / output.scale))
    tail = layer.chain.tail
    nodes = [name for var in layer.chain.members for name in rewrite.origin[var.name].covers]
    quantum = composites.Quantum(output.dtype, int(output.zero_point))
    function = composites.requantize(nodes, _shape(acc), scale.shape, quantum, layer.chain.limits, cause)
    return tvm.ir.Call(rewrite.composite(function, rewrite.origin[tail.name]), [acc, relax.const(scale)])


def _dequantised(rewrite: Rewrite, layer: Layer, acc: relax.Var) -> relax.Expr:
    """The accumulator as the float that the rest of the graph wants, or as it is."""
    if layer.chain.integer:
        return acc
    value = rewrite.emit(relax.op.astype(acc, "float32"), layer.chain.root, "acc_float")
    return relax.op.multiply(value, relax.const(layer.along_channels(factor(layer.scale))))


def _like(rewrite: Rewrite, layer: Layer, result: relax.Expr) -> relax.Expr:
    """``result`` in the shape of the chain's tail: a dense layer's data may have other than two axes, a mean two."""
    shape = _shape(layer.chain.tail)
    if len(shape) == (4 if layer.window is not None else 2):
        return result
    return relax.op.reshape(rewrite.emit(result, layer.chain.tail, "rows"), shape)


def _shape(expr: relax.Expr) -> list[int]:
    return [int(size) for size in expr.ty.shape.values]
