"""Rounding on average: what each operator makes of random int8 against exact arithmetic, on every preset.

Where the mean error of one is not near zero, the report names its node.
"""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator, preset_names
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import InvalidAccelerator
from examples.graph import Graph
from tests.helpers.documents.random_machines import random_machine
from tests.helpers.marking import rest_all

SHAPE = (2, 32, 16, 16)
STEP = 2.0**-4
ACCEPTED = 0.02  # units of the last place
Exact = npt.NDArray[np.float64]
Tensor = tuple[str, Exact]


class Operators:
    """A model of single operators, each from quantised inputs to an output of its own, and what they are exactly."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = Graph("operators")
        self.random = np.random.default_rng(seed)
        self.inputs: dict[str, npt.NDArray[np.int8]] = {}
        self.exact: dict[str, Exact] = {}

    def input(
        self, name: str, shape: tuple[int, ...] = SHAPE, step: float = STEP, zero: int = 0, low: int = -128
    ) -> Tensor:
        """A tensor of random int8, dequantised, and its numbers."""
        data = self.random.integers(low, 128, shape).astype(np.int8)
        self.inputs[name] = data
        value = self.graph.dequantize(self.graph.input(name, shape, TensorProto.INT8), step, np.array(zero, np.int8))
        return value, (data.astype(np.float64) - zero) * float(np.float32(step))

    def output(self, name: str, value: str, exact: Exact, step: float, zero: int = 0) -> None:
        """The result of an operator, quantised, and what it would be if nothing were rounded."""
        quantised = self.graph.quantize(value, step, np.array(zero, np.int8), name)
        self.graph.output(quantised, exact.shape, TensorProto.INT8)
        self.exact[name] = np.clip(exact / float(np.float32(step)) + zero, -128, 127)

    def node(self, name: str, op: str, inputs: list[str], **attributes: Any) -> str:
        return self.graph.node(op, f"{name}_{op}", inputs, **attributes)

    def addition(
        self,
        name: str,
        steps: tuple[float, float, float],
        shape: tuple[int, ...] = SHAPE,
        low: int = -128,
        **zeros: int,
    ) -> None:
        (a, at), (b, bt) = (
            self.input(f"{name}_{side}", shape, step, zeros.get(side, 0), low)
            for side, step in zip("ab", steps, strict=False)
        )
        self.output(name, self.node(name, "Add", [a, b]), at + bt, steps[2], zeros.get("y", 0))

    def pair(self, name: str, op: str, exact: Callable[[Exact, Exact], Exact], step: float) -> None:
        a, b = self.input(f"{name}_a"), self.input(f"{name}_b")
        self.output(name, self.node(name, op, [a[0], b[0]]), exact(a[1], b[1]), step)

    def pooling(
        self, name: str, kernel: int, step: float, shape: tuple[int, ...] = SHAPE, zeros: tuple[int, int] = (0, 0)
    ) -> None:
        x, data = self.input(f"{name}_x", shape, zero=zeros[0])
        windows = data.reshape(*shape[:2], shape[2] // kernel, kernel, shape[3] // kernel, kernel)
        attributes = {"kernel_shape": [kernel, kernel], "strides": [kernel, kernel]}
        node = self.node(name, "AveragePool", [x], **attributes)
        self.output(name, node, windows.mean((3, 5)), step, zeros[1])

    def relu(self, name: str, step: float, shape: tuple[int, ...] = SHAPE, zeros: tuple[int, int] = (0, 0)) -> None:
        x, data = self.input(f"{name}_x", shape, zero=zeros[0])
        self.output(name, self.node(name, "Relu", [x]), np.maximum(data, 0), step, zeros[1])

    def concat(self, name: str, step: float, channels: int = 32) -> None:
        shape = (2, channels, 32, 32)
        a, b = self.input(f"{name}_a", shape), self.input(f"{name}_b", shape, step)
        node = self.node(name, "Concat", [a[0], b[0]], axis=1)
        self.output(name, node, np.concatenate([a[1], b[1]], 1), step)

    def products(self, name: str, x: Tensor, filters: int, most: int, *, bias: bool) -> Tensor:
        """A convolution one by one, with weights up to ``most``, of eight channels."""
        values = self.random.integers(-most, most + 1, (filters, x[1].shape[1], 1, 1)).astype(np.int8)
        values[:, 8:] = 0
        w = self.graph.dequantize(self.graph.constant(f"{name}_w", values), STEP, np.array(0, np.int8))
        inputs, exact = [x[0], w], np.einsum("nchw,oc->nohw", x[1], values[:, :, 0, 0] * STEP)
        if bias:
            b = self.random.integers(-9, 10, filters).astype(np.float32) * np.float32(STEP * STEP)
            inputs.append(self.graph.constant(f"{name}_b", b))
            exact = exact + b[None, :, None, None]
        return self.node(name, "Conv", inputs), exact

    def convolution(
        self, name: str, shift: int, *, bias: bool, most: int = 3, zeros: tuple[int, int] = (0, 0), filters: int = 32
    ) -> None:
        """One whose sums a shift by ``shift`` brings to int8."""
        y, exact = self.products(name, self.input(f"{name}_x", zero=zeros[0]), filters, most, bias=bias)
        self.output(name, y, exact, STEP * STEP * 2.0**shift, zeros[1])

    def residual(self, name: str, channels: int = 32) -> None:
        """A convolution to which a tensor is added, as a block of a residual network ends."""
        x, side = self.input(f"{name}_x", (2, channels, 24, 24)), self.input(f"{name}_side", (2, channels, 24, 24))
        y, exact = self.products(name, x, channels, 1, bias=True)
        zero = np.array(0, np.int8)
        middle = self.graph.dequantize(self.graph.quantize(y, 2 * STEP, zero, f"{name}_middle"), 2 * STEP, zero)
        total = self.node(name, "Relu", [self.node(name, "Add", [middle, side[0]])])
        self.output(name, total, np.maximum(np.clip(exact, -256 * STEP, 254 * STEP) + side[1], 0), 4 * STEP)

    def dense(self, name: str, shift: int, columns: int = 10) -> None:
        x, data = self.input(f"{name}_x", (1000, 8))
        values = self.random.integers(-2, 3, (8, columns)).astype(np.int8)
        w = self.graph.dequantize(self.graph.constant(f"{name}_w", values), STEP, np.array(0, np.int8))
        self.output(name, self.node(name, "MatMul", [x, w]), data @ (values * STEP), STEP * STEP * 2.0**shift)

    def model(self) -> onnx.ModelProto:
        return self.graph.model()

    def biased(self, accelerator: Accelerator, folder: Path) -> tuple[dict[str, float], str]:
        """The mean errors that are not near zero, and what the report warns of."""
        report = run_model(
            self.model().SerializeToString(),
            accelerator,
            Options(trace=False, schedule="quick"),
            folder,
            inputs=dict(self.inputs),
        )
        assert report.verified or not report.layers
        results = np.load(folder / "outputs.npz")
        errors = {name: float((results[name] - exact).mean()) for name, exact in self.exact.items()}
        warnings = " ".join(warning.detail for warning in report.warnings if warning.kind == "biased-rounding")
        return {name: error for name, error in errors.items() if abs(error) > ACCEPTED}, warnings


def sums() -> Operators:
    made = Operators()
    made.addition("halves", (STEP, STEP, 2 * STEP))
    made.addition("quarters", (STEP, STEP, 4 * STEP))
    made.addition("unlike", (STEP, 2 * STEP, 4 * STEP))
    made.addition("positive", (STEP, STEP, 2 * STEP), low=0)
    made.addition("rows", (STEP, STEP, 2 * STEP), (200, 48))
    made.addition("two_levels", (0.03, 0.05, 0.07))
    made.addition("with_zeros", (0.03, 0.05, 0.07), a=-7, b=31, y=-50)
    made.addition("halves_with_zeros", (STEP, STEP, 2 * STEP), a=-7, b=31, y=-50)
    made.addition("of_3_channels_with_zeros", (STEP, STEP, 2 * STEP), (1, 3, 32, 31), a=-7, b=31, y=-50)
    made.addition("far_apart", (STEP, 64 * STEP, 128 * STEP))
    for channels in (1, 3, 5, 7, 10):
        made.addition(f"of_{channels}_channels", (STEP, STEP, 2 * STEP), (1, channels, 32, 31))
    made.addition("of_odd_rows", (STEP, STEP, 2 * STEP), (1001, 7))
    made.addition("of_rank_3", (STEP, STEP, 2 * STEP), (3, 400, 5))
    made.pair("product", "Mul", np.multiply, 2 * STEP * STEP * 2**6)
    made.pair("small_product", "Mul", np.multiply, STEP * STEP * 2**5)
    made.pair("largest", "Max", np.maximum, 2 * STEP)
    made.relu("relu", 2 * STEP)
    made.relu("relu_of_3_channels", 2 * STEP, (2, 3, 32, 32))
    made.concat("joined", 2 * STEP)
    made.concat("joined_of_5", 2 * STEP, 5)
    return made


def layers() -> Operators:
    made = Operators()
    made.pooling("pool2", 2, STEP, (2, 32, 32, 32))
    made.pooling("pool2_finer", 2, STEP / 2, (2, 32, 32, 32))
    made.pooling("pool_all", 8, STEP / 8, (64, 32, 8, 8))
    made.pooling("pool_of_one_channel", 4, 0.011, (4, 1, 128, 128))
    made.pooling("pool_with_zeros", 2, 0.05, (2, 32, 32, 32), (-20, 37))
    made.pooling("pool_of_3_with_zeros", 2, 0.0471, (8, 3, 64, 64), (-20, 37))
    made.relu("relu_with_zeros", 0.0471, zeros=(-20, -101))
    made.convolution("conv1", 1, bias=False, most=1)
    made.convolution("conv3", 3, bias=True)
    made.convolution("conv4", 4, bias=False)
    made.convolution("conv6", 6, bias=True)
    made.convolution("conv3_with_zeros", 3, bias=False, zeros=(-20, 37))
    made.convolution("conv4_with_zeros", 4, bias=True, zeros=(-128, 5))
    made.convolution("conv1_of_zero", 1, bias=False, most=1, zeros=(-3, 0))
    made.convolution("conv3_to_zero", 3, bias=False, zeros=(0, -20), filters=10)
    made.pooling("pool2_with_zeros", 2, STEP, (2, 32, 32, 32), (-20, 37))
    made.relu("relu_halves_with_zeros", 2 * STEP, zeros=(-20, -101))
    made.residual("residual")
    made.residual("residual_of_10", 10)
    made.residual("residual_of_3", 3)
    made.dense("dense", 3)
    made.dense("dense_of_many", 2, 64)
    return made


KINDS = {"vta": layers, "gemmini": sums, "output-stationary": layers, "vector": sums, "mvin-mvout": layers}


def turns() -> Iterator[Any]:
    """All operators on VTA, and half of them on a machine of each other kind."""
    yield "vta", sums
    for preset, made in product(preset_names(), (sums, layers)):
        mine = KINDS.get(preset) is made
        if (preset, made) != ("vta", sums):
            yield pytest.param(preset, made, marks=pytest.mark.slow if mine else pytest.mark.all)


@pytest.mark.parametrize(("preset", "made"), list(turns()))
def test_no_operator_is_off_on_average(preset: str, made: Callable[[], Operators], tmp_path: Path) -> None:
    assert made().biased(load_accelerator(preset), tmp_path) == ({}, "")


@pytest.mark.parametrize("seed", rest_all([pytest.param(0, marks=pytest.mark.slow), *range(1, 24)]))
def test_random_machines_round_without_bias_or_say_so(seed: int, tmp_path: Path) -> None:
    try:
        accelerator = parse_accelerator(random_machine(seed))
    except InvalidAccelerator:
        pytest.skip("a check refuses the machine")
    made = Operators(seed)
    made.addition("halves", (STEP, STEP, 2 * STEP), (1, 16, 32, 32))
    made.addition("two_levels", (0.03, 0.05, 0.07), (1, 16, 32, 32))
    made.relu("relu", 2 * STEP)
    made.pooling("pool", 2, STEP, (2, 16, 32, 32))
    made.convolution("conv", 3, bias=seed % 2 == 0)
    found, warnings = made.biased(accelerator, tmp_path)
    assert [name for name in found if f"{name}_" not in warnings] == []


@pytest.mark.slow
def test_what_cannot_be_balanced_is_told_with_its_cost(tmp_path: Path) -> None:
    """Averages of three channels, as a constant of each channel has no half of three; the plan warns too."""
    made = Operators()
    made.pooling("few", 2, STEP, (8, 3, 64, 64))
    accelerator = load_accelerator("vta")
    found, warnings = made.biased(accelerator, tmp_path)
    assert abs(found["few"]) == pytest.approx(2.0**-3 / 3, abs=0.01)
    assert warnings.startswith("1 tensor is rounded with a mean error of over 0.02 units of the last place: ")
    assert "few_AveragePool by 0.042; their channels are too few" in warnings
    assert warnings in [
        warning.detail for warning in plan_model(made.model().SerializeToString(), accelerator).warnings
    ]


def without_sums_of_tensors() -> Accelerator:
    """The vector machine without the addition of one accumulator to another."""
    document = load_accelerator("vector").model_dump(mode="json", exclude_none=True)
    (unit,) = (each for each in document["instructions"] if each["name"] == "valu")
    unit["operations"] = [each for each in unit["operations"] if each["name"] != "add"]
    return parse_accelerator(document)


@pytest.mark.slow
def test_a_machine_that_adds_no_tensor_is_told_of_its_bias(tmp_path: Path) -> None:
    made = Operators()
    made.relu("relu", 2 * STEP)
    made.convolution("conv3", 3, bias=False)
    accelerator = without_sums_of_tensors()
    found, warnings = made.biased(accelerator, tmp_path)
    assert found == {"relu": pytest.approx(1 / 8, abs=0.01)}  # half of its elements are 0
    assert "relu_Relu by 0.25" in warnings
    assert f"{accelerator.title} adds no tensor to these sums" in warnings
    assert "conv3" not in warnings  # whose sums begin as a bias
