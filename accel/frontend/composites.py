"""The composite functions: integer arithmetic in the normal form that the lowering expects.

Each is a private Relax function of one dataflow block, called from ``main`` with its constants as arguments,
with the attributes ``op`` and ``nodes``. Their bindings, in order (brackets: may be absent):

- ``conv2d``: f(x int8 [N, C, H, W], w int8 [O, C / groups, KH, KW], [b int32 [1, O, 1, 1]]);
  nn.conv2d to int32, [add b], epilogue.
- ``dense``: f(x int8 [M, K], w int8 [K, N], [b int32 [1, N]]); matmul to int32, [add b], epilogue.
- ``add``: f(a int8, b int8), of one shape; astype a to int32, [left_shift], astype b to int32, [left_shift],
  add, epilogue.
- ``requantize``, for the host: f(a int32, scale float32); astype to float32, multiply, round (half to even),
  [add the zero point], clip, astype to int8 or uint8. Its attribute ``cause`` says why it is no epilogue.

The epilogue is one of two, as the accelerator requantises; relu and clip are folded into its bounds.

- :class:`Epilogue`, by a power of two: with shift s > 0 add 2^(s-1) and right_shift by s (which rounds half
  up), with s < 0 left_shift by -s, with s = 0 nothing; maximum with the lower bound, minimum with the upper
  one; astype to int8.
- :class:`ScaledEpilogue`, by a float: astype to float32 (int32 beyond 2^24 rounds, half to even); multiply by
  the scale, a constant float32 of shape [], as the second operand; round (half to even); clip to the bounds, as
  floats; astype to int8. These five bindings are always there, also where the scale is 1.

So the first binding after the accumulator is an astype to float32 in the second and in no other case. Without
an epilogue, ``conv2d`` and ``dense`` return the int32 accumulator.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import relax

Shape = Sequence[int]


@dataclass(frozen=True)
class Epilogue:
    """Requantisation by ``2**-shift``, then clipping to [low, high]."""

    shift: int
    low: int
    high: int


@dataclass(frozen=True)
class ScaledEpilogue:
    """Requantisation by ``scale``, a finite float32 not below 0, rounded half to even; then clipping to [low, high]."""

    scale: float
    low: int
    high: int


AnyEpilogue = Epilogue | ScaledEpilogue


@dataclass(frozen=True)
class Quantum:
    """The integers of a result: their type, and which of them stands for 0."""

    dtype: str
    zero_point: int


@dataclass(frozen=True)
class Window:
    """How a convolution walks its input; ``padding`` is top, left, bottom, right."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


def conv2d(
    nodes: Sequence[str], x: Shape, w: Shape, window: Window, *, bias: bool, epilogue: AnyEpilogue | None
) -> relax.Function:
    """The composite ``conv2d`` of data of shape ``x`` [N, C, H, W] with weights of shape ``w``."""

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

    return _contraction("conv2d", nodes, (x, w, (1, w[0], 1, 1) if bias else None), accumulate, epilogue)


def dense(nodes: Sequence[str], x: Shape, w: Shape, *, bias: bool, epilogue: AnyEpilogue | None) -> relax.Function:
    """The composite ``dense`` of data of shape ``x`` [M, K] with weights of shape ``w`` [K, N]."""

    def accumulate(builder: relax.BlockBuilder, data: relax.Var, weight: relax.Var) -> relax.Expr:
        return builder.emit(relax.op.matmul(data, weight, out_dtype="int32"))

    return _contraction("dense", nodes, (x, w, (1, w[1]) if bias else None), accumulate, epilogue)


def add(nodes: Sequence[str], shape: Shape, shifts: tuple[int, int], epilogue: AnyEpilogue) -> relax.Function:
    """The composite ``add``: the operands are shifted left by ``shifts`` to a common scale."""
    operands = [_parameter(name, shape, "int8") for name in ("a", "b")]

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        terms = []
        for operand, shift in zip(operands, shifts, strict=True):
            term = builder.emit(relax.op.astype(operand, "int32"))
            terms.append(builder.emit(relax.op.left_shift(term, relax.const(shift, "int32"))) if shift else term)
        return _requantised(builder, builder.emit(relax.op.add(*terms)), epilogue)

    return _function("add", nodes, operands, compute)


