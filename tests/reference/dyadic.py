"""An interpreter of QDQ ONNX models in numpy integers, independent of TVM and of the compiler.

A dequantised tensor whose scale is a power of two is an array of int64 with one binary exponent, and stays
exact through convolution, sums, clipping. QuantizeLinear brings it back to int8: it rounds half up behind an
operator that the accelerator fuses it with, and half to even elsewhere (on the host). Where an accelerator can, it
rounds half down in every second channel of what would be biased, the first of one tensor, the second of the next;
layers and sums count apart. What the channels of a sum are off by on average is taken from the biases of the layers
that read it. A scale may have a factor beside its power of two, as an average of 49 has; factors that float32 cannot
tell apart are one. What cannot be exact (softmax) is float32.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

WORTH_A_TENSOR = 0.02  # units of the last place, of the mean error
Arguments = list[Any]
Attributes = dict[str, Any]


@dataclass(frozen=True)
class Dyadic:
    """``numbers * factor * 2**exponent``, the factor from 1 to 2; ``fused`` if an accelerated operator made it.

    That is a layer whose channels are those of ``axis``, or work on elements if that is None. Its numbers are
    multiples of ``grain``. ``biased``: a constant is in its sums anyway, a bias or what the zero point of its data
    makes; of what is no sum yet, that it has a zero point. ``errors``: how far each channel is off on average, as real
    numbers, where that is known. ``summed``: of two tensors; ``positive``: by a relu.
    """

    numbers: np.ndarray
    exponent: int
    fused: bool = False
    factor: float = 1.0
    axis: int | None = None
    biased: bool = False
    grain: int = 1
    errors: np.ndarray | None = None
    summed: bool = False
    positive: bool = False

    @staticmethod
    def of(
        numbers: np.ndarray, scale: float, *, fused: bool = False, axis: int | None = None, biased: bool = False
    ) -> "Dyadic":
        exponent, factor = split(scale)
        return Dyadic(numbers, exponent, fused, factor, axis, biased)

    @property
    def scale(self) -> float:
        return math.ldexp(self.factor, self.exponent)

    def at(self, exponent: int) -> np.ndarray:
        assert exponent <= self.exponent
        return self.numbers << (self.exponent - exponent)

    def real(self) -> np.ndarray:
        return np.ldexp(self.numbers * self.factor, self.exponent).astype(np.float32)


def run(model: onnx.ModelProto, inputs: dict[str, np.ndarray], *, balances: bool = False) -> dict[str, np.ndarray]:
    """Every tensor of the graph, by name: integers where quantised, float32 elsewhere.

    ``balances``: every second channel rounds half down where the mean error matters.
    """
    sides = Counter[str]() if balances else None
    errors: dict[str, np.ndarray] = {}
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer} | inputs
    for node in model.graph.node:
        arguments = [values[name] for name in node.input if name]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "QuantizeLinear":
            values[node.output[0]], known = quantize(arguments, sides)
            errors |= {node.output[0]: known} if known is not None and balances else {}
        else:
            values[node.output[0]] = OPERATORS[node.op_type](arguments, attributes)
        if node.op_type == "DequantizeLinear" and node.input[0] in errors:
            values[node.output[0]] = replace(values[node.output[0]], errors=errors[node.input[0]])
    return {name: value.real() if isinstance(value, Dyadic) else value for name, value in values.items()}


def split(scale: float) -> tuple[int, float]:
    """The exponent and the factor of a scale; the factor is 1 if float32 cannot tell it from a power of two."""
    exponent = round(math.log2(scale))
    if abs(math.ldexp(scale, -exponent) - 1) < 2.0**-21:
        return exponent, 1.0
    mantissa, power = math.frexp(scale)
    return power - 1, 2 * mantissa


def dyadic(value: Dyadic | np.ndarray) -> Dyadic:
    """A float that is a binary fraction, such as a clip's bound."""
    if isinstance(value, Dyadic):
        return value
    numerator, denominator = float(value).as_integer_ratio()
    return Dyadic(np.array(numerator), -(denominator.bit_length() - 1))


def dequantize(arguments: Arguments, _attributes: Attributes) -> Dyadic:
    value, scale, zero_point = arguments
    return Dyadic.of(value.astype(np.int64) - int(zero_point), float(scale), biased=bool(zero_point))


