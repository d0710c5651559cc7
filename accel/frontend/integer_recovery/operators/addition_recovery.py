"""Recovery of the residual add: two activations, weighed by integers so that their sum has one unit."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor
from accel.frontend.integer_recovery.element_layout import layout_of_elements
from accel.frontend.integer_recovery.int8_operands import from_int8, int8_output, to_int8, zero_point_as_int8
from accel.frontend.integer_recovery.qdq_chains import Chain, follow_chain
from accel.frontend.integer_recovery.requantization import (
    HELD_BY_FLOATS,
    INT32_MAX,
    Accumulator,
    Narrowing,
    Output,
    Requantize,
    epilogue_of,
    exact_exponent,
)
from accel.frontend.integer_recovery.rounding_bias import grain_of
from accel.util.arrays import Float64

_IMAGE = 4  # axes
_REACH = 256  # how far int8 is from its zero point, at most
WEIGHT_MAX = 127
LEVEL = 1 << 7  # a unit of the upper part
_LEVELS_MAX = WEIGHT_MAX * LEVEL
_ENOUGH = 1 / 4  # steps; what requantises the sum has errors of its own


@dataclass(frozen=True)
class Weighing:
    """``a * factors[0] + b * factors[1]``; a unit of it is worth ``unit`` steps of the output.

    What is added to it is a multiple of ``grain``.
    """

    factors: tuple[int, int]
    unit: float
    error: float
    grain: int = 1


def free_weighing(ratios: tuple[float, float]) -> Weighing | None:
    """Returns the finest weighing by int8 weights; None if it is too coarse. ``ratios`` are r and q."""
    m, n = np.meshgrid(np.arange(1, WEIGHT_MAX + 1), np.arange(1, WEIGHT_MAX + 1), indexing="ij")
    found = []
    for unit in (
        ratios[0] / m,
        ratios[1] / n,
    ):  # the error is piecewise linear in c: one of the two is exact at its least
        errors = _REACH * (np.abs(unit * m - ratios[0]) + np.abs(unit * n - ratios[1]))
        at = np.unravel_index(int(np.argmin(errors)), errors.shape)
        found.append(Weighing((int(m[at]), int(n[at])), float(unit[at]), float(errors[at])))
    best = min(found, key=lambda one: one.error)
    return best if best.error <= _ENOUGH else None


def dyadic_weighing(ratios: tuple[float, float]) -> Weighing | None:
    """Returns a weighing in two parts whose unit is a power of two; None if too coarse. ``ratios`` are r and q."""
    shift = int(np.floor(np.log2(_LEVELS_MAX / max(ratios))))
    unit = 2.0**-shift
    factors = tuple(round(ratio / unit) for ratio in ratios)
    error = _REACH * sum(abs(factor * unit - ratio) for factor, ratio in zip(factors, ratios, strict=True))
    error += LEVEL / 2 * unit
    # below a shift of 8 the half that rounds is no multiple of the grain
    enough = error <= _ENOUGH and shift > LEVEL.bit_length() - 1 and min(factors) > 0
    return Weighing((factors[0], factors[1]), unit, error, LEVEL) if enough else None


INT8_MAGNITUDE = 128
MAX_SHIFT = 23


def recover_addition(
    rewrite: DataflowRewrite, binding: relax.Binding, requantize: Requantize, *, on_host: bool = True
) -> bool:
    """Replaces ``binding`` and its chain by the composite ``add``; returns False if no weights fit.

    What float32 does not hold is for the host, and fits where the sum may be there: ``on_host``.
    """
    call = rewrite.graph.call(binding.var, "relax.add")
    operands = _operands(rewrite, call) if call is not None else None
    if operands is None:
        return False
    chain = follow_chain(rewrite.graph, binding.var, bias_size=None)
    found = _sum(operands, int8_output(chain), requantize) if chain.output is not None else None
    if found is None:
        return False
    (factors, addend), narrowing = found
    if not on_host and INT8_MAGNITUDE * sum(factors) > HELD_BY_FLOATS:
        return False
    nodes = rewrite.nodes([chain.root, *chain.members])
    shape = [int(size) for size in binding.var.ty.shape.values]
    laid_out = layout_of_elements(rewrite.graph, binding.var)
    laid_out = rewrite.rounding.shape("addition", laid_out, narrowing.rounding)
    node = rewrite.origin[chain.root.name].name
    offsets = rewrite.rounding.offsets("addition", narrowing.rounding, laid_out[1], node)
    _note_errors(rewrite, chain, operands, laid_out, narrowing.rounding.errors(offsets))
    function = composite_functions.add(nodes, laid_out, factors, addend, narrowing.epilogue, rounds=bool(offsets.any()))
    rewrite.replace(chain.members)
    arguments = [to_int8(rewrite, operand, chain.root) for operand in operands]
    if laid_out != shape:
        arguments = [rewrite.emit(relax.op.reshape(x, laid_out), chain.root, "rows") for x in arguments]
    if offsets.any():
        arguments.append(relax.const(composite_functions.along_channels(laid_out, offsets)))
    result: relax.Expr = tvm.ir.Call(rewrite.composite(function, rewrite.origin[chain.root.name]), arguments)
    result = from_int8(rewrite, result, chain)
    if laid_out != shape:
        result = relax.op.reshape(rewrite.emit(result, chain.tail, "rows"), shape)
    rewrite.bind(chain.tail, result)
    return True


def _note_errors(
    rewrite: DataflowRewrite,
    chain: Chain,
    operands: Sequence[QuantisedTensor],
    laid_out: Sequence[int],
    rounding: Float64,
) -> None:
    """Note how far each channel of the sum is off on average: by its rounding, and by what the operands are off.

    Behind a relu it is that where the sum is positive, which it is taken to be half the time.
    """
    assert chain.output is not None
    shape = [int(size) for size in chain.root.ty.shape.values]
    if not shape:
        return  # no layer reads a scalar
    if len(laid_out) < _IMAGE <= len(shape):
        return  # its channels are along the last axis, and those of an image are not
    channels = shape[1] if len(shape) >= _IMAGE else shape[-1]
    if rounding.size not in (1, channels):
        return  # it is laid out with other channels
    known = [found for operand in operands if (found := rewrite.errors_of(operand)) is not None]
    errors = np.broadcast_to(rounding * float(chain.output.scale) + sum(known), channels)
    rewrite.rounding.errors[str(chain.tail.name)] = errors / (2 if chain.low == 0 else 1)


def _operands(rewrite: DataflowRewrite, call: tvm.ir.Call) -> list[QuantisedTensor] | None:
    """Both operands, if they are quantised activations of one shape, int8 or uint8 with one scale each."""
    found = [rewrite.graph.dequantised(argument) for argument in call.args]
    operands = [operand for operand in found if operand is not None and isinstance(operand.value, relax.Var)]
    shapes = {tuple(int(size) for size in operand.value.ty.shape.values) for operand in operands}
    fit = all(operand.per_tensor and operand.dtype in ("int8", "uint8") for operand in operands)
    return operands if len(operands) == 2 and len(shapes) == 1 and fit else None


def _sum(
    operands: list[QuantisedTensor], output: Output, requantize: Requantize
) -> tuple[tuple[tuple[int, int], int], Narrowing] | None:
    """The weights of the operands and what is added to their sum, and what narrows it; None if none are fine enough."""
    zero_points = [zero_point_as_int8(operand) for operand in operands]
    for weighing in _weighings(operands, output, requantize):
        exact = -sum(zero * factor for zero, factor in zip(zero_points, weighing.factors, strict=True))
        offset = round(exact / weighing.grain) * weighing.grain
        magnitude = INT8_MAGNITUDE * sum(weighing.factors) + abs(offset)
        if magnitude > INT32_MAX:
            continue
        acc = Accumulator(
            np.asarray(weighing.unit * output.scale),
            np.asarray(magnitude),
            grain=grain_of(*weighing.factors),
            excess=offset - exact,
            step=weighing.grain,
        )
        found = epilogue_of(acc, output, requantize)
        if isinstance(found, Narrowing):
            return (weighing.factors, offset + int(found.addend)), found
    return None


def _weighings(operands: list[QuantisedTensor], output: Output, requantize: Requantize) -> Iterator[Weighing]:
    """The weights to try, the exact ones first where int8 holds them, else last."""
    a, b = (float(operand.scale) for operand in operands)
    ratios = a / output.scale, b / output.scale
    shifts = _shifts(a, b)
    # a zero point ahead of a float scale is whole units of the sum: of fine ones, not to shift every result
    finer = 0 if requantize != "scale" or not output.zero_point or shifts is None else max(6 - max(shifts), 0)
    exact = None
    if shifts is not None:
        exact = Weighing((1 << shifts[0] + finer, 1 << shifts[1] + finer), math.ldexp(min(ratios), -finer), 0.0)
    if exact is not None and max(exact.factors) <= WEIGHT_MAX:
        yield exact
    others = [] if requantize == "shift" else [free_weighing(ratios)]
    others += [] if requantize == "scale" else [dyadic_weighing(ratios)]
    yield from (weighing for weighing in (*others, exact) if weighing is not None)


def _shifts(a: float, b: float) -> tuple[int, int] | None:
    """By how much to shift each operand to the left for both to have the finer scale; None if shifting cannot."""
    # of two float32, only a true power of two is one in float64
    ratio = exact_exponent(a / b)
    if ratio is None or abs(ratio) > MAX_SHIFT:
        return None
    return max(ratio, 0), max(-ratio, 0)
