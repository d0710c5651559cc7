"""The composite functions: integer arithmetic in the normal form that the lowering expects.

Each is a private Relax function of one dataflow block, called from ``main`` with its constants as arguments, with the
attributes ``op``, ``nodes`` and, unless it is for the host, ``cyclops.composite``: the same as data
(:class:`accel.region.composite_attributes.CompositeAttributes`), which the planner reads. The reference evaluates the
body. Its bindings, in order (brackets: may be absent):

- ``conv2d``: f(x int8 [N, C, H, W], w int8 [O, C / groups, KH, KW], [b int32 [1, O, 1, 1]],
  [m int32 [1, O, 1, 1]]); nn.conv2d to int32, [add b], epilogue.
- ``dense``: f(x int8 [M, K], w int8 [K, N], [b int32 [1, N]], [m int32 [1, N]]); matmul to int32, [add b], epilogue.
- ``matmul``: f(x int8 [B, M, K], w int8 [B, K, N], [b int32 [B, 1, N]]), all of which may be activations; matmul to
  int32, [add b], epilogue.
- ``add``: f(a int8, b int8, [r int32 [1, C, 1, 1] or [1, C]]), a and b of one shape; astype a to int32, [left_shift or
  multiply], astype b to int32, [left_shift or multiply], add, [add r], [add a constant], epilogue. What a shift rounds
  by is in that constant, and r is what some channels round by less.
- ``elementwise``: f(x0 int8, ..., [r int32]), operands of one shape; of each astype to int32, [left_shift or multiply];
  then, from the left, add, maximum, minimum or multiply them all; [add r], [add a constant], epilogue, as ``add`` does.
- ``max_pool``: f(x int8 [N, C, H, W]); nn.max_pool2d, [maximum with the lower bound, minimum with the upper one].
- ``softmax``: f(x int8 [M, K]), in I-BERT's integers: ``row_composites.py`` of this package.
- ``layer_norm``: f(x int8 [M, K]), in integers: ``row_composites.py`` of this package.
- ``requantize``, for the host: f(a int32, scale float32); astype to float32, multiply, round (half to even),
  [add the zero point], clip, astype to int8 or uint8. Its attribute ``cause`` says why it is no epilogue.
- ``product``, for the host: f(a int8 or uint8, b int8 or uint8), of shapes that broadcast; astype a to int32, [subtract
  its zero point], astype b to int32, [subtract its zero point], multiply; then as ``requantize``, by a constant scale.
  A product of integers of 9 bits is exact in float32.
- ``table``, for the host: f(x int8 or uint8); astype to int64, [add 128], take of a constant [256]. The reference does
  not evaluate its body, but the nodes of the model that it stands for.

The epilogue is one of three, as the accelerator requantises; relu and clip are folded into its bounds.

- :class:`ShiftEpilogue`, by a power of two: with shift s > 0 add 2^(s-1) and right_shift by s (which rounds half
  up), with s < 0 left_shift by -s, with s = 0 nothing; maximum with the lower bound, minimum with the upper
  one; astype to int8.
- :class:`ScaledEpilogue`, by a float: astype to float32 (int32 beyond 2^24 rounds, half to even); multiply by
  the scale, a constant float32 of shape [], as the second operand; round (half to even); clip to the bounds, as
  floats; astype to int8. These five bindings are always there, also where the scale is 1. With a GELU a = abs(x) comes
  before, min(a + qb, 0) squared plus qc is p, and a * p + x * qc what is cast, all in int32.
- :class:`MultipliedEpilogue`, by a multiplier and shifts (``requantization.py`` of this package): [right_shift],
  multiply by a constant or by m, [add 2^(s-1)], [right_shift by s], [add the zero point]; maximum, minimum, astype to
  int8 as in the first. A wide product is one of int64: astype, [astype m], multiply, .., right_shift, astype to int32.

Without an epilogue, ``conv2d``, ``dense`` and ``matmul`` return the int32 accumulator.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from accel.region.composite_attributes import COMPOSITE, CompositeAttributes, dump_attributes
from accel.region.elementwise import Combination
from accel.region.epilogue import INT8, EpilogueOp, IntegerGelu, Scaling, Steps
from accel.region.shapes import SlidingWindow
from accel.util.arrays import Array, Int32, Int64

Shape = Sequence[int]


@dataclass(frozen=True)
class ShiftEpilogue:
    """Requantisation by ``2**-shift``, then clipping to [low, high]."""

    shift: int
    low: int
    high: int


@dataclass(frozen=True)
class ScaledEpilogue:
    """Requantisation by ``scale``, a finite float32, rounded half to even; then clipping to [low, high].

    With ``gelu`` it is that of an integer function of the accumulator, whose scale may be below 0.
    """

    scale: float
    low: int
    high: int
    gelu: IntegerGelu | None = None


@dataclass(frozen=True)
class MultipliedEpilogue:
    """Requantisation to ``((x >> before) * factor [+ 2^(shift-1)] >> shift) + zero_point``, clipped to [low, high].

    The half is added where ``rounds`` says so. ``factor`` is None where each channel has its own, in the parameter m.
    Between the first shift and the zero point numbers have so many bits, ``product``, or are int32 if that is 0.
    """

    before: int
    factor: int | None
    rounds: bool
    shift: int
    zero_point: int
    low: int
    high: int
    product: int = 0


AnyEpilogue = ShiftEpilogue | ScaledEpilogue | MultipliedEpilogue


@dataclass(frozen=True)
class ResultIntegers:
    """The integers of a result: their type, and which of them stands for 0."""

    dtype: str
    zero_point: int


@dataclass(frozen=True)
class ConvolutionWindow:
    """How a convolution walks its input; ``padding`` is top, left, bottom, right."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def over(self, kernel: Shape) -> SlidingWindow:
        """The window of so many rows and columns, as a region has it."""
        (height, width), (down, right), (below, beside) = kernel, self.strides, self.dilation
        top, left, bottom, end = self.padding
        return SlidingWindow((height, width), (down, right), (below, beside), (top, left, bottom, end))


