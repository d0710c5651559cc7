"""Products of two activations of random shapes, types and zero points, on each kind of machine, against numpy."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.job_stages import check_hazards
from accel.program.program_model import Launch
from accel.simulate.engine import simulate
from tests.helpers.models.build_models import build
from tests.reference.host import draw_inputs

MULTIPLIER = 1 / 16  # steps: where a machine multiplies and shifts, the factor is an integer of few bits
PRESETS = ("vta", "gemmini", "output-stationary", "mvin-mvout", "vector")


@dataclass(frozen=True)
class Product:
    """``a`` [*first, m, k] times ``b`` [*second, k, n]; a result without a scale is float32."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    sizes: tuple[int, int, int]
    zero_points: tuple[int, int, int] = (0, 0, 0)
    scales: tuple[float, float, float | None] = (1 / 16, 1 / 32, 1 / 4)
    dtypes: tuple[str, str, str] = ("int8", "int8", "int8")

    @property
    def shapes(self) -> tuple[list[int], list[int]]:
        m, k, n = self.sizes
        return [*self.first, m, k], [*self.second, k, n]

    def model(self) -> onnx.ModelProto:
        kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in self.dtypes]
        constants, nodes = [], []
        for name, scale, zero, dtype in zip("aby", self.scales, self.zero_points, self.dtypes, strict=True):
            constants.append(numpy_helper.from_array(np.float32(scale or 1), f"{name} scale"))
            constants.append(numpy_helper.from_array(np.array(zero, dtype), f"{name} zero"))
        nodes += [
            helper.make_node("DequantizeLinear", [name, f"{name} scale", f"{name} zero"], [f"{name} real"])
            for name in "ab"
        ]
        nodes.append(helper.make_node("MatMul", ["a real", "b real"], ["sums"], name="product"))
        quantised = self.scales[2] is not None
        if quantised:
            nodes.append(helper.make_node("QuantizeLinear", ["sums", "y scale", "y zero"], ["y"]))
        result = [*np.broadcast_shapes(self.first, self.second), self.sizes[0], self.sizes[2]]
        inputs = [helper.make_tensor_value_info(*each) for each in zip("ab", kinds[:2], self.shapes, strict=True)]
        output = helper.make_tensor_value_info(*(("y", kinds[2]) if quantised else ("sums", TensorProto.FLOAT)), result)
        graph = helper.make_graph(nodes, "product", inputs, [output], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@st.composite
def products(draw: st.DrawFn) -> Product:
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    second = draw(st.sampled_from([batch, batch[1:], tuple(1 for _ in batch)]))
    dtypes = tuple(draw(st.sampled_from(["int8", "int8", "uint8"])) for _ in range(3))
    middle = [128 if dtype == "uint8" else 0 for dtype in dtypes]
    zero_points = [zero + draw(st.sampled_from([0, 0, draw(st.integers(-128, 127))])) for zero in middle]
    return Product(
        batch,
        second,
        (draw(st.integers(1, 40)), draw(st.integers(1, 70)), draw(st.integers(1, 40))),
        (zero_points[0], zero_points[1], zero_points[2]),
        (1 / 16, draw(st.sampled_from([1 / 32, 0.017])), draw(st.sampled_from([None, 1 / 4, 0.9]))),
        (dtypes[0], dtypes[1], dtypes[2]),
    )


def check(product: Product, preset: str) -> None:
    """All products in one launch without races; sums are exact, and a result is the integer nearest to them."""
    model = product.model()
    program = build(model, load_accelerator(preset))
    launches = [step for step in program.steps if isinstance(step, Launch)]
    m, k, n = product.sizes
    batch = np.broadcast_shapes(product.first, product.second)
    assert [launch.macs for launch in launches] == [int(np.prod(batch)) * m * k * n]
    inputs = draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    check_hazards(simulation)
    (result,) = simulation.outputs.values()
    a, b = (inputs[name].astype(np.int64) - zero for name, zero in zip("ab", product.zero_points, strict=False))
    scale = float(np.float32(product.scales[0])) * float(np.float32(product.scales[1]))
    if product.scales[2] is None:
        np.testing.assert_array_equal(result, (a @ b).astype(np.float32) * np.float32(scale))
        return
    limits = np.iinfo(product.dtypes[2])
    exact = (a @ b) * (scale / float(np.float32(product.scales[2]))) + product.zero_points[2]
    assert np.abs(result - exact.clip(limits.min, limits.max)).max() <= 0.5 + MULTIPLIER


@pytest.mark.parametrize("preset", PRESETS)
def test_a_stack_with_a_zero_point(preset: str) -> None:
    """Fails if groups overlap where sizes are no whole tiles, or if a zero point stays in the sums."""
    check(Product((2, 3), (2, 3), (5, 20, 17), (-128, 0, 3)), preset)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@example(product=Product((), (), (33, 64, 33), scales=(1 / 16, 1 / 32, None)))
@example(product=Product((4,), (), (7, 64, 17), (7, -5, 0), (1 / 16, 1 / 32, None)))
@given(product=products())
def test_any_product(product: Product, preset: str) -> None:
    check(product, preset)