def quantize(arguments: Arguments, sides: Counter[str] | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """The integers, and what their channels are off by on average, if that is known."""
    value, scale, zero_point = arguments
    errors = value.errors if isinstance(value, Dyadic) and value.axis is not None else None
    shift, factor = split(float(scale) / value.scale) if isinstance(value, Dyadic) else (0, 0.0)
    if isinstance(value, Dyadic) and value.fused and factor == 1:
        value = replace(value, biased=value.biased or bool(zero_point))
        down = downwards(value, max(shift, 0), sides)
        half = (1 << shift >> 1) - down if shift > 0 else 0
        steps = (value.numbers + half) >> shift if shift >= 0 else value.numbers << -shift
        errors = errors_of_sum(value, down, shift, float(scale)) if value.axis is None else errors
    else:
        steps = np.rint((value.real() if isinstance(value, Dyadic) else value) / scale)
    return np.clip(steps + int(zero_point), -128, 127).astype(np.int8), errors


def errors_of_sum(value: Dyadic, down: np.ndarray, shift: int, scale: float) -> np.ndarray | None:
    """Of each channel, one in ``2**shift`` of whose elements is a tie; None if its elements round different ways."""
    if value.errors is None or not value.summed:
        return None
    sides = np.moveaxis(down, 1 if down.ndim == 4 else -1, 0).reshape(value.errors.size, -1)
    if (sides != sides[:, :1]).any():
        return None
    tie = value.grain * 2.0 ** -(shift + 1) if value.grain < 1 << max(shift, 0) else 0.0
    errors = value.errors + scale * tie * (1 - 2 * sides[:, 0])
    return errors / 2 if value.positive else errors


def downwards(value: Dyadic, shift: int, sides: Counter[str] | None) -> np.ndarray:
    """1 where a tie rounds down, of the shape of the numbers: in half of the channels, or of parts of few channels."""
    shape = value.numbers.shape
    tie = value.grain * 2.0 ** -(shift + 1) if value.grain < 1 << shift else 0.0
    if sides is None or not tie or not (tie > WORTH_A_TENSOR or (value.axis is not None and value.biased)):
        return np.zeros(shape, np.int64)
    axis = value.axis % len(shape) if value.axis is not None else 1 if len(shape) == 4 else len(shape) - 1
    outer, channels, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    if value.axis is None:
        places = inner if len(shape) == 4 else outer
        parts = [n for n in range(1, places + 1) if places % n == 0]
        near_zero = [n for n in parts if channels * n % 2 * tie / (channels * n) <= WORTH_A_TENSOR]
        channels *= (near_zero or [1])[0]
    of = "elements" if value.axis is None else "layers"
    each = (np.arange(channels) + sides[of]) % 2
    sides[of] += 1
    inner = value.numbers.size // channels // outer if axis < len(shape) - 1 else 1
    return np.broadcast_to(each[:, None], (value.numbers.size // channels // inner, channels, inner)).reshape(shape)


def conv(arguments: Arguments, attributes: Attributes) -> Dyadic:
    data, weight, *bias = arguments
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    groups, pads = attributes.get("group", 1), attributes.get("pads", [0, 0, 0, 0])
    x = np.pad(data.numbers, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    w = weight.numbers
    extent = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, w.shape[2:], strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, extent, (2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    depth, filters = w.shape[1], w.shape[0] // groups
    parts = [
        np.einsum(
            "nchwij,ocij->nohw",
            windows[:, group * depth : (group + 1) * depth],
            w[group * filters : (group + 1) * filters],
            optimize=True,
        )
        for group in range(groups)
    ]
    total = np.concatenate(parts, 1)
    if bias:
        total = total + (bias[0].numbers - known_sums(data, w.sum((2, 3)), groups))[:, None, None]
    return Dyadic.of(total, data.scale * weight.scale, fused=True, axis=1, biased=bool(bias) or data.biased)


def known_sums(data: Dyadic, weights: np.ndarray, groups: int) -> np.ndarray:
    """What ``weights`` [O, I / groups] make of the known errors of ``data``, to the nearest unit; [O]."""
    if data.errors is None:
        return np.zeros(len(weights), np.int64)
    errors = np.repeat((data.errors / data.scale).reshape(groups, -1), len(weights) // groups, axis=0)
    return np.rint(np.round((weights * errors).sum(1), 6)).astype(np.int64)


def gemm(arguments: Arguments, attributes: Attributes) -> Dyadic:
    data, weight, *bias = arguments
    w = weight.numbers.T if attributes.get("transB") else weight.numbers
    total = data.numbers @ w
    if bias:
        total = total + bias[0].numbers - known_sums(data, w.T, 1)
    return Dyadic.of(total, data.scale * weight.scale, fused=True, axis=-1, biased=bool(bias) or data.biased)


def add(arguments: Arguments, _attributes: Attributes) -> Dyadic:
    a, b = arguments
    assert a.factor == b.factor
    exponent = min(a.exponent, b.exponent)
    total = a.at(exponent) + b.at(exponent)
    errors = np.zeros(total.shape[1 if total.ndim == 4 else -1])
    errors = sum((each.errors for each in (a, b) if each.errors is not None), errors)
    return Dyadic(total, exponent, fused=True, factor=a.factor, errors=errors, summed=True)


def relu(arguments: Arguments, _attributes: Attributes) -> Dyadic | np.ndarray:
    (value,) = arguments
    if not isinstance(value, Dyadic):
        return np.maximum(value, 0)
    return replace(value, numbers=np.maximum(value.numbers, 0), fused=True, positive=True)


def clip(arguments: Arguments, _attributes: Attributes) -> Dyadic | np.ndarray:
    if not isinstance(arguments[0], Dyadic):
        return np.clip(*arguments)
    value, low, high = (dyadic(argument) for argument in arguments)
    exponent = min(value.exponent, low.exponent, high.exponent)
    numbers = np.clip(value.at(exponent), low.at(exponent), high.at(exponent))
    return replace(
        value,
        numbers=numbers,
        exponent=exponent,
        fused=True,
        grain=value.grain << value.exponent - exponent,
        positive=not low.numbers,
    )


def concat(arguments: Arguments, attributes: Attributes) -> Dyadic | np.ndarray:
    """Of one scale, or of floats."""
    if not all(isinstance(value, Dyadic) for value in arguments):
        parts = [value.real() if isinstance(value, Dyadic) else value for value in arguments]
        return np.concatenate(parts, attributes["axis"])
    assert len({(value.exponent, value.factor) for value in arguments}) == 1
    numbers = np.concatenate([value.numbers for value in arguments], attributes["axis"])
    return Dyadic(numbers, arguments[0].exponent, factor=arguments[0].factor)


def moved(function: Callable[..., np.ndarray]) -> Callable[..., Dyadic | np.ndarray]:
    """An operator that only moves elements."""

    def apply(arguments: Arguments, attributes: Attributes) -> Dyadic | np.ndarray:
        value, *rest = arguments
        if isinstance(value, Dyadic):
            return Dyadic(function(value.numbers, rest, attributes), value.exponent, factor=value.factor)
        return function(value, rest, attributes)

    return apply


def global_average_pool(arguments: Arguments, _attributes: Attributes) -> Dyadic:
    (value,) = arguments
    total = value.numbers.sum((2, 3), keepdims=True)
    scale = value.scale / math.prod(value.numbers.shape[2:])
    return replace(Dyadic.of(total, scale, fused=True, axis=1, biased=value.biased), errors=value.errors)


def average_pool(arguments: Arguments, attributes: Attributes) -> Dyadic:
    """Without padding."""
    (value,) = arguments
    kernel, strides = attributes["kernel_shape"], attributes.get("strides", [1, 1])
    windows = np.lib.stride_tricks.sliding_window_view(value.numbers, kernel, (2, 3))
    total = windows[:, :, :: strides[0], :: strides[1]].sum((-2, -1))
    scale = value.scale / math.prod(kernel)
    return replace(Dyadic.of(total, scale, fused=True, axis=1, biased=value.biased), errors=value.errors)


def max_pool(value: np.ndarray, _rest: Arguments, attributes: Attributes) -> np.ndarray:
    """The largest number is the largest value, whatever the exponent; padding is below all of them."""
    strides, pads = attributes["strides"], attributes.get("pads", [0, 0, 0, 0])
    around = ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]))
    padded = np.pad(value, around, constant_values=value.min())
    windows = np.lib.stride_tricks.sliding_window_view(padded, attributes["kernel_shape"], (2, 3))
    return windows[:, :, :: strides[0], :: strides[1]].max((-2, -1))


def softmax(arguments: Arguments, _attributes: Attributes) -> np.ndarray:
    value = arguments[0].real()
    powers = np.exp(value - value.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


OPERATORS = {
    "Add": add,
    "AveragePool": average_pool,
    "Clip": clip,
    "Concat": concat,
    "Conv": conv,
    "DequantizeLinear": dequantize,
    "Flatten": moved(lambda x, _rest, _attributes: x.reshape(len(x), -1)),
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "MatMul": gemm,
    "MaxPool": moved(max_pool),
    "QuantizeLinear": lambda arguments, _attributes: quantize(arguments)[0],
    "Relu": relu,
    "Reshape": moved(lambda x, rest, _attributes: x.reshape(rest[0])),
    "Softmax": softmax,
}