def conv2d(
    nodes: Sequence[str],
    x: Shape,
    w: Shape,
    window: ConvolutionWindow,
    *,
    bias: bool,
    epilogue: AnyEpilogue | None,
    average: bool = False,
    rounds: bool = False,
) -> relax.Function:
    """Returns the composite ``conv2d`` of data of shape ``x`` [N, C, H, W] with weights of shape ``w``.

    ``average``: the weights are all one. ``rounds``: the bias does nothing but round.
    """

    def accumulate(builder: relax.BlockBuilder, data: relax.Var, weight: relax.Var) -> relax.Expr:
        return builder.emit(
            relax.op.nn.conv2d(
                data,
                weight,
                strides=list(window.strides),
                padding=list(window.padding),
                dilation=list(window.dilation),
                groups=window.groups,
                out_dtype="int32",
            )
        )

    attributes = replace(
        _ending(epilogue),
        window=window.over(w[2:]),
        groups=window.groups,
        average=average,
        has_bias=bias,
        bias_rounds=rounds,
    )
    return _contraction("conv2d", nodes, (x, w, (1, w[0], 1, 1)), accumulate, epilogue, attributes)


def dense(
    nodes: Sequence[str], x: Shape, w: Shape, *, bias: bool, epilogue: AnyEpilogue | None, rounds: bool = False
) -> relax.Function:
    """Returns the composite ``dense`` of data of shape ``x`` [M, K] with weights of shape ``w`` [K, N].

    ``rounds``: the bias does nothing but round.
    """
    attributes = replace(_ending(epilogue), has_bias=bias, bias_rounds=rounds)
    return _contraction("dense", nodes, (x, w, (1, w[1])), _product_of_matrices, epilogue, attributes)


def matmul(
    nodes: Sequence[str], x: Shape, w: Shape, *, bias: bool, epilogue: AnyEpilogue | None, rounds: bool = False
) -> relax.Function:
    """Returns the composite ``matmul`` of stacks of matrices of shapes ``x`` [B, M, K] and ``w`` [B, K, N].

    ``rounds``: the bias does nothing but round.
    """
    attributes = replace(_ending(epilogue), has_bias=bias, bias_rounds=rounds)
    return _contraction("matmul", nodes, (x, w, (w[0], 1, w[2])), _product_of_matrices, epilogue, attributes)


