"""Composites' attributes say what their bodies compute: both are evaluated, each by itself, on the same integers."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tvm import ir, relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.composite_functions import (
    AnyEpilogue,
    ConvolutionWindow,
    MultipliedEpilogue,
    ScaledEpilogue,
    ShiftEpilogue,
)
from accel.lowering.analysis.composite import CompositeRegion, read_composite
from accel.region.composite_attributes import CompositeAttributes, dump_attributes, load_attributes
from accel.region.elementwise import Combination
from accel.region.epilogue import EpilogueOp, Scaling
from accel.region.shapes import SlidingWindow
from accel.util.deadline import Deadline
from accel.verify.reference_operators import run

EPILOGUES: dict[str, AnyEpilogue] = {
    "right": ShiftEpilogue(3, -100, 90),
    "left": ShiftEpilogue(-2, -128, 127),
    "as they are": ShiftEpilogue(0, 0, 127),
    "scaled": ScaledEpilogue(0.0371, -128, 100),
    "multiplied": MultipliedEpilogue(2, 5, rounds=True, shift=4, zero_point=-7, low=-128, high=127),
    "multiplied and cut": MultipliedEpilogue(0, 3, rounds=False, shift=5, zero_point=0, low=-20, high=127),
    "multiplied by channel": MultipliedEpilogue(1, None, rounds=True, shift=6, zero_point=3, low=-128, high=127),
}
PAIRS: dict[Combination, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply}
Ints = npt.NDArray[np.int64]


def numbers(*shape: int, low: int = -128, high: int = 128) -> npt.NDArray[np.int8]:
    return np.random.default_rng(len(shape)).integers(low, high, shape).astype(np.int8)


def computed(function: relax.Function, *arguments: npt.NDArray[Any]) -> npt.NDArray[Any]:
    module = relax.transform.CanonicalizeBindings()(ir.IRModule({"composite": function}))
    return run(module["composite"], list(arguments), Deadline(60))


def ended(composite: CompositeRegion, sums: Ints, multiplier: Ints | int = 1) -> Ints:
    """What the attributes say of sums."""
    steps: dict[EpilogueOp, Any] = {
        "add": lambda x, n: x + n,
        "max": np.maximum,
        "min": np.minimum,
        "multiply": lambda x, n: x * n,
        "multiply_tensor": lambda x, _: x * multiplier,
        "shift_right": lambda x, n: x >> n if n >= 0 else x << -n,
    }
    for name, immediate in composite.steps:
        sums = steps[name](sums, immediate)
    if composite.scaling is None:
        return sums
    scaled = np.rint(sums.astype(np.float32) * np.float32(composite.scaling.scale))
    return np.clip(scaled, composite.scaling.low, composite.scaling.high).astype(np.int64)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", EPILOGUES)
def test_products(name: str, *, bias: bool) -> None:
    data, weights = numbers(3, 5), numbers(5, 7)
    added, factors = np.arange(-300, 400, 100, np.int32)[None], np.arange(1, 8, dtype=np.int32)[None]
    epilogue = EPILOGUES[name]
    function = composite_functions.dense(["one"], data.shape, weights.shape, bias=bias, epilogue=epilogue)
    composite = read_composite(function)
    given = {"x": data, "w": weights, "b": added, "m": factors}
    result = computed(function, *(given[parameter] for parameter in composite.parameters))
    sums = data.astype(np.int64) @ weights + (added if composite.has_bias else 0)
    assert (composite.has_bias, composite.narrow) == (bias, True)
    assert np.array_equal(result, ended(composite, sums, factors.astype(np.int64)))
    assert len(np.unique(result)) > 1


@pytest.mark.parametrize("name", [name for name in EPILOGUES if name != "multiplied by channel"])
@pytest.mark.parametrize("combination", PAIRS)
def test_elementwise_work(name: str, combination: Combination) -> None:
    operands, weights = (numbers(4, 6), numbers(6, 4).T.copy(), numbers(4, 6, low=0)), (1, 8, 3)
    function = composite_functions.elementwise(["one"], (4, 6), weights, combination, 40, EPILOGUES[name])
    composite = read_composite(function)
    terms = [operand.astype(np.int64) * weight for operand, weight in zip(operands, composite.weights, strict=True)]
    combined = PAIRS[composite.combination](PAIRS[composite.combination](*terms[:2]), terms[2])
    assert np.array_equal(computed(function, *operands), ended(composite, combined))


@pytest.mark.parametrize("name", ["right", "scaled"])
def test_additions(name: str) -> None:
    first, second = numbers(4, 6), numbers(6, 4).T.copy()
    function = composite_functions.add(["one", "two"], (4, 6), (4, 5), -9, EPILOGUES[name])
    composite = read_composite(function)
    assert (composite.op, composite.nodes, composite.combination) == ("add", ("one", "two"), "sum")
    sums = first.astype(np.int64) * composite.weights[0] + second.astype(np.int64) * composite.weights[1]
    assert np.array_equal(computed(function, first, second), ended(composite, sums))


def test_windows() -> None:
    window = ConvolutionWindow((2, 1), (1, 2, 3, 0), (1, 2), 2)
    wanted = SlidingWindow((3, 5), (2, 1), (1, 2), (1, 2, 3, 0))
    for average in (True, False):
        function = composite_functions.conv2d(
            ["one"], (1, 4, 9, 9), (6, 2, 3, 5), window, bias=False, epilogue=None, average=average
        )
        composite = read_composite(function)
        assert (composite.window, composite.groups, composite.average) == (wanted, 2, average)
        assert (composite.narrow, composite.steps, composite.scaling) == (False, (), None)
    for bounds, steps in (((-128, 127), ()), ((0, 99), (("max", 0), ("min", 99)))):
        pooling = read_composite(composite_functions.max_pool(["one"], (1, 4, 9, 9), window, (3, 5), bounds))
        assert (pooling.window, pooling.steps, pooling.narrow) == (wanted, steps, bool(steps))


def test_attributes_are_read_as_they_were_written() -> None:
    for scaling in (None, Scaling(float(np.float32(0.1)), -128, 127), Scaling(1e-40, 0, 1)):
        window = SlidingWindow((1, 2), (3, 4), (5, 6), (7, 8, 9, 10))
        attributes = CompositeAttributes(window=window, weights=(3, -4), steps=(("add", -1),), scaling=scaling)
        assert load_attributes(dump_attributes(attributes)) == attributes
