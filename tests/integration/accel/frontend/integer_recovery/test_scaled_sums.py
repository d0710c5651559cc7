"""Mode "scale": additions that requantise by a float32, rounding half to even."""

from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from examples.graph import Graph
from tests.helpers.models.scaled_layers import (
    INT8,
    ZERO,
    check_against_onnxruntime,
    composites,
    operators,
    quantised_model,
    scaled,
)
from tests.reference.host import draw_inputs, run_onnx, run_relax


@dataclass(frozen=True)
class Sum:
    """``a + b`` with scales ``finer << shifts``."""

    finer: float
    shifts: tuple[int, int]
    output: float

    def model(self, shape: tuple[int, ...] = (3, 40)) -> onnx.ModelProto:
        graph, finer = Graph("sum"), float(np.float32(self.finer))
        operands = [
            graph.dequantize(graph.input(name, shape, INT8), finer * 2.0**shift, ZERO)
            for name, shift in zip("ab", self.shifts, strict=True)
        ]
        return quantised_model(graph, graph.node("Add", "sum", operands), shape, self.output, relu=False)


@settings(max_examples=15, deadline=None)
@given(
    finer=st.floats(2.0**-12, 2.0**3, width=32), shift=st.integers(0, 6), swapped=st.booleans(), grown=st.floats(0.3, 3)
)
def test_a_sum_of_operands_a_power_of_two_apart_is_exact(
    *, finer: float, shift: int, swapped: bool, grown: float
) -> None:
    output = float(np.float32(finer * grown * 2**shift))
    model = Sum(finer, (0, shift) if swapped else (shift, 0), output).model()
    imported = import_integer_model(model, "scale")
    (function,) = composites(imported).values()
    assert function.attrs["op"] == "add"
    assert operators(function)[-6:] == ["add", "astype", "multiply", "round", "clip", "astype"]
    inputs = draw_inputs(model)
    a, b = (value.astype(np.int64) for value in inputs.values())
    acc = a + (b << shift) if swapped else (a << shift) + b
    factor = np.float64(finer) / output
    (result,) = run_relax(imported, a.astype(np.int8), b.astype(np.int8))
    np.testing.assert_array_equal(result, scaled(acc, factor))
    check_against_onnxruntime(result, model, acc * factor, np.full(acc.shape, 512 * factor * 2**shift * 2.0**-22))


def test_a_sum_of_operands_too_far_apart_stays_in_float() -> None:
    graph, a, b = Graph("sum"), 2.0**14, 2.0**-10
    operands = [graph.dequantize(graph.input(n, (4, 4), INT8), s, ZERO) for n, s in (("a", a), ("b", b))]
    model = quantised_model(graph, graph.node("Add", "sum", operands), (4, 4), 2 * a, relu=False)
    imported = import_integer_model(model, "scale")
    assert not composites(imported)
    inputs = draw_inputs(model)
    np.testing.assert_array_equal(run_relax(imported, *inputs.values()), run_onnx(model, inputs))


def test_where_the_accelerator_shifts_the_weights_make_the_unit_a_power_of_two() -> None:
    model = Sum(0.1, (0, 1), 0.3).model()
    (shifting,) = composites(import_integer_model(model)).values()
    (scaling,) = composites(import_integer_model(model, "scale")).values()
    weighed = ["astype", "multiply", "astype", "multiply", "add"]
    assert operators(shifting) == [*weighed, "add", "right_shift", "maximum", "minimum", "astype"]
    assert operators(scaling)[:4] == ["astype", "astype", "left_shift", "add"]