def _product_of_matrices(builder: relax.BlockBuilder, data: relax.Var, weight: relax.Var) -> relax.Expr:
    return builder.emit(relax.op.matmul(data, weight, out_dtype="int32"))


def add(
    nodes: Sequence[str],
    shape: Shape,
    factors: tuple[int, int],
    addend: int,
    epilogue: AnyEpilogue,
    *,
    rounds: bool = False,
) -> relax.Function:
    """Returns the composite ``add``: the operands times ``factors``, summed, plus ``addend``.

    ``rounds``: a third parameter has what each channel adds.
    """
    operands = [parameter(name, shape, "int8") for name in ("a", "b")]
    offsets = _offsets(shape) if rounds else []

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        terms = []
        for operand, weight in zip(operands, factors, strict=True):
            term = builder.emit(relax.op.astype(operand, "int32"))
            terms.append(_weighed(builder, term, weight))
        return _summed(builder, builder.emit(relax.op.add(*terms)), offsets, addend, epilogue)

    attributes = replace(_ending(epilogue, addend), weights=factors, has_bias=rounds, bias_rounds=rounds)
    return composite_function("add", nodes, [*operands, *offsets], compute, attributes)


def along_channels(shape: Shape, values: Int64) -> Int32:
    """Returns what each channel of ``shape``, an image or a matrix, has: int32 [1, C, 1, 1] or [1, C]."""
    return values.reshape([extent if axis == 1 else 1 for axis, extent in enumerate(shape)]).astype(np.int32)


def _offsets(shape: Shape) -> list[relax.Var]:
    """The parameter of what each channel adds."""
    return [parameter("r", [extent if axis == 1 else 1 for axis, extent in enumerate(shape)], "int32")]


def _summed(
    builder: relax.BlockBuilder, acc: relax.Expr, offsets: Sequence[relax.Var], addend: int, epilogue: AnyEpilogue
) -> relax.Expr:
    """The epilogue of a sum to which ``offsets`` and ``addend`` are added; that may join what a shift rounds by."""
    for vector in offsets:
        acc = builder.emit(relax.op.add(acc, vector))
    if isinstance(epilogue, ShiftEpilogue):
        return _clipped(builder, _shifted(builder, acc, epilogue.shift, addend), epilogue.low, epilogue.high)
    return _requantised(builder, builder.emit(relax.op.add(acc, int32(addend))) if addend else acc, epilogue)


def _weighed(builder: relax.BlockBuilder, term: relax.Var, factor: int) -> relax.Var:
    if factor == 1:
        return term
    shift = factor.bit_length() - 1
    shifts = 1 << shift == factor
    return builder.emit(relax.op.left_shift(term, int32(shift)) if shifts else relax.op.multiply(term, int32(factor)))


_COMBINED: dict[Combination, Callable[[relax.Expr, relax.Expr], relax.Expr]] = {
    "sum": relax.op.add,
    "max": relax.op.maximum,
    "min": relax.op.minimum,
    "product": relax.op.multiply,
}


def elementwise(
    nodes: Sequence[str],
    shape: Shape,
    weights: Sequence[int],
    combination: Combination,
    addend: int,
    epilogue: AnyEpilogue,
    *,
    rounds: bool = False,
) -> relax.Function:
    """Returns the composite ``elementwise`` of an operand for each of ``weights``, plus ``addend``.

    ``rounds``: a further parameter has what each channel adds.
    """
    operands = [parameter(f"x{number}", shape, "int8") for number in range(len(weights))]
    offsets = _offsets(shape) if rounds else []

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        terms = []
        for operand, weight in zip(operands, weights, strict=True):
            terms.append(_weighed(builder, builder.emit(relax.op.astype(operand, "int32")), weight))
        total = terms[0]
        for term in terms[1:]:
            total = builder.emit(_COMBINED[combination](total, term))
        return _summed(builder, total, offsets, addend, epilogue)

    ending = replace(_ending(epilogue, addend), has_bias=rounds, bias_rounds=rounds)
    attributes = replace(ending, weights=tuple(weights), combination=combination)
    return composite_function("elementwise", nodes, [*operands, *offsets], compute, attributes)


