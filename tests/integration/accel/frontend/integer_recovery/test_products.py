"""Products of an image and its gate, as in squeeze-and-excite, in integers: by a rule that is written here again."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import quantize_model
from examples.graph import Graph
from tests.helpers.marking import rest_all
from tests.reference.host import Array

_IMAGE, _GATE = (1, 16, 4, 8), (1, 16, 1, 1)
_SCALES = {"x": 0.0371, "gate": 1 / 255, "y": 0.0229}  # by no power of two apart


def _quantised(
    dtype: type[np.int8 | np.uint8], points: tuple[int, int, int], *, swapped: bool = False
) -> onnx.ModelProto:
    """Integers in, integers out."""
    graph = Graph("gated")
    factors = []
    for name, shape, point in zip(("x", "gate"), (_IMAGE, _GATE), points, strict=False):
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        factors.append(graph.dequantize(graph.input(name, shape, kind), _SCALES[name], np.array(point, dtype)))
    product = graph.node("Mul", "scale", factors[::-1] if swapped else factors)
    y = graph.quantize(product, _SCALES["y"], np.array(points[2], dtype))
    graph.output(y, _IMAGE, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    return graph.model()


def _expected(x: Array, gate: Array, points: tuple[int, int, int], dtype: type[np.int8 | np.uint8]) -> Array:
    exact = (x.astype(np.int64) - points[0]) * (gate.astype(np.int64) - points[1])
    factor = np.float32(np.float64(np.float32(_SCALES["x"])) * np.float32(_SCALES["gate"]) / np.float32(_SCALES["y"]))
    steps = np.rint(exact.astype(np.float32) * factor) + points[2]
    return np.clip(steps, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("swapped", rest_all([False, True]))
@pytest.mark.parametrize(
    ("dtype", "points"), rest_all([(np.int8, (-114, -128, 3)), (np.uint8, (5, 0, 131)), (np.int8, (0, 0, 0))])
)
@pytest.mark.parametrize("preset", rest_all(["vta", "gemmini"]))
def test_is_an_integer_product_that_is_rounded_once(
    preset: str, dtype: type[np.int8 | np.uint8], points: tuple[int, int, int], swapped: bool, tmp_path: Path
) -> None:
    """It would catch a zero point that is left out, one operand's taken for the other's, and a second rounding."""
    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    given = {
        name: random.integers(limits.min, limits.max + 1, shape).astype(dtype)
        for name, shape in (("x", _IMAGE), ("gate", _GATE))
    }
    model = _quantised(dtype, points, swapped=swapped)
    run_model(
        model.SerializeToString(),
        load_accelerator(preset),
        Options(trace=False, schedule="quick", limits="some"),
        tmp_path,
        inputs=given,
    )
    (found,) = np.load(tmp_path / "outputs.npz").values()
    np.testing.assert_array_equal(found, _expected(given["x"], given["gate"], points, dtype))


def _squeeze_and_excite() -> onnx.ModelProto:
    graph, random = Graph("gates"), np.random.default_rng(2)

    def conv(x: str, name: str, kernel: int = 1) -> str:
        weight = random.normal(0, 0.2, (16, 16, kernel, kernel)).astype(np.float32)
        constants = [
            graph.constant(f"{name}_w", weight),
            graph.constant(f"{name}_b", random.normal(0, 0.3, 16).astype("f")),
        ]
        return graph.node("Conv", name, [x, *constants], pads=[kernel // 2] * 4)

    x = conv(graph.input("x", (1, 16, 8, 8)), "first", 3)
    x = graph.node("Mul", "silu", [x, graph.node("Sigmoid", "of_first", [x])])
    gate = graph.node("Relu", "middle", [conv(graph.node("GlobalAveragePool", "mean", [x]), "squeeze")])
    gate = graph.node("Sigmoid", "gate", [conv(gate, "excite")])
    x = conv(graph.node("Mul", "scale", [gate, x]), "last")
    graph.output(x, (1, 16, 8, 8))
    return graph.model()


def test_squeeze_and_excite_stays_in_integers() -> None:
    """It would catch a gate, or what it multiplies, that is left in floats."""
    qdq = quantize_model(_squeeze_and_excite())
    imported = import_integer_model(qdq)
    operators = [str(f.attrs["op"]) for v, f in imported.module.functions.items() if v.name_hint != "main"]
    assert sorted(operators) == ["conv2d"] * 5 + ["product", "table", "table"]
    assert sorted(node.op for node in imported.host_nodes.values() if node.op.endswith("Linear")) == [
        "DequantizeLinear",
        "QuantizeLinear",
    ]
