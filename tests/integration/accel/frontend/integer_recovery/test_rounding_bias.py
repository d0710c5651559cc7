"""Rounding on average: what each operator makes of random int8 against exact arithmetic, on every preset."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto

from accel.catalog.load_accelerator import load_accelerator, preset_names
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from examples.graph import Graph

INT8 = np.array(0, np.int8)
SHAPE = (2, 32, 16, 16)
STEP = 2.0**-4
Exact = npt.NDArray[np.float64]


class Operators:
    """A model of single operators, each from quantised inputs to an output of its own, and what they are exactly."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = Graph("operators")
        self.random = np.random.default_rng(seed)
        self.inputs: dict[str, npt.NDArray[np.int8]] = {}
        self.exact: dict[str, Exact] = {}

    def input(
        self, name: str, shape: tuple[int, ...] = SHAPE, step: float = STEP, low: int = -128
    ) -> tuple[str, Exact]:
        """A tensor of random int8, dequantised, and its numbers."""
        data = self.random.integers(low, 128, shape).astype(np.int8)
        self.inputs[name] = data
        value = self.graph.dequantize(self.graph.input(name, shape, TensorProto.INT8), step, INT8)
        return value, data.astype(np.float64) * step

    def output(self, name: str, value: str, exact: Exact, step: float) -> None:
        """The result of an operator, quantised, and what it would be if nothing were rounded."""
        self.graph.output(self.graph.quantize(value, step, INT8, name), exact.shape, TensorProto.INT8)
        self.exact[name] = np.clip(exact / step, -128, 127)

    def addition(
        self, name: str, steps: tuple[float, float, float], shape: tuple[int, ...] = SHAPE, low: int = -128
    ) -> None:
        a, b = (self.input(f"{name}_{side}", shape, step, low) for side, step in zip("ab", steps, strict=False))
        self.output(name, self.graph.node("Add", f"{name}_add", [a[0], b[0]]), a[1] + b[1], steps[2])

    def pair(self, name: str, op: str, exact: Callable[[Exact, Exact], Exact], step: float) -> None:
        a, b = self.input(f"{name}_a"), self.input(f"{name}_b")
        self.output(name, self.graph.node(op, f"{name}_op", [a[0], b[0]]), exact(a[1], b[1]), step)

    def pooling(self, name: str, kernel: int, step: float) -> None:
        x, data = self.input(f"{name}_x")
        windows = data.reshape(*data.shape[:2], 16 // kernel, kernel, 16 // kernel, kernel)
        attributes = {"kernel_shape": [kernel, kernel], "strides": [kernel, kernel]}
        node = self.graph.node("AveragePool", f"{name}_pool", [x], **attributes)
        self.output(name, node, windows.mean((3, 5)), step)

    def rescale(self, name: str, op: str, step: float) -> None:
        x, data = self.input(f"{name}_x")
        exact = np.maximum(data, 0) if op == "Relu" else data
        self.output(name, self.graph.node(op, f"{name}_op", [x]), exact, step)

    def concat(self, name: str, step: float) -> None:
        a, b = self.input(f"{name}_a"), self.input(f"{name}_b", step=step)
        node = self.graph.node("Concat", f"{name}_op", [a[0], b[0]], axis=1)
        self.output(name, node, np.concatenate([a[1], b[1]], 1), step)

    def convolution(self, name: str, shift: int, *, bias: bool, weights: int = 3) -> None:
        """One by one, with small weights, whose sums a shift by ``shift`` brings to int8."""
        x, data = self.input(f"{name}_x")
        values = self.random.integers(-weights, weights + 1, (32, 32, 1, 1)).astype(np.int8)
        values[:, 8:] = 0
        w = self.graph.dequantize(self.graph.constant(f"{name}_w", values), STEP, INT8)
        inputs, exact = [x, w], np.einsum("nchw,oc->nohw", data, values[:, :, 0, 0] * STEP)
        if bias:
            b = self.random.integers(-9, 10, 32).astype(np.float32) * np.float32(STEP * STEP)
            inputs.append(self.graph.constant(f"{name}_b", b))
            exact = exact + b[None, :, None, None]
        self.output(name, self.graph.node("Conv", f"{name}_op", inputs), exact, STEP * STEP * 2.0**shift)

    def model(self) -> onnx.ModelProto:
        return self.graph.model()


def everything() -> Operators:
    made = Operators()
    made.addition("halves", (STEP, STEP, 2 * STEP))
    made.addition("quarters", (STEP, STEP, 4 * STEP))
    made.addition("unlike", (STEP, 2 * STEP, 4 * STEP))
    made.addition("positive", (STEP, STEP, 2 * STEP), low=0)
    made.addition("rows", (STEP, STEP, 2 * STEP), (200, 48))
    made.addition("two_levels", (0.03, 0.05, 0.07))
    made.addition("far_apart", (STEP, 64 * STEP, 128 * STEP))
    made.pair("product", "Mul", np.multiply, 2 * STEP * STEP * 2**6)
    made.pair("small_product", "Mul", np.multiply, STEP * STEP * 2**5)
    made.pair("largest", "Max", np.maximum, 2 * STEP)
    made.pooling("pool2", 2, STEP)
    made.pooling("pool2_finer", 2, STEP / 2)
    made.pooling("pool_all", 16, STEP / 8)
    made.rescale("relu", "Relu", 2 * STEP)
    made.concat("joined", 2 * STEP)
    made.convolution("conv1", 1, bias=False, weights=1)
    made.convolution("conv3", 3, bias=True)
    made.convolution("conv4", 4, bias=False)
    made.convolution("conv6", 6, bias=True)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("preset", preset_names())
def test_no_operator_is_off_on_average(preset: str, tmp_path: Path) -> None:
    made = everything()
    inputs: dict[str, npt.NDArray[Any]] = dict(made.inputs)
    report = run_model(
        made.model().SerializeToString(),
        load_accelerator(preset),
        Options(trace=False, schedule="quick"),
        tmp_path,
        inputs=inputs,
    )
    assert report.verified
    results = np.load(tmp_path / "outputs.npz")
    biases = {name: float((results[name] - exact).mean()) for name, exact in made.exact.items()}
    assert {name: bias for name, bias in biases.items() if abs(bias) > 0.02} == {}