def max_pool(
    nodes: Sequence[str], x: Shape, window: ConvolutionWindow, kernel: Shape, bounds: tuple[int, int]
) -> relax.Function:
    """Returns the composite ``max_pool`` of data of shape ``x``; bounds are those of int8 where nothing clips."""
    data = parameter("x", x, "int8")

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        padding, dilation = list(window.padding), list(window.dilation)
        value = builder.emit(relax.op.nn.max_pool2d(data, list(kernel), list(window.strides), padding, dilation))
        if bounds != INT8:
            value = builder.emit(relax.op.maximum(value, relax.const(bounds[0], "int8")))
            value = builder.emit(relax.op.minimum(value, relax.const(bounds[1], "int8")))
        return value

    attributes = CompositeAttributes(window=window.over(kernel))
    if bounds != INT8:
        attributes = replace(attributes, steps=_clip(*bounds), narrow=True)
    return composite_function("max_pool", nodes, [data], compute, attributes)


def requantize(
    nodes: Sequence[str], acc: Shape, scale: Shape, quantum: ResultIntegers, bounds: tuple[int, int], cause: str
) -> relax.Function:
    """Returns the composite ``requantize`` of an accumulator of shape ``acc`` by a scale that broadcasts to it.

    Its attribute ``cause`` says why it is no epilogue.
    """
    parameters = [parameter("acc", acc, "int32"), parameter("scale", scale, "float32")]

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        return _narrowed(builder, parameters[0], parameters[1], quantum, bounds)

    return composite_function("requantize", nodes, parameters, compute).with_attr("cause", cause)


def product(
    nodes: Sequence[str],
    operands: Sequence[tuple[Shape, ResultIntegers]],
    scale: float,
    quantum: ResultIntegers,
    bounds: tuple[int, int],
    cause: str,
) -> relax.Function:
    """Returns the composite ``product`` of two operands, of each of which its shape and its integers are given.

    Its attribute ``cause`` says why the host has it.
    """
    parameters = [parameter(name, shape, kind.dtype) for name, (shape, kind) in zip(("a", "b"), operands, strict=True)]

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        factors = []
        for operand, (_, kind) in zip(parameters, operands, strict=True):
            factor = builder.emit(relax.op.astype(operand, "int32"))
            if kind.zero_point:
                factor = builder.emit(relax.op.subtract(factor, int32(kind.zero_point)))
            factors.append(factor)
        acc = builder.emit(relax.op.multiply(*factors))
        return _narrowed(builder, acc, relax.const(scale, "float32"), quantum, bounds)

    return composite_function("product", nodes, parameters, compute).with_attr("cause", cause)


def table(nodes: Sequence[str], x: Shape, dtype: str, entries: Array) -> relax.Function:
    """Returns the composite ``table`` of a tensor of shape ``x`` and ``dtype``.

    ``entries`` [256] are the results for each integer of that type, from the least on.
    """
    parameters = [parameter("x", x, dtype)]

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        at = builder.emit(relax.op.astype(parameters[0], "int64"))
        if dtype == "int8":
            at = builder.emit(relax.op.add(at, relax.const(-INT8[0], "int64")))
        return builder.emit(relax.op.take(relax.const(entries), at, axis=0))

    return composite_function("table", nodes, parameters, compute)


def is_table(function: relax.Function) -> bool:
    """Returns whether a function of the integer graph is the composite ``table``."""
    return function.attrs is not None and function.attrs.get("op") == "table"


def _contraction(
    op: str,
    nodes: Sequence[str],
    shapes: tuple[Shape, Shape, Shape],
    accumulate: Callable[[relax.BlockBuilder, relax.Var, relax.Var], relax.Expr],
    epilogue: AnyEpilogue | None,
    attributes: CompositeAttributes,
) -> relax.Function:
    """The shapes are those of the data, the weights, and what each channel has one of."""
    data, weight = parameter("x", shapes[0], "int8"), parameter("w", shapes[1], "int8")
    multiplied = isinstance(epilogue, MultipliedEpilogue) and epilogue.factor is None
    added = [parameter("b", shapes[2], "int32")] if attributes.has_bias else []
    factors = [parameter("m", shapes[2], "int32")] if multiplied else []

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        acc = accumulate(builder, data, weight)
        for vector in added:
            acc = builder.emit(relax.op.add(acc, vector))
        return acc if epilogue is None else _requantised(builder, acc, epilogue, *factors)

    return composite_function(op, nodes, [data, weight, *added, *factors], compute, attributes)