def requantize(
    nodes: Sequence[str], acc: Shape, scale: Shape, quantum: Quantum, bounds: tuple[int, int], cause: str
) -> relax.Function:
    """The composite ``requantize`` of an accumulator of shape ``acc`` by a scale of a shape that broadcasts to it.

    Its attribute ``cause`` says why it is no epilogue.
    """
    parameters = [_parameter("acc", acc, "int32"), _parameter("scale", scale, "float32")]

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        value = _rounded(builder, parameters[0], parameters[1])
        if quantum.zero_point:
            value = builder.emit(relax.op.add(value, relax.const(float(quantum.zero_point), "float32")))
        value = builder.emit(relax.op.clip(value, *map(float, bounds)))
        return builder.emit(relax.op.astype(value, quantum.dtype))

    return _function("requantize", nodes, parameters, compute).with_attr("cause", cause)


def _contraction(
    op: str,
    nodes: Sequence[str],
    shapes: tuple[Shape, Shape, Shape | None],
    accumulate: Callable[[relax.BlockBuilder, relax.Var, relax.Var], relax.Expr],
    epilogue: AnyEpilogue | None,
) -> relax.Function:
    data, weight = _parameter("x", shapes[0], "int8"), _parameter("w", shapes[1], "int8")
    bias = _parameter("b", shapes[2], "int32") if shapes[2] is not None else None

    def compute(builder: relax.BlockBuilder) -> relax.Expr:
        acc = accumulate(builder, data, weight)
        if bias is not None:
            acc = builder.emit(relax.op.add(acc, bias))
        return acc if epilogue is None else _requantised(builder, acc, epilogue)

    return _function(op, nodes, [data, weight] if bias is None else [data, weight, bias], compute)


def _requantised(builder: relax.BlockBuilder, acc: relax.Expr, epilogue: AnyEpilogue) -> relax.Expr:
    """Emit the epilogue."""
    return _scaled(builder, acc, epilogue) if isinstance(epilogue, ScaledEpilogue) else _shifted(builder, acc, epilogue)


def _scaled(builder: relax.BlockBuilder, acc: relax.Expr, epilogue: ScaledEpilogue) -> relax.Expr:
    value = _rounded(builder, acc, relax.const(epilogue.scale, "float32"))
    value = builder.emit(relax.op.clip(value, float(epilogue.low), float(epilogue.high)))
    return builder.emit(relax.op.astype(value, "int8"))


def _rounded(builder: relax.BlockBuilder, acc: relax.Expr, scale: relax.Expr) -> relax.Expr:
    value = builder.emit(relax.op.astype(acc, "float32"))
    value = builder.emit(relax.op.multiply(value, scale))
    return builder.emit(relax.op.round(value))


def _shifted(builder: relax.BlockBuilder, acc: relax.Expr, epilogue: Epilogue) -> relax.Expr:
    shift = epilogue.shift
    if shift > 0:
        acc = builder.emit(relax.op.add(acc, relax.const(1 << (shift - 1), "int32")))
        acc = builder.emit(relax.op.right_shift(acc, relax.const(shift, "int32")))
    elif shift < 0:
        acc = builder.emit(relax.op.left_shift(acc, relax.const(-shift, "int32")))
    acc = builder.emit(relax.op.maximum(acc, relax.const(epilogue.low, "int32")))
    acc = builder.emit(relax.op.minimum(acc, relax.const(epilogue.high, "int32")))
    return builder.emit(relax.op.astype(acc, "int8"))


def _parameter(name: str, shape: Shape, dtype: str) -> relax.Var:
    return relax.Var(name, relax.TensorType(list(shape), dtype))


def _function(
    op: str, nodes: Sequence[str], parameters: list[relax.Var], compute: Callable[[relax.BlockBuilder], relax.Expr]
) -> relax.Function:
    builder = relax.BlockBuilder()
    with builder.function("composite", parameters, attrs={"op": op, "nodes": list(nodes)}, private=True):
        with builder.dataflow():
            result = builder.emit_output(compute(builder))
        builder.emit_func_output(result)
    return builder.get()["composite"]
