"""Models of one elementwise operator on int8, and what it is in numpy: exact sums, then one rounding."""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from examples.graph import Graph

_ZERO = np.array(0, np.int8)
UNARY = ("Relu", "Clip", "Requantise")
BINARY = ("Sub", "Mul")
MANY = ("Sum", "Max", "Min", "Add")


@dataclass(frozen=True)
class Work:
    """An operator on int8 tensors of one ``shape``, their scales ``2**exponents``, the result's ``2**result``.

    ``constant``: the last operand is one, a number a channel.
    """

    op: str
    shape: tuple[int, ...]
    exponents: tuple[int, ...]
    result: int
    relu: bool = False
    constant: bool = False


def work_model(work: Work) -> onnx.ModelProto:
    """Inputs ``x0``, ...; node ``work``, and ``relu`` behind it; output ``y``."""
    graph = Graph("elementwise")
    operands = []
    for number, exponent in enumerate(work.exponents):
        if work.constant and number == len(work.exponents) - 1:
            x = graph.constant("constant", constant_of(work))
        else:
            x = graph.input(f"x{number}", work.shape, TensorProto.INT8)
        operands.append(graph.dequantize(x, 2.0**exponent, _ZERO))
    y = operands[0]
    if work.op == "Clip":
        bounds = [graph.constant(f"bound{n}", np.array(bound, np.float32)) for n, bound in enumerate((-1.0, 2.0))]
        y = graph.node("Clip", "work", [y, *bounds])
    elif work.op != "Requantise":
        y = graph.node(work.op, "work", operands)
    if work.relu:
        y = graph.node("Relu", "relu", [y])
    graph.output(graph.quantize(y, 2.0**work.result, _ZERO, "y"), work.shape, TensorProto.INT8)
    return graph.model()


def constant_of(work: Work) -> npt.NDArray[np.int8]:
    """The constant operand: [C, 1, 1] of an image, [C] of a matrix."""
    channels = work.shape[1]
    values = np.random.default_rng(channels).integers(-128, 128, channels).astype(np.int8)
    return values.reshape(-1, 1, 1) if len(work.shape) == 4 else values


def expected(work: Work, inputs: dict[str, npt.NDArray[np.int8]]) -> dict[str, npt.NDArray[np.int8]]:
    """The result in exact rational arithmetic of float64, rounded half up, half down, and half to even."""
    values = [x.astype(np.float64) for x in inputs.values()]
    if work.constant:
        values.append(np.broadcast_to(constant_of(work), work.shape).astype(np.float64))
    reals = [np.ldexp(value, exponent) for value, exponent in zip(values, work.exponents, strict=True)]
    functions = {"Sum": np.add, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum,
                 "Min": np.minimum}  # fmt: skip
    real = reduce(functions[work.op], reals) if work.op in functions else reals[0]
    if work.op == "Clip":
        real = np.clip(real, -1.0, 2.0)
    if work.relu or work.op == "Relu":
        real = np.maximum(real, 0)
    steps = np.ldexp(real, -work.result)
    return {
        name: np.clip(rounded, -128, 127).astype(np.int8)
        for name, rounded in (("up", np.floor(steps + 0.5)), ("down", np.ceil(steps - 0.5)), ("even", np.rint(steps)))
    }