def _ending(epilogue: AnyEpilogue | None, addend: int = 0) -> CompositeAttributes:
    """An epilogue after a sum to which ``addend`` is added, as data."""
    if epilogue is None:
        return CompositeAttributes()
    if isinstance(epilogue, ScaledEpilogue):
        scaling = Scaling(float(np.float32(epilogue.scale)), epilogue.low, epilogue.high, gelu=epilogue.gelu)
        return CompositeAttributes(steps=_added(addend), scaling=scaling, narrow=True)
    if isinstance(epilogue, MultipliedEpilogue):
        before: Steps = (("shift_right", epilogue.before),) if epilogue.before else ()
        by: tuple[EpilogueOp, int] = (
            ("multiply_tensor", 0) if epilogue.factor is None else ("multiply", epilogue.factor)
        )
        rounding = 1 << epilogue.shift - 1 if epilogue.rounds and epilogue.shift > 0 else 0
        product = (by, *_shift(epilogue.shift, rounding))
        if epilogue.product:
            product = (("widen", epilogue.product), *product, ("narrow", 0))
        steps = (*_added(addend), *before, *product, *_added(epilogue.zero_point))
    else:
        steps = _shift(epilogue.shift, addend + (1 << epilogue.shift - 1 if epilogue.shift > 0 else 0))
    return CompositeAttributes(steps=(*steps, *_clip(epilogue.low, epilogue.high)), narrow=True)


def _added(addend: int) -> Steps:
    return (("add", addend),) if addend else ()


def _shift(shift: int, addend: int) -> Steps:
    """To the right, or to the left where ``shift`` is negative, of what ``addend`` was added to."""
    return (*_added(addend), *((("shift_right", shift),) if shift else ()))


def _clip(low: int, high: int) -> Steps:
    return (("max", low), ("min", high))


def _requantised(
    builder: relax.BlockBuilder, acc: relax.Expr, epilogue: AnyEpilogue, *factors: relax.Var
) -> relax.Expr:
    """Emit the epilogue."""
    if isinstance(epilogue, ScaledEpilogue):
        return _scaled(builder, acc, epilogue)
    if isinstance(epilogue, MultipliedEpilogue):
        return _clipped(builder, _multiplied(builder, acc, epilogue, *factors), epilogue.low, epilogue.high)
    return _clipped(builder, _shifted(builder, acc, epilogue.shift), epilogue.low, epilogue.high)


def _scaled(builder: relax.BlockBuilder, acc: relax.Expr, epilogue: ScaledEpilogue) -> relax.Expr:
    acc = acc if epilogue.gelu is None else _integer_gelu(builder, acc, epilogue.gelu)
    value = rounded(builder, acc, relax.const(epilogue.scale, "float32"))
    value = builder.emit(relax.op.clip(value, float(epilogue.low), float(epilogue.high)))
    return builder.emit(relax.op.astype(value, "int8"))


def _integer_gelu(builder: relax.BlockBuilder, acc: relax.Expr, gelu: IntegerGelu) -> relax.Expr:
    """I-BERT's GELU without a sign: that of x times x is its absolute value."""
    size = builder.emit(relax.op.maximum(acc, builder.emit(relax.op.subtract(int32(0), acc))))
    bent = builder.emit(relax.op.minimum(builder.emit(relax.op.add(size, int32(gelu.qb))), int32(0)))
    parabola = builder.emit(relax.op.add(builder.emit(relax.op.multiply(bent, bent)), int32(gelu.qc)))
    odd = builder.emit(relax.op.multiply(size, parabola))
    return builder.emit(relax.op.add(odd, builder.emit(relax.op.multiply(acc, int32(gelu.qc)))))


def _narrowed(
    builder: relax.BlockBuilder,
    acc: relax.Expr,
    scale: relax.Expr,
    quantum: ResultIntegers,
    bounds: tuple[int, int],
) -> relax.Expr:
    """The host's requantisation."""
    value = rounded(builder, acc, scale)
    if quantum.zero_point:
        value = builder.emit(relax.op.add(value, relax.const(float(quantum.zero_point), "float32")))
    value = builder.emit(relax.op.clip(value, *map(float, bounds)))
    return builder.emit(relax.op.astype(value, quantum.dtype))


def rounded(builder: relax.BlockBuilder, acc: relax.Expr, scale: relax.Expr) -> relax.Expr:
    """Emits integers times ``scale`` as float32, rounded half to even."""
    value = builder.emit(relax.op.astype(acc, "float32"))
    value = builder.emit(relax.op.multiply(value, scale))
    return builder.emit(relax.op.round(value))


def _multiplied(
    builder: relax.BlockBuilder, acc: relax.Expr, epilogue: MultipliedEpilogue, *factors: relax.Var
) -> relax.Expr:
    if epilogue.before:
        acc = builder.emit(relax.op.right_shift(acc, int32(epilogue.before)))
    if epilogue.product:
        acc = _widely_multiplied(builder, acc, epilogue, *factors)
    else:
        acc = builder.emit(relax.op.multiply(acc, *factors or (int32(epilogue.factor),)))
        if epilogue.rounds:
            acc = _shifted(builder, acc, epilogue.shift)
        elif epilogue.shift:
            acc = builder.emit(relax.op.right_shift(acc, int32(epilogue.shift)))
    return builder.emit(relax.op.add(acc, int32(epilogue.zero_point))) if epilogue.zero_point else acc


def _widely_multiplied(
    builder: relax.BlockBuilder, acc: relax.Expr, epilogue: MultipliedEpilogue, *factors: relax.Var
) -> relax.Expr:
    """The product, its half and its shift in int64, which holds what the machine's own width does."""

    def wide(value: int) -> relax.Expr:
        return relax.const(value, "int64")

    factor = builder.emit(relax.op.astype(factors[0], "int64")) if factors else wide(epilogue.factor or 0)
    acc = builder.emit(relax.op.multiply(builder.emit(relax.op.astype(acc, "int64")), factor))
    if epilogue.rounds and epilogue.shift:
        acc = builder.emit(relax.op.add(acc, wide(1 << epilogue.shift - 1)))
    if epilogue.shift:
        acc = builder.emit(relax.op.right_shift(acc, wide(epilogue.shift)))
    return builder.emit(relax.op.astype(acc, "int32"))


def _shifted(builder: relax.BlockBuilder, acc: relax.Expr, shift: int, addend: int = 0) -> relax.Expr:
    """``acc + addend`` divided by ``2**shift``, rounded half up."""
    addend += 1 << shift - 1 if shift > 0 else 0
    if addend:
        acc = builder.emit(relax.op.add(acc, int32(addend)))
    if shift > 0:
        return builder.emit(relax.op.right_shift(acc, int32(shift)))
    return builder.emit(relax.op.left_shift(acc, int32(-shift))) if shift else acc


def _clipped(builder: relax.BlockBuilder, acc: relax.Expr, low: int, high: int) -> relax.Expr:
    acc = builder.emit(relax.op.maximum(acc, int32(low)))
    acc = builder.emit(relax.op.minimum(acc, int32(high)))
    return builder.emit(relax.op.astype(acc, "int8"))


def int32(value: int | None) -> relax.Expr:
    """Returns a constant int32."""
    return relax.const(value, "int32")


def parameter(name: str, shape: Shape, dtype: str) -> relax.Var:
    """Returns a parameter of a composite."""
    return relax.Var(name, relax.TensorType(list(shape), dtype))


def composite_function(
    op: str,
    nodes: Sequence[str],
    parameters: list[relax.Var],
    compute: Callable[[relax.BlockBuilder], relax.Expr],
    attributes: CompositeAttributes | None = None,
) -> relax.Function:
    """Returns the composite ``op`` of what ``compute`` emits; without ``attributes`` it is the host's."""
    builder = relax.BlockBuilder()
    attrs = {"op": op, "nodes": list(nodes)} | ({COMPOSITE: dump_attributes(attributes)} if attributes else {})
    with builder.function("composite", parameters, attrs=attrs, private=True):
        with builder.dataflow():
            result = builder.emit_output(compute(builder))
        builder.emit_func_output(result)
    return builder.get()["composite"]
